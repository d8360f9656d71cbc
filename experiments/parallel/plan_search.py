"""The fastest plans of a model on a machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import NamedTuple

from experiments.models.accelerators import accelerator
from experiments.parallel.fitting import OVERHEADS, state_of
from experiments.parallel.plan_bounds import PlanBounds
from experiments.parallel.plan_report import MEANINGS
from experiments.parallel.plan_space import Space
from experiments.parallel.plan_step import Training, interval_of, work_of
from experiments.parallel.plan_text import Plan
from simulator.parallel.bound_search import KEEP, LEAST, SAME, distinct, search
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import CP, EP, SEND, STREAMS, TP
from simulator.parallel.plan_memory import memory
from simulator.parallel.step import Detail, write
from simulator.parallel.step_measures import StepMeasures, measure
from simulator.parallel.step_work import Work
from simulator.uncertainty.interval import Interval
from topologies.errors import InputError
from topologies.units import format_bytes

Progress = Callable[[int, int], object]
ROUNDING = 1e-12
"""Parts of a step below this share of it are rounding errors."""
FEW, MANY = 40_000, 1_000_000
"""Parts of layers in a step that are simulated, at most: usually, and where the CPU limits it."""
LIMITING = 0.5
"""Seconds of launches over those of computing from which on the CPU may limit a step."""
TOO_LARGE = "does not fit in memory"


class Simulated(NamedTuple):
    """A plan that has been simulated."""

    seconds: float
    """Seconds of the step."""
    parts: Mapping[str, float]
    """Seconds of a mean device by what it does; they add up to the step."""
    memory: float
    """Bytes that the fullest rank holds at most."""


@dataclass(frozen=True)
class SearchResult:
    """What a search found."""

    space: Space
    """The plans among which it chose."""
    left_out: Counter[str]
    """Plans that are not bounded, by the reason."""
    limit: float
    """Bytes of the memory of a device."""
    plans: tuple[Plan, ...]
    """The plans that fit in memory."""
    memory: tuple[float, ...]
    """Bytes that the fullest rank of each plan holds at least."""
    bounds: tuple[float, ...]
    """Seconds that no step of a plan goes below."""
    simulated: Mapping[int, Simulated]
    """The plans that are simulated, by their place, the fastest first."""
    intervals: Mapping[int, Interval] = field(default_factory=dict)
    """Those of the steps of the fastest plans, by their place, if a profile says how sure it is."""

    @cached_property
    def first(self) -> list[int]:
        """The places of the fastest plans. Of plans with the same time, the one that holds least
        stands for all."""
        return [self._alike(place)[0] for place in distinct(self._times)[:KEEP]]

    @property
    def ranked(self) -> list[int]:
        """The places of all simulated plans, the fastest first, then those that hold least."""
        groups = (self._alike(place) for place in distinct(self._times))
        return list(dict.fromkeys(place for group in groups for place in group))

    def alike(self, place: int) -> list[int]:
        """Other simulated plans with the same time."""
        return [other for other in self._alike(place) if other != place]

    @cached_property
    def _times(self) -> dict[int, float]:
        return {place: run.seconds for place, run in self.simulated.items()}

    def _alike(self, place: int) -> list[int]:
        """All plans with the time of a plan, those that hold least first, then those with the
        least context parallelism."""
        least, most = (self._times[place] * (1 + sign * 2 * SAME) for sign in (-1, 1))
        same = [other for other, seconds in self._times.items() if least <= seconds <= most]
        return sorted(
            same, key=lambda other: (round(self.simulated[other].memory), self.plans[other].cp)
        )


def find_plans(
    space: Space,
    times: GroupTimes,
    progress: Callable[[str], Progress] = lambda _: lambda *_: None,
    least: int = LEAST,
) -> SearchResult:
    """Bound all plans that fit, and simulate those that may be among the fastest. `progress` makes
    what hears how far a kind of work has come.

    Raises InputError if no plan fits in the memory of a device.
    """
    training = space.training
    plans, left_out = space.plans()
    bounds, limit = PlanBounds(training, times), accelerator(training.times.device).capacity
    least_memory = [bounds.memory(plan) for plan in plans]
    fitting = [number for number, nbytes in enumerate(least_memory) if nbytes <= limit]
    seconds, runs = list[float](), dict[int, Simulated]()
    bounded, simulated = progress("plans bounded"), progress("plans simulated")
    for done, number in enumerate(fitting, 1):
        seconds.append(bounds.seconds(plans[number]))
        bounded(done, len(fitting))

    def simulate(place: int) -> float:
        runs[place] = simulate_plan(training, plans[fitting[place]], times)
        return runs[place].seconds if runs[place].memory <= limit else inf

    order = search(seconds, simulate, least=least, progress=simulated)
    simulated(len(order), len(order))
    if not order:
        best = min(range(len(plans)), key=least_memory.__getitem__)
        needed, device = (format_bytes(size, binary=False) for size in (least_memory[best], limit))
        raise InputError(
            f"no plan of {training.name} on {space.gpus} GPUs fits in memory: {plans[best]} needs "
            f"at least {needed} of {device}: take more GPUs"
        )
    kept = [place for place in range(len(fitting)) if place in order or place not in runs]
    left_out[TOO_LARGE] = len(plans) - len(kept)
    new = {place: number for number, place in enumerate(kept)}
    return SearchResult(
        space,
        left_out,
        limit,
        tuple(plans[fitting[place]] for place in kept),
        tuple(least_memory[fitting[place]] for place in kept),
        tuple(seconds[place] for place in kept),
        {new[place]: runs[place] for place in order},
    )


def with_intervals(result: SearchResult, times: GroupTimes, level: float) -> SearchResult:
    """The result with the intervals of the fastest plans, from those of collectives, which hold the
    share `level` of runs."""
    sure, intervals = times.at("time"), dict[int, Interval]()
    for place in result.first:
        plan = result.plans[place]
        work = work_of(result.space.training, plan, sure.under(plan.degrees))
        intervals[place] = interval_of(work, level, detail_of(work))
    return replace(result, intervals=intervals)


def simulate_plan(training: Training, plan: Plan, times: GroupTimes) -> Simulated:
    """The step of a plan."""
    work = work_of(training, plan, times.under(plan.degrees))
    measures = measure(write(work, detail_of(work)))
    again = sum(part.seconds for stage in work.stages for block in stage for part in block.again)
    again *= work.pipeline.micro_batches / plan.pp
    peak = memory(work, state_of(training, plan), OVERHEADS).peak
    return Simulated(measures.step, _parts(measures, again), peak)


def detail_of(work: Work) -> Detail:
    """How a step is simulated: a part of a layer as an operation in short steps, and where the CPU
    may limit the step. Otherwise a pass of a stage is one, which takes about as long."""
    parts = [
        part
        for stage in work.stages
        for block in stage
        for part in (*block.forward, *block.again, *block.backward)
    ]
    launches, seconds = sum(part.launch for part in parts), sum(part.seconds for part in parts)
    most = FEW if launches < LIMITING * seconds else MANY
    return "layers" if len(parts) * work.pipeline.micro_batches <= most else "passes"


def _parts(measures: StepMeasures, again: float) -> dict[str, float]:
    """What a mean device does."""
    exposed = measures.exposed.mean(axis=0)
    named = {MEANINGS[STREAMS[stream]]: float(exposed[stream]) for stream in (TP, CP, EP, SEND)}
    parts = {
        "computing": float(measures.computing.mean()) - again,
        "recomputation": again,
        **named,
        MEANINGS["data"]: float(exposed.sum()) - sum(named.values()),
        "launches": float(measures.launching.mean()),
        "optimizer": float(measures.optimizer.mean()),
        "bubble": float(measures.idle.mean()),
    }
    least = ROUNDING * measures.step
    return {name: seconds if seconds > least else 0.0 for name, seconds in parts.items()}
