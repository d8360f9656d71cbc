"""The schedule of a run whose collectives are among all workers, with all transfers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Folded
from simulator.steps.kinds import Label
from simulator.steps.step_graph import Call, StepGraph, step_graph, waits_of
from simulator.steps.written import add_collective
from topologies.topology import Floats, Ints

Memory = Literal["held", "shared", "used", "elsewhere"]
BUCKETS = "held", "shared"
"""The memory of collectives that keep the promise of a strategy."""


class TaskRows(NamedTuple):
    """Tasks that follow one another in a graph and do the same, a row each."""

    label: Label
    """Of a collective also the name of its buffer: those of one size with the same name share
    it."""
    lane: int
    call: Call | None
    """The call that they make."""
    begin: int
    """The first task."""
    place: Ints
    seconds: Floats
    """Of a call: seconds to enter it."""
    after: Ints
    """The tasks before each, a row a task; -1 is none."""
    schedule: Schedule | None
    """The collective that they enter. Other calls are messages: from the first to the second."""
    memory: Memory
    """Whether the buffer is held all the time, or a share of it by each worker; held from its first
    use to its last; or counted elsewhere."""
    slot: int = -1
    """The first slot of the buffer, as far as it is known."""
    scratch: int = -1
    """The first slot of the scratch."""

    @property
    def operations(self) -> int:
        """Operations of the tasks, with all transfers."""
        if self.schedule is not None:
            return len(self.schedule) + 2 * len(self.place)
        return len(self.place) if self.call is None else 1

    @property
    def tasks(self) -> slice:
        """The tasks as rows of the graph."""
        return slice(self.begin, self.begin + len(self.place))


def graph_of(parts: Sequence[TaskRows], lanes: tuple[str, ...], place_of: Ints) -> StepGraph:
    """The tasks of parts that follow one another, on the place of each worker."""
    counts = [len(part.place) for part in parts]
    calls = list(dict.fromkeys(part.call for part in parts if part.call))
    number: dict[Call | None, int] = {call: row for row, call in enumerate(calls)}
    rows = [
        (part.lane, number.get(part.call, -1), part.label.kind, *part.label[2:]) for part in parts
    ]
    labels = np.repeat(np.array(rows, dtype=np.int32), counts, axis=0).T
    of_parts = dict(zip(("lane", "call", "kind", "layer", "bucket"), labels, strict=True))
    texts = np.array([part.label.text for part in parts], dtype=object)
    everyone = np.arange(len(place_of), dtype=np.int32)[None]
    return step_graph(
        place_of,
        lanes,
        {
            **of_parts,
            "place": np.concatenate([part.place for part in parts]),
            "seconds": np.concatenate([part.seconds for part in parts]),
        },
        waits_of([part.after for part in parts]),
        calls=calls,
        groups={call.group: everyone for call in calls if call.group},
        names=np.repeat(texts, counts),
    )


def lower(parts: Sequence[TaskRows], builder: ScheduleBuilder) -> tuple[Schedule, Ints, Ints]:
    """The schedule of parts, part by part, with the buffers that :func:`buffers` says; and the
    operations with which each task begins and ends."""
    first, last = np.full((2, parts[-1].tasks.stop), -1, dtype=np.int32)
    for part in parts:
        rows, place, lane = part.tasks, part.place, part.lane
        builder.phase(part.label.text)
        waits = np.where(part.after >= 0, last[np.maximum(part.after, 0)], -1)
        if part.schedule is not None:
            first[rows], _, last[rows] = add_collective(
                builder,
                (part.schedule, part.slot, part.scratch),
                place,
                part.seconds,
                waits,
                lane=lane,
                phase=part.label.text,
            )
        elif part.call is not None:
            sent = builder.signal(*place, nbytes=part.call.nbytes, after=waits[0])
            first[rows] = last[rows] = sent
        else:
            first[rows] = last[rows] = builder.compute(place, part.seconds, lane=lane, after=waits)
    return builder.build(), first, last


def builder_of(model: Schedule, nbytes: float, **sizes: Any) -> ScheduleBuilder:
    """A builder with the workers, servers and switches of another schedule. Where it is folded, the
    same ranks stand for all."""
    fold = model.fold
    return ScheduleBuilder(
        model.workers if fold is None else Folded(fold.shifts, (), fold.channels),
        nbytes,
        servers=model.ranks - model.workers - model.switches,
        switches=model.switches,
        **sizes,
    )


def buffers(
    parts: Sequence[TaskRows], ranks: int
) -> tuple[float, dict[str, Any], tuple[TaskRows, ...]]:
    """The bytes of the buffer of gradients, the sizes of its slots and of the scratch behind it as
    arguments of a ScheduleBuilder, and the parts with their slots.

    Buckets are side by side in the buffer. Their scratch, and all other collectives, come behind
    it. Workers that share buckets hold a share of each slot.
    """
    names = [(part.label.text, part.call, part.memory) for part in parts]
    schedules = {
        name: part.schedule
        for name, part in zip(names, parts, strict=True)
        if part.schedule is not None
    }
    buckets = [schedules[name] for name in schedules if name[2] in BUCKETS]
    sharers = ranks if any(name[2] == "shared" for name in schedules) else 1
    nbytes = sum(bucket.nbytes_total for bucket in buckets) / sharers
    buffer, scratch = [np.zeros(0)], [np.zeros(0)]
    slot, behind = 0, sum(bucket.buffer for bucket in buckets)
    slots = dict[tuple[str, Call | None, str], tuple[int, int]]()
    for name in sorted(schedules, key=lambda name: name[2] not in BUCKETS):
        schedule, memory = schedules[name], name[2]
        shares = schedule.shares * (schedule.nbytes_total / nbytes * (memory != "elsewhere"))
        if memory in BUCKETS:
            slots[name] = slot, behind
            buffer.append(shares[: schedule.buffer])
            scratch.append(shares[schedule.buffer :])
            slot += schedule.buffer
        else:
            slots[name] = behind, behind + schedule.buffer
            scratch.append(shares)
        behind += len(scratch[-1])
    placed = tuple(
        part._replace(slot=slots[name][0], scratch=slots[name][1]) if name in slots else part
        for name, part in zip(names, parts, strict=True)
    )
    shares = np.concatenate(buffer)
    return nbytes, {"slots": shares / np.sum(shares), "scratch": np.concatenate(scratch)}, placed


def merged_places(
    parts: Sequence[TaskRows], places: int
) -> tuple[tuple[TaskRows, ...], Ints] | None:
    """The parts with a task each, which stands for those of all places, and the task that each
    task becomes: -1 for those of places behind the first. None if places differ."""
    owner = np.repeat(np.arange(len(parts)), [len(part.place) for part in parts]).astype(np.int32)
    first, owner = np.diff(owner, prepend=-1) > 0, np.append(owner, np.int32(-1))
    joined = list[TaskRows]()
    for number, part in enumerate(parts):
        after: Ints = owner[part.after]
        if len(part.place) < places or np.ptp(part.seconds) or (after != after[:1]).any():
            return None
        place, seconds = np.zeros(1, dtype=np.int32), part.seconds[:1]
        joined.append(part._replace(begin=number, place=place, seconds=seconds, after=after[:1]))
    return tuple(joined), np.where(first, owner[:-1], np.int32(-1))
