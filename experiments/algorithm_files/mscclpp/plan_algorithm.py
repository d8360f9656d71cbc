"""An MSCCL++ plan as an algorithm."""

from __future__ import annotations

from functools import cache

from experiments.algorithm_files.free_names import free_name
from experiments.algorithm_files.mscclpp.plan_reader import Plan
from experiments.algorithm_files.mscclpp.plan_schedule import PlanLanes
from simulator.collectives import Algorithm, algorithms, of_collective
from simulator.cost_models.cost_model import NO_FORMULA
from simulator.schedules.schedule import Schedule


def algorithm_of(plan: Plan) -> Algorithm:
    """A plan as an algorithm for its number of ranks. It is proven when it is simulated."""
    ranks, lanes = len(plan.gpus), PlanLanes(plan)

    @cache
    def whole() -> Schedule:
        return lanes.schedule()

    def schedule(workers: int, nbytes: float) -> Schedule:
        return whole().scaled(nbytes)

    blocks = sum(len(gpu.blocks) for gpu in plan.gpus)
    return Algorithm(
        free_name(plan.name, "json"),
        of_collective(plan.collective, algorithms())[0].collective,
        schedule,
        NO_FORMULA,
        f"MSCCL++, {plan.protocol}, {blocks} thread blocks of {ranks} GPUs",
        defined=lambda workers: workers == ranks,
    )
