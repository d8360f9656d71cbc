"""The schedule of a run whose collectives are among all workers: with all transfers, or as an
outline without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Folded
from simulator.steps.kinds import Label
from simulator.steps.step_graph import Call
from simulator.steps.written import add_collective
from simulator.training.communicator import Communicator
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
    def tasks(self) -> slice:
        """The tasks as rows of the graph."""
        return slice(self.begin, self.begin + len(self.place))


def lower(
    parts: Sequence[TaskRows], ranks: int, communicator: Communicator | None, *, outline: bool
) -> dict[str, Any]:
    """What a plan has of the schedule of a graph: its operations, part by part, those with which
    each task begins and ends, and the parts with their slots. An `outline` leaves out the transfers
    of collectives, of which it has the operations to enter and to leave."""
    nbytes, sizes, parts = _buffers(parts, ranks)
    if communicator is None:
        builder = ScheduleBuilder(ranks, nbytes, **sizes)
    elif outline:
        builder = builder_of(replace(communicator.unit, fold=None), nbytes)
    else:
        builder = builder_of(communicator.unit, nbytes, **sizes)
    first, last, _ = add_parts(builder, parts, outline=outline)
    is_outline = outline and any(part.schedule is not None for part in parts)
    written = {"schedule": builder.build(), "first": first, "last": last, "parts": tuple(parts)}
    return written | {"is_outline": is_outline}


def add_parts(
    builder: ScheduleBuilder, parts: Sequence[TaskRows], *, outline: bool = False
) -> tuple[Ints, Ints, tuple[Ints, ...]]:
    """Add parts that follow one another. Tasks before them are not waited for.

    It returns the operations with which each task begins and ends, and those of each collective but
    for entering and leaving, which an `outline` leaves out.
    """
    begin, between = parts[0].begin, list[Ints]()
    first, last = np.full((2, parts[-1].tasks.stop - begin), -1, dtype=np.int32)
    for part in parts:
        rows = slice(part.begin - begin, part.tasks.stop - begin)
        place, lane, before = part.place, part.lane, part.after - begin
        builder.phase(part.label.text)
        waits = np.where(before >= 0, last[np.maximum(before, 0)], -1)
        if part.schedule is None and part.call is not None:
            nbytes = part.call.nbytes
            first[rows] = last[rows] = builder.signal(*place, nbytes=nbytes, after=waits[0])
        elif part.schedule is None or outline:
            first[rows] = last[rows] = builder.compute(place, part.seconds, lane=lane, after=waits)
            if part.schedule is not None:
                last[rows] = builder.compute(place, 0.0, lane=lane, after=first[rows, None])
        else:
            first[rows], operations, last[rows] = add_collective(
                builder,
                (part.schedule, part.slot, part.scratch),
                place,
                part.seconds,
                waits,
                lane=lane,
                phase=part.label.text,
            )
            between.append(operations)
    return first, last, tuple(between)


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


def _buffers(parts: Sequence[TaskRows], ranks: int) -> tuple[float, dict[str, Any], list[TaskRows]]:
    """As :func:`layout`, the parts with their slots: buckets come first."""
    names = [(part.label.text, part.call, part.memory) for part in parts]
    schedules = {
        name: part.schedule
        for name, part in zip(names, parts, strict=True)
        if part.schedule is not None
    }
    order = sorted(schedules, key=lambda name: name[2] not in BUCKETS)
    buckets = [schedules[name] for name in order if name[2] in BUCKETS]
    others = [(schedules[name], name[2] == "used") for name in order[len(buckets) :]]
    sharers = ranks if any(name[2] == "shared" for name in order) else 1
    nbytes, sizes, slots = layout(buckets, others, sharers)
    slot_of = dict(zip(order, slots, strict=True))
    placed = [
        part._replace(slot=slot_of[name][0], scratch=slot_of[name][1]) if name in slot_of else part
        for name, part in zip(names, parts, strict=True)
    ]
    return nbytes, sizes, placed


def layout(
    buckets: Sequence[Schedule], others: Sequence[tuple[Schedule, bool]] = (), sharers: int = 1
) -> tuple[float, dict[str, Any], list[tuple[int, int]]]:
    """Put the buckets side by side into the buffer; their scratch and all other collectives, each
    with whether its memory counts, come behind it. Each of several `sharers` holds a share of each
    slot of the buffer.

    It returns the bytes of the buffer; the sizes of its slots and of the others as shares of these
    bytes, as arguments of a ScheduleBuilder; and the first slots of the buffer and of the scratch
    of each collective.
    """
    nbytes = sum(bucket.nbytes_total for bucket in buckets) / sharers
    buffer, scratch = [np.zeros(0)], [np.zeros(0)]
    slot, behind = 0, sum(bucket.buffer for bucket in buckets)
    slots = list[tuple[int, int]]()
    for bucket in buckets:
        shares = bucket.shares * (bucket.nbytes_total / nbytes)
        slots.append((slot, behind))
        buffer.append(shares[: bucket.buffer])
        scratch.append(shares[bucket.buffer :])
        slot, behind = slot + bucket.buffer, behind + len(scratch[-1])
    for other, is_counted in others:
        slots.append((behind, behind + other.buffer))
        scratch.append(other.shares * (other.nbytes_total / nbytes * is_counted))
        behind += len(scratch[-1])
    shares = np.concatenate(buffer)
    return nbytes, {"slots": shares / np.sum(shares), "scratch": np.concatenate(scratch)}, slots
