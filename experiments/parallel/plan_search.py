"""The fastest plans of a model on a machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import inf
from typing import Any, NamedTuple

from experiments.models.accelerators import accelerator
from experiments.parallel.framework_defaults import plain
from experiments.parallel.plan_bounds import PlanBounds
from experiments.parallel.plan_run import MEANINGS
from experiments.parallel.plan_space import Space, advice
from experiments.parallel.plan_step import Training, interval_of, memory_of, work_of
from experiments.parallel.plan_text import Plan
from experiments.parallel.step_calibration import kind_of, mean_error
from experiments.parallel.step_interval import whole_interval
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


class Simulated(NamedTuple):
    """A plan that has been simulated."""

    seconds: float
    parts: Mapping[str, float]
    """Seconds of a mean device by what it does; they add up to the step."""
    memory: float
    """Bytes that the fullest rank holds at most."""


@dataclass(frozen=True)
class SearchResult:
    """What a search found. A place is that of a plan in `plans`: first come those that are
    simulated, the fastest first, and of as fast ones those that hold least; then the others, those
    with the lowest bound first."""

    space: Space
    left_out: Counter[str]
    """Plans that are not bounded, by the reason."""
    limit: float
    """Bytes of the memory of a device."""
    plans: Sequence[Plan]
    memory: Sequence[float]
    """Bytes that the fullest rank of each plan holds at least."""
    bounds: Sequence[float]
    """Seconds that no step of a plan goes below."""
    simulated: Mapping[int, Simulated]
    """The plans that are simulated, by their place."""
    alike: Mapping[int, int]
    """The places of the fastest plans, and how many others take as long. Of these, the one that
    holds least stands for all."""
    intervals: Mapping[int, Interval]
    """Those of the steps of the fastest plans, by their place, if a profile says how sure it is."""
    defaults: str = ""
    """Which plan is fastest without the defaults of frameworks, if it is another one."""

    @property
    def first(self) -> list[int]:
        """The places of the fastest plans."""
        return list(self.alike)

    def error(self, place: int) -> tuple[float | None, str]:
        """The error on measured steps of plans like one of the search, and what it is of."""
        space = self.space
        return mean_error(kind_of(space.training.times, self.plans[place].zero, space.span))

    def loses_to(self, place: int) -> str:
        """Two parts of the step in which a plan loses most to the fastest one, if each makes up 2%
        of the loss; empty for the fastest one itself."""
        best, run = self.simulated[0], self.simulated[place]
        lost = {name: seconds - best.parts[name] for name, seconds in run.parts.items()}
        least = max(0.02 * (run.seconds - best.seconds), 1e-12)  # above the rounding of sums
        most = sorted(lost, key=lambda name: -lost[name])[:2]
        return ", ".join(
            f"{name} +{format_seconds(lost[name])}" for name in most if lost[name] > least
        )

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each plan that fits in memory. What only a simulation tells is None without
        one, and the memory is what the plan holds at least."""
        return [self._row(place, self.simulated.get(place)) for place in range(len(self.plans))]

    def _row(self, place: int, run: Simulated | None) -> dict[str, Any]:
        space, training = self.space, self.space.training
        memory = run.memory if run else self.memory[place]
        tokens_per_s = space.batch * training.seq / run.seconds if run else None
        return {
            "model": training.name,
            "gpus": space.gpus,
            "plan": str(self.plans[place]),
            "bound_s": self.bounds[place],
            "step_s": run and run.seconds,
            "tokens_per_s": tokens_per_s,
            "mfu": tokens_per_s and training.mfu(self.plans[place], tokens_per_s),
            **training.duration(tokens_per_s or 0.0, space.gpus),
            "memory_bytes": memory,
            "left_bytes": self.limit - memory,
            "loses_to": self.loses_to(place) if run else "",
            "fits": run and run.memory <= self.limit,
            "model_error": self.error(place)[0],
            **interval_columns(self.intervals.get(place)),
        }

    def figures(self) -> dict[str, object]:
        """All figures, for JSON."""
        return {
            "left_out": dict(self.left_out.most_common()),
            **({"defaults": self.defaults} if self.defaults else {}),
            "plans": self.rows,
            "parts_s": {str(self.plans[place]): run.parts for place, run in self.simulated.items()},
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
    memory = {plan: bounds.memory(plan) for plan in plans}
    fitting = [plan for plan in plans if memory[plan] <= limit]
    seconds, runs = list[float](), dict[int, Simulated]()
    bounded, simulated = progress("plans bounded"), progress("plans simulated")
    for done, plan in enumerate(fitting, 1):
        seconds.append(bounds.seconds(plan))
        bounded(done, len(fitting))

    def simulate(number: int) -> float:
        runs[number] = simulate_plan(training, fitting[number], times)
        return runs[number].seconds if runs[number].memory <= limit else inf

    fastest = search(seconds, simulate, FASTEST, least, simulated)
    fastest = vary(space, fitting, fastest, simulate)
    seconds += [runs[number].seconds for number in range(len(seconds), len(fitting))]
    memory |= {fitting[number]: run.memory for number, run in runs.items()}
    simulated(len(fastest), len(fastest))
    if not fastest:
        best = min(plans, key=memory.__getitem__)
        fixed = [key for key in space.wanted if key != "batch"]
        hint = f"leave out {', '.join(fixed)} or " if fixed else ""
        raise InputError(
            f"no plan of {training.name} on {space.gpus} GPUs fits in memory: {best} needs at "
            f"least {bytes_cell(memory[best])} of {bytes_cell(limit)}: "
            f"{hint}{advice(training, best, times.topology)}"
        )
    # Plans with the same time make a group.
    starts = set(distinct(fastest))
    group = dict(zip(fastest, accumulate(number in starts for number in fastest), strict=True))
    ranked = sorted(
        fastest, key=lambda number: (group[number], round(runs[number].memory), fitting[number].cp)
    )
    bounded_only = [number for number in range(len(fitting)) if number not in runs]
    order = [*ranked, *sorted(bounded_only, key=seconds.__getitem__)]
    left_out["does not fit in memory"] = len({*plans, *fitting}) - len(order)
    sizes = list(Counter(group.values()).values())[:FASTEST]
    first = [end - size for end, size in zip(accumulate(sizes), sizes, strict=True)]
    sure = times.at("time") if level else None
    return SearchResult(
        space,
        left_out,
        limit,
        [fitting[number] for number in order],
        [memory[fitting[number]] for number in order],
        [seconds[number] for number in order],
        {place: runs[number] for place, number in enumerate(ranked)},
        {place: size - 1 for place, size in zip(first, sizes, strict=True)},
        {place: _interval(training, fitting[order[place]], sure, level) for place in first if sure},
        _without_defaults(training, [fitting[order[place]] for place in first], times),
    )


def _without_defaults(training: Training, plans: Sequence[Plan], times: GroupTimes) -> str:
    """A sentence if another of the fastest plans is first without the defaults of frameworks."""
    without = [plain(plan) for plan in plans]
    if without == list(plans):
        return ""
    seconds = [simulate_plan(training, plan, times).seconds for plan in without]
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
    plans: list[Plan],
    times: Mapping[int, float],
    simulate: Callable[[int], float],
) -> dict[int, float]:
    """The seconds of all plans that are simulated, the fastest first, with changes of the fastest
    ones that their bounds do not cover: `plans` grows by these. A change that makes a plan faster
    stays for the next one."""
    times = dict(times)
    for number in distinct(times)[:FASTEST]:
        best = number
        for each in space.changes(plans[number]):
            plans.append(replace(plans[best], **each))
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


def simulate_plan(training: Training, plan: Plan, times: GroupTimes) -> Simulated:
    """The step of a plan."""
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
    return Simulated(measures.step, parts, memory_of(training, plan, work).peak)


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
