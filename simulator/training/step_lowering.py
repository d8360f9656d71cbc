"""The schedule of a run whose collectives are among all workers: with all transfers, or as an
outline without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.steps.kinds import Label
from simulator.steps.step_graph import StepGraph
from simulator.training.communicator import Communicator
from topologies.topology import Floats, Ints

Memory = Literal["held", "shared", "used", "elsewhere"]
BUCKETS = "held", "shared"
"""The memory of collectives that keep the promise of a strategy."""


class CollectiveRows(NamedTuple):
    """How the tasks of a collective are written."""

    schedule: Schedule
    buffer: str
    """The name of its buffer. Collectives of one size with the same name share it."""
    memory: Memory
    """Whether the buffer is held all the time, or a share of it by each worker; held from its first
    use to its last; or counted elsewhere."""


class TaskRows(NamedTuple):
    """Tasks that follow one another in a graph and do the same, a row each."""

    label: Label
    lane: int
    call: int
    """A row of the calls of the graph; -1 for none."""
    place: Ints
    seconds: Floats
    """Of a call: seconds to enter it."""
    after: Ints
    """What each waits for, a row a task; -1 is none."""
    collective: CollectiveRows | None
    """Of tasks that enter a collective. Other calls are messages: from the first to the second."""


class Region(NamedTuple):
    """A collective and its slots within a larger schedule."""

    schedule: Schedule
    slot: int
    """The first slot of its buffer."""
    scratch: int
    """The first slot of its scratch."""


class Block(NamedTuple):
    """A collective of an outline: its transfers are not written out."""

    region: Region
    first: Ints
    """The operation with which each worker enters."""
    last: Ints
    """The operation with which each worker leaves."""


class Lowered(NamedTuple):
    """A graph as a schedule."""

    schedule: Schedule
    first: Ints
    """The operation with which each task begins."""
    last: Ints
    """The operation with which each task ends."""
    blocks: tuple[Block, ...] = ()
    """The collectives that are not written out, in the order of their operations."""
    buckets: tuple[Region, ...] = ()
    """The collectives whose buffers are held all the time."""
    parts: tuple[TaskRows, ...] = ()
    """Of an outline: what it was made of."""


def lower(
    graph: StepGraph,
    parts: Sequence[TaskRows],
    communicator: Communicator | None,
    *,
    outline: bool,
) -> Lowered:
    """The schedule of a graph, part by part. An `outline` leaves out the transfers of collectives,
    of which it has the operations to enter and to leave."""
    collectives = {_buffer(each): each for each in (part.collective for part in parts) if each}
    bucket_rows = {name: each for name, each in collectives.items() if each.memory in BUCKETS}
    others = {name: each for name, each in collectives.items() if name not in bucket_rows}
    sharers = graph.ranks if any(each.memory == "shared" for each in bucket_rows.values()) else 1
    slots = layout([each.schedule for each in bucket_rows.values()], [*others.values()], sharers)
    regions = dict(zip((*bucket_rows, *others), slots.regions, strict=True))
    builder = _builder(slots, graph.ranks, communicator, outline=outline)
    blocks, begin = list[Block](), 0
    first, last = np.full((2, len(graph)), -1, dtype=np.int32)
    for label, lane, call, place, seconds, after, collective in parts:
        rows = slice(begin, begin + len(after))
        begin = rows.stop
        builder.phase(label.text)
        waits = np.where(after >= 0, last[after], -1)
        if collective is None and call >= 0:
            nbytes = graph.calls[call].nbytes
            first[rows] = last[rows] = builder.signal(*place, nbytes=nbytes, after=waits[0])
        elif collective is None:
            first[rows] = last[rows] = builder.compute(place, seconds, lane=lane, after=waits)
        elif outline:
            first[rows] = entered = builder.compute(place, seconds, lane=lane, after=waits)
            last[rows] = builder.compute(place, 0.0, lane=lane, after=entered[:, None])
            blocks.append(Block(regions[_buffer(collective)], entered, last[rows].copy()))
        else:
            region, phase = regions[_buffer(collective)], label.text
            added = add_collective(builder, region, place, waits, lane, seconds, phase)
            first[rows], last[rows] = added.first, added.last
    buckets = tuple(slots.regions[: len(bucket_rows)])
    of_outline = tuple(parts) if outline else ()
    return Lowered(builder.build(), first, last, tuple(blocks), buckets, of_outline)


def _buffer(rows: CollectiveRows) -> tuple[str, float, Memory]:
    """The name of the buffer of a collective among all: others with it share the buffer."""
    return rows.buffer, rows.schedule.nbytes_total, rows.memory


class BufferSlots(NamedTuple):
    """The slots of a rank, and the collectives in them."""

    nbytes: float
    """Bytes of the buffer."""
    buffer: Floats
    """Sizes of the slots of the buffer, as shares of `nbytes`."""
    scratch: Floats
    """Sizes of the other slots, as shares of `nbytes`."""
    regions: list[Region]
    """The collectives of the buffer, then those in other slots."""


def layout(
    buckets: Sequence[Schedule], others: Sequence[CollectiveRows] = (), sharers: int = 1
) -> BufferSlots:
    """Put the buckets side by side into the buffer; their scratch and all other collectives come
    behind it. Each of several `sharers` holds a share of each slot of the buffer."""
    nbytes = sum(bucket.nbytes_total for bucket in buckets) / sharers
    buffer: list[Floats] = [np.zeros(0)]
    scratch: list[Floats] = [np.zeros(0)]
    slot, behind = 0, sum(bucket.buffer for bucket in buckets)
    regions: list[Region] = []
    for bucket in buckets:
        shares = bucket.shares * (bucket.nbytes_total / nbytes)
        regions.append(Region(bucket, slot, behind))
        buffer.append(shares[: bucket.buffer])
        scratch.append(shares[bucket.buffer :])
        slot, behind = slot + bucket.buffer, behind + len(scratch[-1])
    for other in others:
        schedule, is_counted = other.schedule, other.memory == "used"
        regions.append(Region(schedule, behind, behind + schedule.buffer))
        scratch.append(schedule.shares * (schedule.nbytes_total / nbytes * is_counted))
        behind += len(scratch[-1])
    shares = np.concatenate(buffer)
    return BufferSlots(nbytes, shares / np.sum(shares), np.concatenate(scratch), regions)


def _builder(
    slots: BufferSlots, ranks: int, communicator: Communicator | None, *, outline: bool
) -> ScheduleBuilder:
    """A builder for a run with these slots, and with the servers and switches that its all-reduce
    needs. An outline has no slots."""
    sizes: dict[str, Any] = {"slots": slots.buffer, "scratch": slots.scratch}
    if communicator is None:
        return ScheduleBuilder(ranks, slots.nbytes, **sizes)
    return ScheduleBuilder(
        ranks if outline else communicator.folded,
        slots.nbytes,
        servers=communicator.servers,
        switches=communicator.switches,
        **({} if outline else sizes),
    )


class Added(NamedTuple):
    """The operations of a collective."""

    first: Ints
    """The operation with which each worker enters."""
    between: Ints
    last: Ints
    """The operation with which each worker leaves."""


def add_collective(
    builder: ScheduleBuilder,
    region: Region,
    ranks: Ints,
    after: Ints,
    lane: int,
    seconds: Floats,
    phase: str | None = None,
) -> Added:
    """Add a collective of `ranks`. On `lane` each enters after `after`, which takes `seconds`, and
    leaves at its end."""
    span = {"count": region.schedule.buffer, "lane": lane}
    first = builder.compute(ranks, seconds, writes=region.slot, after=after, **span)
    messages = _messages_after(region.schedule, first)
    between = builder.inline(
        region.schedule, slot=region.slot, scratch=region.scratch, phase=phase, after=messages
    )
    last = builder.compute(ranks, 0.0, reads=region.slot, writes=region.slot, **span)
    return Added(first, between, last)


def _messages_after(schedule: Schedule, entered: Ints) -> Ints:
    """For every operation what it waits for, shape (operations, 1): a worker's messages without
    slots wait until it has `entered`; what carries slots waits by itself."""
    waits = (schedule.source < 0) & (schedule.target < 0) & (schedule.rank < schedule.workers)
    place = schedule.rank if schedule.fold is None else schedule.fold.shifts.place(schedule.rank)
    return np.where(waits, entered[np.minimum(place, len(entered) - 1)], -1)[:, None]
