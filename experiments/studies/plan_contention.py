"""Priced steps beside steps with all transfers, on random small plans.

An error is priced seconds over written seconds, less 1, under the same sharing rule. Beside those
under fair sharing stand errors of a step in which calls of several streams never slow each other
down (`apart`): they tell how much the plans share.

Plans and machines are as users have them. With `--hard` they are any: orders in which tensor
parallelism crosses nodes, three GPUs on a node, NVLinks as slow as a NIC, narrow models.

| cause | of an error above 10% under fifo |
|---|---|
| rates | under fair sharing the error is above 2%, too |
| large | it is not, and most waits on the critical path are behind messages of twice the size |
| order | it is not: media serve messages in another order |
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from experiments import output
from experiments.execution.process_pool import Processes
from experiments.models.accelerators import DEVICES
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.simulations.rules import Rules
from experiments.studies.measured_rows import formatted
from experiments.studies.plan_accuracy import nine_of_ten
from simulator.analysis.critical_path import critical_path
from simulator.engines import run
from simulator.parallel.degrees import AXES
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import Step, write
from simulator.parallel.step_splits import simulate, write_transfers
from simulator.schedules.timeline import Sharing, Timeline
from topologies.catalogue import find
from topologies.errors import InputError

SMALL, LARGE = 0.02, 0.1
MODELS = {"dense": ("gpt3_1_7b", "llama3_8b"), "experts": ("mixtral_8x7b", "qwen3_30b_a3b")}
NODES = {
    4: ("leonardo", "mn5_acc", "alps"),
    8: ("dgx_a100", "hgx_h100", "mi300x", "pcie_box"),
}
"""Machines of the catalogue, by the GPUs of a node."""
HARD_MACHINES = {
    8: "hgx_h100 pcie_box leonardo:nodes=2,nics=1 mn5_acc:nodes=2,nics=1 alps:nodes=2,nics=2 "
    "nodes:per_node=4 nodes:per_node=2",
    12: "nodes:per_node=12 nodes:per_node=6 nodes:per_node=3",
    16: "hgx_h100:nodes=2,nics=1 hgx_h100:nodes=2,nics=2 pcie_box:nodes=2 alps:nodes=4,nics=1 "
    "leonardo:nodes=4,nics=2 mn5_acc:nodes=4,nics=1 nodes:per_node=16 nodes:per_node=4",
}
"""Machines of one, two or four nodes, by their GPUs. The GPUs of a node share one or two NICs."""
PIPELINES = "1f1b", "1f1b", "interleaved", "zb_h1"
HARD_PIPELINES = "1f1b", "gpipe", "interleaved", "zb_h1", "zb_h2", "zb_v", "dual_pipe"


def draw(chance: Random, kind: str) -> tuple[str, str, str, str]:
    """Kind, model, topology and plan, which may not fit each other: as users train.

    - Models have their widths, fewer layers, and a vocabulary that is smaller by as much.
    - Two or four nodes have 1, 2 or 4 NICs each, at most half as many as GPUs.
    - Tensor parallelism stays inside a node, and the order is that of Megatron-LM.
    - A pipeline goes without ZeRO 2 and 3, as in Megatron-LM.
    """
    pick, per_node = chance.choice, chance.choice((4, 8))
    gpus = pick((8, 16)) if per_node == 4 else 16
    nics = pick([number for number in (1, 2, 4) if number <= per_node // 2])
    topology = f"{pick(NODES[per_node])}:nodes={gpus // per_node},nics={nics}"
    model = f"{pick(MODELS[kind])}:layers={pick((4, 8))},seq={pick((2048, 4096))},vocab=16000"
    values: dict[str, Any] = {"ep": pick((2, 4, 8)) if kind == "experts" else 1}
    values["tp"] = pick([degree for degree in (1, 2, 4, 8) if degree <= per_node])
    values |= {"pp": pick((1, 1, 2, 4)), "cp": pick((1, 1, 1, 2))}
    values["dp"] = gpus // (values["tp"] * values["pp"] * values["cp"])
    return kind, model, topology, _plan(chance, values, experts=kind == "experts", hard=False)


def draw_hard(chance: Random, kind: str) -> tuple[str, str, str, str]:
    """The same with any order and degrees, narrow models and odd numbers of GPUs on a node."""
    pick, gpus = chance.choice, chance.choice((8, 8, 12, 16, 16))
    name, layers = pick(MODELS[kind]), 6 if gpus == 12 else pick((4, 8))
    heads = "heads=16" if name.startswith("gpt3") else "heads=16,kv_heads=8"
    sizes = f"hidden={pick((1024, 2048))},{heads},seq={pick((512, 2048))},vocab=16000"
    values: dict[str, Any] = {"ep": pick((2, 4, 8)) if kind == "experts" else 1, "dp": gpus}
    for axis in chance.sample(("tp", "pp", "cp"), 3):
        values[axis] = pick([degree for degree in (1, 1, 2, 3, 4) if values["dp"] % degree == 0])
        values["dp"] //= values[axis]
    plan = _plan(chance, values, experts=kind == "experts", hard=True)
    return kind, f"{name}:layers={layers},{sizes}", pick(HARD_MACHINES[gpus].split()), plan


def _plan(chance: Random, values: dict[str, Any], *, experts: bool, hard: bool) -> str:
    """A plan with these degrees."""
    pick = chance.choice
    values["micro"] = pick((1, 2))
    values["batch"] = values["dp"] * values["micro"] * values["pp"] * pick((1, 2))
    values["zero"] = pick((0, 1, 2, 3) if hard or values["pp"] == 1 else (0, 1))
    values |= {"overlap": pick(("yes", "no")), "bucket": pick(("25MiB", "160MiB"))}
    values["recompute"] = pick(("none", "full"))
    if values["tp"] > 1:
        values["sp"] = pick(("yes", "no")) if hard and not experts else "yes"
    if values["cp"] > 1:
        values["context"] = pick(("ring", "gather", "ulysses"))
    if values["pp"] > 1:
        values["schedule"] = pick(HARD_PIPELINES if hard else PIPELINES)
    if hard and values["pp"] > 1:
        values["synchronous"] = pick(("yes", "no"))
    if hard and pick((True, False)):
        values["order"] = "-".join(chance.sample(AXES, len(AXES)))
    return ",".join(f"{key}={value}" for key, value in values.items())


def step_of(model: str, topology: str, text: str, sharing: Sharing) -> Step:
    """The step of a plan. Raises InputError if the plan does not fit the model."""
    entry, plan, machine = find_transformer(model), parse_plan(text), find(topology)
    device = DeviceTimes(DEVICES.get(machine.name, "h100"))
    training = Training(entry.name, entry.shape, entry.size, device)
    run, built = Rules(sharing=sharing).run, machine.build(plan.degrees.ranks)
    times = GroupTimes(built, plan.degrees, run=run, takes_turns=sharing == "fair")
    return write(work_of(training, plan, times))


def compare(seed: int, *, hard: bool = False) -> output.Record | None:
    """A random plan, of experts if the seed is odd: the seconds of its step priced and written, the
    errors, and the cause of a large one. None if its transfers are not written."""
    chance, steps = Random(seed), list[Step]()
    while not steps:
        case = (draw_hard if hard else draw)(chance, ("dense", "experts")[seed % 2])
        with suppress(InputError):  # degrees that do not divide
            steps = [step_of(*case[1:], sharing) for sharing in ("fair", "fifo")]
    with suppress(InputError):
        fair, fifo = (simulate(step, write_transfers(step)) for step in steps)
        priced = [step.timeline.makespan for step in steps]
        errors = priced[0] / fair.makespan - 1, priced[1] / fifo.makespan - 1
        return {
            **dict(zip(("kind", "model", "topology", "plan"), case, strict=True)),
            **{"priced_fair": priced[0], "written_fair": fair.makespan},
            **{"priced_fifo": priced[1], "written_fifo": fifo.makespan},
            **{"fair": errors[0], "fifo": errors[1]},
            "apart": run(steps[0].routed).makespan / fair.makespan - 1,
            "cause": cause_of(*errors, fifo),
        }
    return None


def cause_of(fair: float, fifo: float, timeline: Timeline) -> str:
    """The cause of an error above 10% under fifo, with the step written; else empty."""
    if abs(fifo) <= LARGE:
        return ""
    if abs(fair) > SMALL:
        return "rates"
    path, nbytes = critical_path(timeline), timeline.schedule.nbytes
    seconds = np.where(path.waiter != path.operation, path.seconds, 0.0)
    large = nbytes[path.operation] >= 2 * nbytes[path.waiter]
    return "large" if seconds[large].sum() > seconds[~large].sum() else "order"


def main(
    plans: Annotated[int, typer.Argument(min=1, help="The number of plans.")] = 300,
    first: Annotated[int, typer.Option(min=0, help="The seed of the first plan.")] = 0,
    hard: Annotated[
        bool, typer.Option(help="Draw plans and machines that few users have.")
    ] = False,
    file: Annotated[Path | None, typer.Argument(help="A csv file for all plans.")] = None,
) -> str:
    """The errors of random plans, and their causes."""
    seeds = dict.fromkeys(range(first, first + plans), 1.0)
    results = dict(Processes(2).map(lambda few: map(partial(compare, hard=hard), few), seeds))
    records = [row for _, row in sorted(results.items()) if row]
    if file is not None:
        output.write(file, output.to_csv(records))
    rows = pd.DataFrame(records)
    causes = rows["cause"][rows["cause"] != ""].value_counts().items()
    counted = [f"{len(seeds) - len(rows)} not written", *(f"{n} by {cause}" for cause, n in causes)]
    return f"{errors(rows)}\n\n{', '.join(counted)}"


def errors(rows: pd.DataFrame) -> str:
    """The errors by kind of plan and sharing rule."""
    chosen = pd.concat([rows.assign(plans="all"), rows.assign(plans=rows["kind"])])
    bias = chosen.melt("plans", ["fair", "apart", "fifo"], "sharing", "bias")
    figures = bias.assign(size=bias["bias"].abs()).groupby(["sharing", "plans"], sort=False)
    table = figures.agg(
        number=("size", "size"),
        mean=("size", "mean"),
        median=("size", "median"),
        p90=("size", nine_of_ten),
        worst=("size", "max"),
        bias=("bias", "mean"),
    )
    formats = {"plans": "{}", "sharing": "{}", "number": "{}"}
    formats |= dict.fromkeys(("mean", "median", "p90", "worst"), "{:.2%}") | {"bias": "{:+.2%}"}
    return formatted(table.reset_index(), formats)
