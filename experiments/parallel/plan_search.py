"""The fastest plans of a model on a machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import inf
from typing import Any

from experiments.models.accelerators import accelerator
from experiments.parallel.measured_steps import kind_of, mean_error, whole_interval
from experiments.parallel.plan_bounds import PlanBounds
from experiments.parallel.plan_keys import plain
from experiments.parallel.plan_run import MEANINGS
from experiments.parallel.plan_space import Space, advice
from experiments.parallel.plan_step import Training, interval_of, memory_of, work_of
from experiments.parallel.plan_text import Plan
from experiments.profiles.interval_levels import interval_columns
from experiments.text_lines import bytes_cell
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import CP, EP, SEND, STREAMS, TP
from simulator.parallel.step import Detail, write
from simulator.parallel.step_measures import measure
from simulator.parallel.step_work import Work
from simulator.uncertainty.interval import Interval
from topologies.errors import InputError
from topologies.units import format_seconds

Progress = Callable[[int, int], object]
FASTEST = 10
"""Times of plans that a search shows, if there are as many. Plans that are alike have the same
time."""


@dataclass(eq=False)
class FoundPlan:
    """A plan of a search that fits in memory."""

    plan: Plan
    memory: float = 0.0
    """Bytes that the fullest rank holds: at most if the plan is simulated, else at least."""
    bound: float = inf
    """Seconds that no step of it goes below."""
    seconds: float | None = None
    """Of a step; None: it is not simulated."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Seconds of a mean device by what it does; they add up to the step."""
    is_first: bool = False
    """Whether it is among the fastest. Of plans that take as long, it is the one that holds
    least."""
    interval: Interval | None = None
    """That of the step of one of the fastest, if a profile says how sure it is."""


@dataclass(frozen=True)
class SearchResult:
    """What a search found."""

    space: Space
    left_out: Counter[str]
    """Plans that are not bounded, by the reason."""
    limit: float
    """Bytes of the memory of a device."""
    plans: Sequence[FoundPlan]
    """First come those that are simulated, the fastest first, and of as fast ones those that hold
    least; then the others, those with the lowest bound first."""
    defaults: str = ""
    """Which plan is fastest without the defaults of frameworks, if it is another one."""

    @property
    def first(self) -> list[FoundPlan]:
        """The fastest plans."""
        return [each for each in self.plans if each.is_first]

    @property
    def simulated(self) -> list[FoundPlan]:
        """The plans that are simulated."""
        return [each for each in self.plans if each.seconds is not None]

    def error(self, each: FoundPlan) -> tuple[float | None, str]:
        """The error on measured steps of plans like one of the search, and what it is of."""
        space = self.space
        return mean_error(kind_of(space.training.times, each.plan.zero, space.span))

    def loses_to(self, each: FoundPlan) -> str:
        """Two parts of the step in which a plan loses most to the fastest one, if each makes up 2%
        of the loss; empty for the fastest one itself, and for a plan that is not simulated."""
        best = self.plans[0]
        lost = {name: seconds - best.parts[name] for name, seconds in each.parts.items()}
        least = max(0.02 * sum(lost.values()), 1e-12)  # above the rounding of sums
        most = sorted(lost, key=lambda name: -lost[name])[:2]
        return ", ".join(
            f"{name} +{format_seconds(lost[name])}" for name in most if lost[name] > least
        )

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each plan that fits in memory. What only a simulation tells is None without
        one, and the memory is what the plan holds at least."""
        return [self._row(each) for each in self.plans]

    def _row(self, each: FoundPlan) -> dict[str, Any]:
        space, training, seconds = self.space, self.space.training, each.seconds
        tokens_per_s = space.batch * training.seq / seconds if seconds else None
        return {
            "model": training.name,
            "gpus": space.gpus,
            "plan": str(each.plan),
            "bound_s": each.bound,
            "step_s": seconds,
            "tokens_per_s": tokens_per_s,
            "mfu": tokens_per_s and training.mfu(each.plan, tokens_per_s),
            **training.duration(tokens_per_s or 0.0, space.gpus),
            "memory_bytes": each.memory,
            "left_bytes": self.limit - each.memory,
            "loses_to": self.loses_to(each),
            "fits": True if seconds else None,
            "model_error": self.error(each)[0],
            **interval_columns(each.interval),
        }

    def figures(self) -> dict[str, object]:
        """All figures, for JSON."""
        return {
            "left_out": dict(self.left_out.most_common()),
            **({"defaults": self.defaults} if self.defaults else {}),
            "plans": self.rows,
            "parts_s": {str(each.plan): each.parts for each in self.simulated},
        }


def find_plans(
    space: Space,
    times: GroupTimes,
    progress: Callable[[str], Progress] = lambda _: lambda *_: None,
    least: int = 50,
    level: float = 0.0,
) -> SearchResult:
    """Bound all plans that fit, and simulate those that may be among the fastest, at `least` so
    many. `progress` makes what hears how far a kind of work has come. With a `level` the fastest
    plans have intervals that hold this share of runs.

    Raises InputError if no plan fits in the memory of a device.
    """
    training = space.training
    plans, left_out = space.plans()
    bounds, limit = PlanBounds(training, times), accelerator(training.times.device).capacity
    candidates = [FoundPlan(plan, bounds.memory(plan)) for plan in plans]
    fitting = [each for each in candidates if each.memory <= limit]
    bounded, simulated = progress("plans bounded"), progress("plans simulated")
    for done, each in enumerate(fitting, 1):
        each.bound = bounds.seconds(each.plan)
        bounded(done, len(fitting))

    def simulate(number: int) -> float:
        each = fitting[number]
        seconds, each.parts, each.memory = simulate_plan(training, each.plan, times)
        each.seconds = seconds
        if each.bound == inf:  # a change of a plan, which nothing bounded
            each.bound = seconds
        return seconds if each.memory <= limit else inf

    fastest = search([each.bound for each in fitting], simulate, FASTEST, least, simulated)
    fastest = vary(space, fitting, fastest, simulate)
    simulated(len(fastest), len(fastest))
    if not fastest:
        best = min(candidates, key=lambda each: each.memory)
        fixed = [key for key in space.wanted if key != "batch"]
        hint = f"leave out {', '.join(fixed)} or " if fixed else ""
        raise InputError(
            f"no plan of {training.name} on {space.gpus} GPUs fits in memory: {best.plan} needs at "
            f"least {bytes_cell(best.memory)} of {bytes_cell(limit)}: "
            f"{hint}{advice(training, best.plan, times.topology)}"
        )
    # Plans with the same time make a group.
    starts, groups = {*distinct(fastest)}, list[list[FoundPlan]]()
    for number in fastest:
        if number in starts:
            groups.append([])
        groups[-1].append(fitting[number])
    for group in groups:
        group.sort(key=lambda each: (round(each.memory), each.plan.cp))
    sure, first = times.at("time") if level else None, [group[0] for group in groups[:FASTEST]]
    for each in first:
        each.is_first = True
        each.interval = _interval(training, each.plan, sure, level) if sure else None
    others = [each for each in fitting if each.seconds is None]
    order = [*chain.from_iterable(groups), *sorted(others, key=lambda each: each.bound)]
    every = {each.plan for each in candidates + fitting}
    left_out["does not fit in memory"] = len(every) - len(order)
    defaults = _without_defaults(training, [each.plan for each in first], times)
    return SearchResult(space, left_out, limit, order, defaults)


def _without_defaults(training: Training, plans: Sequence[Plan], times: GroupTimes) -> str:
    """A sentence if another of the fastest plans is first without the defaults of frameworks."""
    without = [plain(plan) for plan in plans]
    if without == list(plans):
        return ""
    seconds = [step for step, _, _ in (simulate_plan(training, plan, times) for plan in without)]
    if seconds[0] <= min(seconds) * (1 + 1e-9):
        return ""
    best = without[seconds.index(min(seconds))]
    return f"Without the defaults of frameworks the fastest of these is {best}."


def search(
    bounds: Sequence[float],
    simulate: Callable[[int], float],
    keep: int,
    least: int,
    progress: Progress | None = None,
) -> dict[int, float]:
    """The seconds of all plans that are simulated, the fastest first, by their place in `bounds`.

    Plans are simulated from the lowest bound on, at `least` so many, until the next bound is longer
    than the time in place `keep`: no other plan can have one of the first `keep` times. A plan
    without end, of infinite seconds, is left out.

    >>> search([3, 1, 2], simulate=[3.5, 2.5, 2.0].__getitem__, keep=1, least=0)
    {2: 2.0, 1: 2.5}
    """
    order = sorted(range(len(bounds)), key=bounds.__getitem__)
    times: dict[int, float] = {}
    worst = inf
    for number in order:
        if len(times) >= least and bounds[number] > worst:
            break
        if progress:
            progress(len(times), max(len(times) + 1, min(least, len(order))))
        seconds = simulate(number)
        if seconds < inf:
            times[number] = seconds
        different = distinct(times)
        if len(different) >= keep:
            worst = times[different[keep - 1]]
    return dict(sorted(times.items(), key=lambda item: item[1]))


def vary(
    space: Space,
    plans: list[FoundPlan],
    times: Mapping[int, float],
    simulate: Callable[[int], float],
) -> dict[int, float]:
    """The seconds of all plans that are simulated, the fastest first, with changes of the fastest
    ones that their bounds do not cover: `plans` grows by these. A change that makes a plan faster
    stays for the next one."""
    times = dict(times)
    for number in distinct(times)[:FASTEST]:
        best = number
        for each in space.changes(plans[number].plan):
            plans.append(FoundPlan(replace(plans[best].plan, **each)))
            try:
                seconds = simulate(len(plans) - 1)
            except InputError:
                plans.pop()  # dual_pipe takes even numbers of micro-batches, two for each device
                continue
            if seconds < inf:
                times[len(plans) - 1] = seconds
            best = len(plans) - 1 if seconds < times[best] else best
    return dict(sorted(times.items(), key=lambda item: item[1]))


def distinct(times: Mapping[int, float]) -> list[int]:
    """A plan for each time, the fastest first, by its place. Sums in another order differ in their
    last digits, which makes no other time.

    >>> distinct({4: 1.0, 2: 1.0, 3: 2.0})
    [4, 3]
    """
    places: list[int] = []
    for place, seconds in sorted(times.items(), key=lambda item: item[1]):
        if not places or seconds > times[places[-1]] * (1 + 1e-9):
            places.append(place)
    return places


def _interval(training: Training, plan: Plan, times: GroupTimes, level: float) -> Interval:
    work = work_of(training, plan, times.under(plan.degrees))
    detail = detail_of(work)
    inner = interval_of(work, level, detail)
    return whole_interval(write(work, detail), training, level, inner) or inner


def simulate_plan(
    training: Training, plan: Plan, times: GroupTimes
) -> tuple[float, dict[str, float], float]:
    """Seconds of the step of a plan, those of a mean device by what it does, and the bytes that the
    fullest rank holds at most."""
    work = work_of(training, plan, times.under(plan.degrees))
    measures = measure(write(work, detail_of(work)))
    again = sum(part.seconds for stage in work.stages for block in stage for part in block.again)
    again *= work.pipeline.micro_batches / plan.pp
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
    # Less than this share of the step is a rounding error.
    least = 1e-12 * measures.step
    parts = {name: seconds if seconds > least else 0.0 for name, seconds in parts.items()}
    return measures.step, parts, memory_of(training, plan, work).peak


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
    # Where launches take half as long as computations, the CPU may limit the step.
    most = 40_000 if launches < 0.5 * seconds else 1_000_000
    return "layers" if len(parts) * work.pipeline.micro_batches <= most else "passes"
