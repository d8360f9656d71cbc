"""A step of a plan with every transfer of all ranks: what its operations on places stand for.

It says what :mod:`simulator.parallel.step` leaves out: where streams share links, they wait for
each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Algorithm, Collective
from simulator.parallel.group_routes import side_by_side
from simulator.parallel.passes import AGAIN, COLLECTIVES, COMPUTE, KINDS, SEND, STREAMS, TIED
from simulator.parallel.pipelines.pipeline import FORWARD, WEIGHTS
from simulator.parallel.step import Step
from simulator.schedules import semantics
from simulator.schedules.routed import route
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import WrongResult
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.topology import Floats, Ints

MOST = 2**21
"""Operations of all ranks, at most."""


class Run(NamedTuple):
    """A collective of a group."""

    collective: Collective
    group: Ints
    """Its ranks."""
    slot: int
    """Its first slot. No other collective of these ranks has any of its slots."""
    slots: int
    """The number of its slots."""


@dataclass(frozen=True, eq=False)
class WrittenStep:
    """The operations of all ranks."""

    step: Step
    schedule: Schedule
    ends: tuple[Ints, ...]
    """The operations with which the ranks of a place end each operation of the step."""
    runs: tuple[Run, ...]
    """All collectives."""

    @cached_property
    def timeline(self) -> Timeline:
        """The step, simulated on the machine by the rules of its collectives."""
        times = self.step.work.times
        ranks = times.topology.placement[: times.degrees.ranks]
        return times.run(route(self.schedule, replace(times.topology, placement=ranks)))


def write_transfers(step: Step, most: float = MOST) -> WrittenStep:
    """The step with its transfers. Operations of a stream run in the order that they have in the
    step.

    Raises InputError if there are more than `most` operations, if the step is written by passes, if
    its collectives run under a profile, or if an algorithm takes switches.
    """
    if not all(each.ends for each in step.passes):
        raise InputError("the step is written by passes: write it by layers")
    if step.work.times.profile is not None:
        raise InputError(
            f"{step.work.times.profile.name} gives each collective a protocol with its own links: "
            f"leave out --detail transfers, or --library and --profile"
        )
    writer = _Writer(step, most)
    times = step.timeline
    order = np.lexsort((np.arange(len(step.schedule)), times.finish, times.start))
    for operation in order.tolist():
        writer.add(operation)
    ends = tuple(writer.ends[operation] for operation in range(len(order)))
    return WrittenStep(step, writer.builder.build(), ends, tuple(writer.runs))


def prove(written: WrittenStep, seed: int = 0) -> None:
    """Raise :class:`WrongResult` unless each collective keeps its promise among its group, and each
    micro-batch and its gradient reach all stages of their copy."""
    schedule, pipeline = written.schedule, written.step.work.pipeline
    before = semantics.inputs(schedule, seed)
    after = semantics.run(schedule, before)
    for run in written.runs:
        where = np.ix_(run.group, np.arange(run.slot, run.slot + run.slots))
        promised, values = run.collective.postcondition(before[where], None)
        wrong = promised & (after[where] != values)
        if wrong.any():
            raise WrongResult(
                f"{run.collective.name} of ranks {run.group[:8].tolist()}: {wrong.sum()} of "
                f"{promised.sum()} results are wrong"
            )
    ranks = written.step.work.times.degrees.groups("pp")
    for micro in range(pipeline.micro_batches):
        place = pipeline.place[micro * pipeline.copies // pipeline.micro_batches]
        for slot, origin in ((2 * micro, place[0]), (2 * micro + 1, place[-1])):
            if (after[ranks[:, place], slot] != before[ranks[:, [origin]], slot]).any():
                what = "gradient" if slot % 2 else "activation"
                raise WrongResult(f"the {what} of micro-batch {micro} does not reach all stages")


class _Calls(NamedTuple):
    """A collective that groups run at once."""

    groups: Ints
    """The ranks of each group, a row each."""
    child: Schedule
    """What a group does."""
    collective: Collective
    slot: int
    """The first slot of its buffer."""


class _Writer:
    """Writes the operations of a step for all ranks, in the order of their start."""

    def __init__(self, step: Step, most: float) -> None:
        self.step, self.times = step, step.work.times
        self.ranks: Ints = self.times.degrees.groups("pp").T
        self.place = np.argsort(self.ranks.T.ravel()) % len(self.ranks)
        """The place of each rank."""
        self.runs: list[Run] = []
        self.ends: dict[int, Ints] = {}
        self._children: dict[tuple[str, Algorithm], Schedule] = {}
        self._latest: dict[tuple[int, int], int] = {}
        self._calls: dict[int, _Calls] = {}
        self._forward = self._directions()
        shares = self._laid_out(most)
        ranks, total = self.times.degrees.ranks, float(shares.sum())
        self.builder = ScheduleBuilder(ranks, total, slots=shares / total)

    def add(self, operation: int) -> None:
        """Add an operation for all ranks of its place, behind all that start before it."""
        if operation in self.ends:
            return
        schedule, labels = self.step.schedule, self.step.labels
        kind, lane = int(labels.kind[operation]), int(schedule.lane[operation])
        place, micro = int(schedule.rank[operation]), int(labels.micro[operation])
        stream = STREAMS[lane] if labels.collective[operation] else KINDS[kind]
        self.builder.phase(stream)
        if operation in self._calls:
            self._collective(operation, lane)
        elif lane == SEND:
            slot = 2 * micro + (not self._forward[operation])
            self.ends[operation] = self.builder.copy(
                self.ranks[place],
                self.ranks[labels.peer[operation]],
                slot=slot,
                after=self._before(operation),
            )
        else:
            passing = lane == COMPUTE and kind <= AGAIN and kind != WEIGHTS
            slot = 2 * micro + (kind != FORWARD) if passing else -1
            self.ends[operation] = self.builder.compute(
                self.ranks[place],
                float(self.step.timeline.schedule.seconds[operation]),
                lane=lane,
                reads=slot,
                writes=slot,
                after=self._before(operation),
            )
        for each in self._together(operation):
            self._latest[int(schedule.rank[each]), lane] = each

    def _directions(self) -> dict[int, bool]:
        """Whether each transfer goes forward."""
        sent, pipeline = self.step.sent, self.step.work.pipeline
        forward = pipeline.kind[sent.receiver + sent.slot] == FORWARD
        return dict(zip(self.step.send.tolist(), forward.tolist(), strict=True))

    def _laid_out(self, most: float) -> Floats:
        """Slots for each micro-batch and its gradient, then for each collective, in bytes."""
        step, micro_batches = self.step, self.step.work.pipeline.micro_batches
        sizes = np.unique(step.labels.nbytes[step.send])
        if len(sizes) > 1 or (sizes == 0).any():
            raise InputError(
                f"stages send {sizes[0]:.0f} and {sizes[-1]:.0f} bytes: their transfers can be "
                f"written if all send as many, and some"
            )
        columns = [np.full(2 * micro_batches, max(1.0, float(sizes.sum())))]
        slot, count = 2 * micro_batches, len(step.schedule) * self.ranks.shape[1]
        talks = (step.labels.collective > 0) & (step.schedule.lane != SEND)
        for operation in np.flatnonzero(talks).tolist():
            if operation in self._calls or not step.schedule.seconds[operation]:
                continue
            kind, groups = self._kind(operation)
            name = COLLECTIVES[step.labels.collective[operation]]
            nbytes = float(step.labels.nbytes[operation])
            child, collective = self._child(kind, groups[0], name, nbytes)
            groups = groups[self.place[groups[:, 0]] == step.schedule.rank[operation]]
            calls = _Calls(groups, child, collective, slot)
            self._calls |= dict.fromkeys(self._together(operation), calls)
            columns.append(child.shares * child.nbytes_total)
            slot, count = slot + child.slots, count + len(groups) * len(child)
            if count > most:
                raise InputError(
                    f"the step has more than {most:.0f} transfers: take fewer GPUs or layers, or "
                    f"leave out --detail transfers"
                )
        return np.concatenate(columns)

    def _kind(self, operation: int) -> tuple[str, Ints]:
        """The kind of group that runs a collective, and all groups of this kind."""
        degrees = self.times.degrees
        if self.step.schedule.lane[operation] != TIED:
            kind = self.step.group(operation)
            return kind, degrees.groups(kind)
        devices = self.step.schedule.rank[self._together(operation)].tolist()
        return f"{devices[0]} to {devices[1]}", degrees.groups("pp")[:, devices]

    def _child(
        self, kind: str, group: Ints, collective: str, nbytes: float
    ) -> tuple[Schedule, Collective]:
        """What each group of a kind does: the same as the first `group`."""
        algorithm = self.times.fastest(kind, collective, nbytes)
        key = kind, algorithm
        if key not in self._children:
            topology = self.times.topology
            machine = replace(topology, placement=topology.placement[group])
            child = algorithm.on(machine, len(group), 1.0).schedule
            if child.ranks > child.workers or child.shares.ndim > 1:
                raise InputError(
                    f"{algorithm.name} takes switches, or blocks of any size: leave out --detail "
                    f"transfers"
                )
            self._children[key] = child
        return self._children[key].scaled(nbytes), algorithm.collective

    def _together(self, operation: int) -> list[int]:
        """The operations that are the same collective: two where two devices share gradients."""
        if self.step.schedule.lane[operation] != TIED:
            return [operation]
        return self.step.tied[operation]

    def _before(self, operation: int) -> Ints:
        """What each rank waits for, a row each."""
        schedule = self.step.schedule
        stream = int(schedule.rank[operation]), int(schedule.lane[operation])
        waits = schedule.predecessors(operation).tolist()
        if stream in self._latest:
            waits.append(self._latest[stream])
        if not waits:
            return np.zeros(0, dtype=np.int32)
        return np.stack([self.ends[each] for each in waits], axis=1)

    def _collective(self, operation: int, lane: int) -> None:
        """All ranks enter, the groups communicate, and all leave."""
        calls, builder = self._calls[operation], self.builder
        span = {"count": calls.child.buffer, "lane": lane, "writes": calls.slot}
        together = self._together(operation)
        ranks = [self.ranks[self.step.schedule.rank[each]] for each in together]
        for each, members in zip(together, ranks, strict=True):
            builder.compute(members, 0.0, after=self._before(each), **span)
        child = side_by_side(calls.child, len(calls.groups))
        builder.inline(child, ranks=calls.groups.ravel(), slot=calls.slot, phase=STREAMS[lane])
        self.runs += [
            Run(calls.collective, group, calls.slot, child.buffer) for group in calls.groups
        ]
        for each, members in zip(together, ranks, strict=True):
            self.ends[each] = builder.compute(members, 0.0, reads=calls.slot, **span)
