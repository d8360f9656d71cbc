"""Winners of searches of plans, beside those of a simulation of every plan that fits.

The models are random, on up to 16 GPUs. A simulation has every part of every layer.
"""

from __future__ import annotations

import random
from math import inf
from statistics import fmean
from typing import Annotated

import pandas as pd
import typer

from experiments import output
from experiments.commands.plan_cases import node_size
from experiments.models.accelerators import DEVICES, accelerator
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_bounds import PlanBounds
from experiments.parallel.plan_search import find_plans, simulate_plan
from experiments.parallel.plan_space import Space
from experiments.parallel.plan_step import Training, work_of
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.parallel.step_measures import measure
from topologies.catalogue import find

MODELS = ("gpt3_1_7b", "llama3_8b", "llama2_70b", "mixtral_8x7b")
MACHINES = ("dgx_a100", "hgx_h100", "hgx_h100:oversubscription=4", "leonardo")


def case(seed: int) -> tuple[Space, GroupTimes]:
    """A random model on a random machine."""
    draw = random.Random(seed)
    gpus, machine = draw.choice((4, 8, 16)), draw.choice(MACHINES)
    layers, heads = draw.choice((4, 6, 8)), draw.choice((8, 16))
    hidden, seq = draw.choice((1024, 2048, 4096)), draw.choice((512, 2048, 4096))
    kv_heads = "" if "gpt3" in (model := draw.choice(MODELS)) else ",kv_heads=8"
    shape = f"layers={layers},hidden={hidden},heads={heads}{kv_heads}"
    entry = find_transformer(f"{model}:{shape},seq={seq}")
    device = DEVICES[machine.partition(":")[0]]
    nodes = -(-gpus // (4 if machine == "leonardo" else 8))
    sign = "," if ":" in machine else ":"
    topology = find(f"{machine}{sign}nodes={nodes}" if nodes > 1 else machine.partition(":")[0])
    built = topology.build(gpus)
    training = Training(entry.name, entry.shape, entry.size, DeviceTimes(device))
    wanted = {
        "batch": gpus * draw.choice((1, 2, 4)),
        "cp": draw.choice((1, 1, 2)),
        "recompute": draw.choice(("none", "full")),
    }
    space = Space(training, gpus, node_size(built, gpus), wanted)
    return space, GroupTimes(built, Degrees(dp=gpus))


def outcome(space: Space, times: GroupTimes) -> dict[str, float]:
    """A search beside a simulation of all plans: numbers of plans, the relative excess of the
    step of the search's winner, the bounds above the time, and the mean of bounds over times."""
    training, result = space.training, find_plans(space, times, least=0)
    bounds = PlanBounds(training, times)
    limit = accelerator(training.times.device).capacity
    seconds, ratios = {}, []
    for plan in space.plans()[0]:
        _, _, memory = simulate_plan(training, plan, times)
        if memory <= limit:
            work = work_of(training, plan, times.under(plan.degrees))
            seconds[plan] = measure(write(work)).step
            ratios.append(bounds.seconds(plan) / seconds[plan])
    # A search also changes its fastest plans, in ways that no plan of the space has.
    winner = result.first[0]
    took = seconds.get(winner.plan, winner.seconds or inf)
    return {
        "plans": len(seconds),
        "simulated": len(result.simulated),
        "excess": took / min(seconds.values()) - 1,
        "above": sum(ratio > 1 for ratio in ratios),
        "ratio": fmean(ratios),
    }


def main(
    count: Annotated[int, typer.Argument(metavar="CASES", min=1)] = 200,
) -> str:
    """Count the cases in which the search finds the fastest plan."""
    progress = output.Progress("cases")
    outcomes = []
    for seed in range(count):
        progress(seed, count)
        outcomes.append(outcome(*case(seed)))
    progress(count, count)
    rows = pd.DataFrame(outcomes)
    right = (rows["excess"] <= 1e-9).sum()
    lines = [
        ["cases", str(count)],
        ["the winner is that of all plans", f"{right} ({right / count:.1%})"],
        ["the winner's step is longer, at most", f"{rows['excess'].max():.3%}"],
        ["plans that fit", str(rows["plans"].sum())],
        ["plans that the search simulated", str(rows["simulated"].sum())],
        ["bounds above the time", str(rows["above"].sum())],
        ["bound / time, mean", f"{rows['ratio'].mean():.3f}"],
    ]
    return output.align(lines)
