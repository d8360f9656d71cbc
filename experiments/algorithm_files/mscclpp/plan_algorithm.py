"""An MSCCL++ plan as an algorithm."""

from __future__ import annotations

from experiments.algorithm_files.free_names import free_name, of_file
from experiments.algorithm_files.mscclpp.plan_reader import Plan
from experiments.algorithm_files.mscclpp.plan_schedule import PlanLanes
from simulator.collectives import Algorithm, algorithms, of_collective


def algorithm_of(plan: Plan) -> Algorithm:
    """A plan as an algorithm for its number of ranks. It is proven when it is simulated."""
    write = PlanLanes(plan).schedule
    ranks, blocks = len(plan.gpus), sum(len(gpu.blocks) for gpu in plan.gpus)
    collective = of_collective(plan.collective, algorithms())[0].collective
    summary = f"MSCCL++, {plan.protocol}, {blocks} thread blocks of {ranks} GPUs"
    return of_file(free_name(plan.name, "json"), collective, write, summary, ranks)
