"""Steps of plans that are simulated: rows, figures, and what stages of ZeRO would hold and send."""

from __future__ import annotations

import pytest

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_run import PlanRun
from experiments.parallel.plan_step import Training, state_of, work_of
from experiments.parallel.plan_text import parse_plan
from random_works import RINGS
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.plan_memory import memory
from simulator.parallel.step import Step, write
from simulator.parallel.step_transfers import ranks_of, write_transfers
from topologies.catalogue import find
from topologies.shapes import star

SMALL = "gpt3_1_7b:layers=6,hidden=512,heads=8,seq=256"


def shaped(model: str, device: str = "a100") -> Training:
    """A model on a device."""
    entry = find_transformer(model)
    return Training(entry.name, entry.shape, entry.size, DeviceTimes(device))


def simulated(plan: str, model: str = SMALL, machine: str = "dgx_a100") -> PlanRun:
    """A step on eight GPUs."""
    trained, parsed = shaped(model, machine.rpartition("_")[2]), parse_plan(plan, gpus=8)
    times = GroupTimes(find(machine).build(8), parsed.degrees)
    return PlanRun(trained, parsed, write(work_of(trained, parsed, times)))


def test_a_row_has_the_figures_of_a_step() -> None:
    run = simulated("dp=2,tp=2,pp=2,batch=16,zero=1")
    row = run.row
    shares = "computing_s", "optimizer_s", "exposed_s", "launching_s", "idle_s"
    assert sum(row[name] for name in shares) == pytest.approx(row["step_s"])
    assert sum(run.path.values()) == pytest.approx(row["step_s"])
    assert row["tokens_per_s"] == pytest.approx(16 * 256 / row["step_s"])
    assert 0 < row["mfu"] < 1
    assert {"summary", "critical_path_s", "devices"} < set(run.figures())
    assert sum(device["exposed_tp_s"] for device in run.devices) > 0


def test_the_memory_adds_up_to_the_peak() -> None:
    run = simulated("dp=8,zero=3", "llama3_8b", "hgx_h100")
    assert sum(run.memory.parts(0).values()) == pytest.approx(run.memory.peak)
    parts = [value for name, value in run.record.items() if name not in run.row]
    assert sum(map(float, parts)) == pytest.approx(run.memory.peak)  # type: ignore[arg-type]
    forward, backward = run.held
    assert 0 == forward["start_s"] < forward["end_s"] == backward["start_s"]
    assert max(forward["bytes"], backward["bytes"]) == run.memory.peak
    assert (run.missing, run.advice, len(run.zero)) == (0.0, "", 4)


SHARED = ("data", "experts", "gather", "reduce", "replica", "tied")


def sent(step: Step, device: int) -> float:
    """Bytes that the first rank of a device sends for gradients and parameters."""
    graph, rank = ranks_of(step, ordered=True), step.work.times.degrees.groups("pp")[0, device]
    total = 0.0
    for placed in write_transfers(step).calls:
        _, ranks, tasks = placed.meeting
        if graph.lanes[graph.lane[tasks[0]]] in SHARED and rank in ranks:
            total += placed.fitted.schedule.sent()[ranks.tolist().index(rank)]
    return total


@pytest.mark.parametrize(
    ("model", "options", "shared"),
    [
        ("gpt3_1_7b:layers=2", "dp=4,batch=8", ""),
        ("gpt3_1_7b:layers=2", "dp=2,pp=2,batch=4", ""),
        ("gpt3_1_7b:layers=2", "dp=4,batch=8", ",shard=2,sync=no"),
        ("mixtral_8x7b:layers=1", "dp=4,ep=2", ""),
    ],
)
def test_the_table_of_zero_says_what_plans_with_its_stages_say(
    model: str, options: str, shared: str
) -> None:
    trained, machine = shaped(model), star(4, bandwidth=1e9)
    plans = [
        parse_plan(f"{options},micro=1,zero={zero}{shared * (zero > 1)}", 4) for zero in range(4)
    ]
    works = [work_of(trained, plan, GroupTimes(machine, plan.degrees, RINGS)) for plan in plans]
    steps = [write(work) for work in works]
    for plan, work in zip(plans, works, strict=True):
        result = PlanRun(trained, plan, write(work))
        device = result.memory.fullest
        for zero, row in enumerate(result.zero):
            if shared and plan.zero <= 1 < zero:
                continue
            needed = memory(works[zero], state_of(trained, plans[zero]))
            assert row["held"] == pytest.approx(needed.peaks[device, :3].sum(), rel=1e-12)
            assert row["sent"] == pytest.approx(sent(steps[zero], device), rel=1e-12)


def test_a_pipeline_with_two_copies_has_no_stages_that_share_gradients() -> None:
    trained, plan = shaped("gpt3_1_7b:layers=4"), parse_plan("dp=2,pp=2,schedule=dual_pipe")
    work = work_of(trained, plan, GroupTimes(star(4, bandwidth=1e9), plan.degrees))
    assert [row["zero"] for row in PlanRun(trained, plan, write(work)).zero] == [0, 1]
