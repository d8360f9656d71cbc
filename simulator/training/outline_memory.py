"""What the collectives of an outline hold, without a walk through the values of their slots."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np

from simulator.analysis.memory import Changes, joined
from simulator.schedules.schedule import Schedule
from simulator.training.plan import Plan
from simulator.training.replay import Replayed
from simulator.training.step_lowering import BUCKETS, Block
from topologies.topology import Floats

FIRST = np.zeros(1, dtype=np.int32)
"""Rank 0."""


def collective_memory(plan: Plan, timeline: Replayed) -> tuple[Changes, Changes]:
    """What appears at ranks beside the buffers and vanishes, and what is distinct.

    While a collective runs, each rank counts with the most that it ever has in inboxes, and its
    values count once; those of its last run also later. Scratch is held from the first run to the
    end of the last. So a peak is that of all transfers if a collective adds no more to it than it
    merges, like a ring; else it is an upper bound.
    """
    slots = [block.region.slot for block in plan.blocks]
    kinds = [part.collective.memory for part in plan.parts if part.collective]
    # Workers that share buckets hold a part of each slot.
    part = plan.schedule.nbytes_total / sum(each.schedule.nbytes_total for each in plan.buckets)
    count = plan.schedule.ranks
    # An outline has no transfers that write into its buffer: its values are not those of the run.
    live = [Changes(np.zeros(1), np.array([-plan.schedule.nbytes_total * plan.workers]), FIRST)]
    resident = list[Changes]()
    for number, (block, most) in enumerate(zip(plan.blocks, _most(timeline), strict=True)):
        slot, schedule = block.region.slot, block.region.schedule
        begin, end = timeline.start[block.first].min(), timeline.finish[block.last].max()
        moments, is_last = np.array([begin, end]), slot not in slots[number + 1 :]
        size = part if kinds[number] in BUCKETS else float(kinds[number] == "used")
        scratch = _scratch(schedule, count) * size
        if kinds[number] == "used":
            scratch[: schedule.workers] += schedule.nbytes_total
        appear = most + scratch * (slot not in slots[:number])
        vanish = -most - scratch * is_last
        ranks = np.arange(count, dtype=np.int32)
        resident.append(
            Changes(moments.repeat(count), np.concatenate((appear, vanish)), np.tile(ranks, 2))
        )
        value = schedule.nbytes_total * part * (kinds[number] in BUCKETS)
        nbytes = value * np.array([1.0, is_last - 1.0])
        live.append(Changes(moments, nbytes, FIRST.repeat(2)))
    return reduce(joined, resident), reduce(joined, live)


def _most(timeline: Replayed) -> Iterator[Floats]:
    """The most bytes in inboxes of each rank in each collective."""
    replay, known = timeline.replay, dict[tuple[object, ...], list[Floats]]()
    assert replay is not None
    for done in replay.done:
        if not done.segment.blocks:
            continue
        name = replay.name(done)
        if name not in known:
            written, times = replay.written(done.segment), replay.part(done).times
            start = times.start[written.routed.node_indptr[:-1]]
            known[name] = [
                _inboxes(block, start[rows], times.finish[rows], timeline.schedule.ranks)
                for block, rows in zip(done.segment.blocks, written.between, strict=True)
            ]
        yield from known[name]


def _inboxes(block: Block, start: Floats, finish: Floats, ranks: int) -> Floats:
    """The most bytes that are on their way to each rank to be added there."""
    schedule = block.region.schedule
    place = np.arange(ranks)
    if schedule.fold is not None:
        place = schedule.fold.shifts.place(place)
    adds = schedule.remote & (schedule.reduces == 1)
    rows = np.flatnonzero(adds & (schedule.peer < ranks - schedule.switches))
    at, nbytes = np.tile(place[schedule.peer[rows]], 2), schedule.nbytes[rows]
    # What arrives is merged before what begins at that moment.
    order = np.argsort(np.concatenate((finish[rows], start[rows])), kind="stable")
    order = order[np.argsort(at[order], kind="stable")]
    most = np.zeros(int(place.max()) + 1)
    np.maximum.at(most, at[order], np.cumsum(np.concatenate((-nbytes, nbytes))[order]))
    return most[place]


def _scratch(schedule: Schedule, ranks: int) -> Floats:
    """Bytes of the slots beside the buffer of each worker that uses some, and of servers."""
    spare = np.zeros(ranks, dtype=np.bool_)
    for rank, slot in ((schedule.rank, schedule.source), (schedule.peer, schedule.target)):
        spare[rank[(slot >= 0) & (slot + schedule.count > schedule.buffer)]] = True
    spare[schedule.workers :] = False
    shares = np.broadcast_to(np.atleast_2d(schedule.shares), (ranks, schedule.slots))
    slots = np.where(spare, shares[:, schedule.buffer :].sum(axis=1), 0.0)
    slots[schedule.workers : ranks - schedule.switches] = shares[0].sum()
    return slots * schedule.nbytes_total
