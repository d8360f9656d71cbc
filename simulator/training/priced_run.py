"""A run whose collectives are timed as a whole.

A collective begins when the last worker enters it, takes as long as it does alone on the machine,
and all workers leave it together. Collectives of several streams share media at max-min fair rates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from simulator.analysis.critical_path import SEGMENT_PARTS, CriticalPath, Part, critical_path
from simulator.kernels.rates import Usages
from simulator.schedules.routed import Routed, route
from simulator.schedules.timeline import Timeline
from simulator.steps import task_rates
from simulator.steps.group_meetings import joint_calls
from simulator.steps.step_graph import StepGraph, priced
from simulator.steps.task_rates import Shared, TaskTimeline
from simulator.training.plan import COMPUTE, Plan
from topologies.columns import starts
from topologies.topology import Floats, Ints

ROUNDING = 1e-9
"""A collective that takes longer than alone by no more than this share has lost nothing."""
CROSSING: tuple[Part, ...] = ("latency", "gap", "serialisation")
"""The parts of a path on a link or medium."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PricedTimeline(TaskTimeline):
    """When the tasks of a graph ran, an operation each."""

    graph: StepGraph
    """The tasks, with the seconds to enter calls."""
    collective: Ints
    """The row of `alone` of each task; -1 for a computation."""
    alone: tuple[Timeline, ...]
    """The collectives by themselves. Those that are the same share a row."""

    def path(self, last: int) -> CriticalPath:
        """The critical path to the end of a task. Collectives have their own paths, whose
        operations have no numbers."""
        tasks, paths = critical_path(self, last), [CriticalPath.empty()]
        for place, task in enumerate(tasks.operation.tolist()):
            row, entering = self.collective[task], self.graph.seconds[task : task + 1]
            part = tasks.take(np.array([place]))
            if row >= 0:
                lost = part.seconds - entering - self._paths[row].seconds.sum()
                paths.append(self._paths[row])
                if lost > ROUNDING * part.seconds:
                    behind = np.array([True])
                    paths.append(replace(part, seconds=lost, amount=lost, contended=behind))
                part = replace(part, seconds=entering, amount=entering)
            paths.append(part)
        return CriticalPath.joined(paths)

    @cached_property
    def _paths(self) -> list[CriticalPath]:
        return [
            replace(
                path,
                operation=np.full_like(path.operation, -1),
                where=_on_machine(path, timeline.routed.standing),
            )
            for path, timeline in zip(map(critical_path, self.alone), self.alone, strict=True)
        ]

    def behind(self, took: Floats) -> Floats:
        """The share of the time that each call `took` in which it waits behind messages of other
        ranks, also those of collectives of other streams; -1 for computations."""
        rows = [(path.seconds @ path.contended, path.seconds.sum()) for path in self._paths]
        behind, alone = np.array([*rows, (0.0, 0.0)])[self.collective].T
        lost = np.maximum(took - self.graph.seconds - alone, 0.0) * (self.collective >= 0)
        share = np.minimum((behind + lost) / np.where(took > 0, took, 1.0), 1.0)
        return np.where(self.graph.communicates, share, -1.0)


def _on_machine(path: CriticalPath, standing: Ints) -> Ints:
    """The link, medium or rank of each segment on the whole machine. In a folded collective a
    medium stands for several: `standing` has that of each medium, and the first of them counts."""
    if not len(standing):
        return path.where
    first = np.zeros(standing.max() + 1, dtype=np.int32)
    media = np.flatnonzero(standing >= 0)[::-1]
    first[standing[media]] = media
    # The wire of a link has the link's number.
    crosses = np.isin(path.part, [SEGMENT_PARTS.index(part) for part in CROSSING])
    where = path.where.copy()
    where[crosses] = first[where[crosses]]
    return where


def price(plan: Plan, seconds: Floats, run: Callable[[Routed], Timeline]) -> PricedTimeline:
    """The tasks of `plan`, which take `seconds`, with collectives that take as long as they `run`
    alone."""
    alone, collective = list[Timeline](), np.full(len(plan.graph), -1, dtype=np.int32)
    rows = dict[int, int]()
    for part, schedule in plan.collectives:
        if id(schedule) not in rows:
            rows[id(schedule)] = len(alone)
            alone.append(run(plan.routed_collective(schedule)))
        collective[part.tasks] = rows[id(schedule)]
    graph = replace(plan.graph, seconds=seconds)
    lasts = np.array([timeline.makespan for timeline in alone] + [0.0])
    schedule = plan.schedule if plan.is_priced else priced(graph)
    routed = route(replace(schedule, seconds=seconds + lasts[collective]), plan.topology)
    first = joint_calls(graph)
    talks = graph.communicates.astype(np.int8)
    computes = (1 - talks) * (graph.lane == COMPUTE)
    # Collectives of one lane never meet.
    meets = len(np.unique(graph.lane[collective >= 0])) > 1
    used, media = _usages(alone if meets else (), len(plan.topology.medium_bandwidth))
    row = (collective + 1) * np.int32(meets)
    shared = Shared(used, row, media, first, plan.slowdown)
    ran = task_rates.run(routed, computes, talks, shared)
    return PricedTimeline(**vars(ran), graph=graph, collective=collective, alone=tuple(alone))


def _usages(alone: Sequence[Timeline], media: int) -> tuple[Usages, Ints]:
    """For what share of its time each collective keeps media busy, behind an empty row; and a
    medium for each number of a medium there, for all that are used alike."""
    table = np.zeros((len(alone), media))
    for row, timeline in enumerate(alone):
        used, standing = timeline.utilisation(), timeline.routed.standing
        table[row] = np.append(used, 0.0)[standing] if len(standing) else used
    # Sums in another order differ in their last digits.
    _, alike = np.unique(table.round(12), axis=1, return_index=True)
    chosen = alike[table[:, alike].any(axis=0)]
    share = np.minimum(table[:, chosen], 1.0)
    rows, medium = np.nonzero(share)
    counts = np.bincount(rows, minlength=len(alone))
    usage = share[rows, medium]
    ends = np.zeros(len(alone) + 1)
    usages = Usages(starts(np.append(0, counts)), medium.astype(np.int32), usage, usage, ends)
    return usages, chosen.astype(np.int32)
