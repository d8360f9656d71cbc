"""The memory of training over time: parameters, optimizer state, activations, and buffers of the
communication."""

from __future__ import annotations

from functools import reduce

import numpy as np

from simulator.analysis import memory
from simulator.analysis.memory import Changes, MemoryTrace, joined
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from simulator.steps.kinds import BACKWARD, FORWARD, KINDS, RESTART
from simulator.training.plan import COMPUTE, Plan
from simulator.training.priced_run import PricedTimeline
from simulator.training.step_lowering import BUCKETS
from topologies.columns import sums
from topologies.topology import Floats, Ints

_SIGN = np.zeros(len(KINDS))
"""What each kind of task does with activations: a forward keeps them, others release them."""
_SIGN[FORWARD], _SIGN[BACKWARD], _SIGN[RESTART] = 1.0, -1.0, -1.0


def footprint(plan: Plan, timeline: Timeline) -> MemoryTrace:
    """As :func:`simulator.analysis.memory.trace`, with what is in no slot.

    - What `plan.holdings` says.
    - Activations, from the end of a layer's forward to the end of its backward: all are distinct.
    - What `plan.stored` says.

    The buffers of the gradients are held all the time; while they hold no gradient, they count as
    redundant. Where collectives are timed as a whole, peaks may be upper bounds: see
    :func:`_collectives`.
    """
    holdings = plan.holdings
    copies = Changes(
        np.zeros(len(holdings.ranks)),
        holdings.ranks,
        np.arange(len(holdings.ranks), dtype=np.int32),
    )
    once = Changes(np.zeros(1), np.array([holdings.distinct]), np.zeros(1, dtype=np.int32))
    activations, stored, distinct = _activations(plan, timeline), None, None
    if plan.stored is not None:
        task, nbytes, alone = plan.stored
        stored, distinct = (_of_all(plan, timeline, task, each) for each in (nbytes, alone))
    resident, live = (joined(activations, each) for each in (stored, distinct))
    if isinstance(timeline, PricedTimeline):
        of_collectives, values = _collectives(plan, timeline)
        resident, live = joined(resident, of_collectives), joined(live, values)
    return memory.trace(timeline.schedule, timeline, joined(copies, resident), joined(once, live))


def kept(plan: Plan) -> float:
    """Bytes that the fullest worker holds behind its forward, known without a simulation: all but
    messages on their way."""
    resident = plan.holdings.ranks.max() + plan.schedule.nbytes_total
    return float(resident + plan.model.activations)


def _activations(plan: Plan, timeline: Timeline) -> Changes:
    """Bytes that a forward leaves and that its backward, or the restart after it, releases; without
    a layer, of all layers."""
    graph = plan.graph
    layers = np.array([layer.activation for layer in plan.model.layers])
    nbytes = np.append(layers, layers.sum())[graph.layer] * _SIGN[graph.kind]
    computed = (graph.call < 0) & (graph.lane == COMPUTE) & (graph.place < plan.workers)
    chosen = np.flatnonzero(computed & (nbytes != 0)).astype(np.int32)
    return _of_all(plan, timeline, chosen, nbytes[chosen])


def _of_all(plan: Plan, timeline: Timeline, task: Ints, nbytes: Floats) -> Changes:
    """Bytes that appear or vanish with the ends of tasks, at all ranks."""
    times, rank = timeline.finish[plan.last[task]], plan.graph.place[task]
    if len(plan.standing) == plan.workers:
        return Changes(times, nbytes, rank)
    if plan.shifts is None:
        rank = np.tile(np.arange(plan.workers, dtype=np.int32), len(task))
    else:
        rank = plan.shifts.shifted(rank[:, None], plan.shifts.elements).ravel().astype(np.int32)
    times, nbytes = (np.repeat(column, len(rank) // len(task)) for column in (times, nbytes))
    return Changes(times, nbytes, rank)


def _collectives(plan: Plan, timeline: PricedTimeline) -> tuple[Changes, Changes]:
    """What appears at ranks beside the buffers and vanishes, and what is distinct.

    While a collective runs, each rank counts with the most that it ever has in inboxes, or with all
    that arrives there if ranks enter one after the other. Its values count once; those of its last
    run also later. Scratch is held from the first run to the end of the last. So a peak is that of
    all transfers if ranks enter together and a collective adds no more to it than it merges, like a
    ring; else it is an upper bound.
    """
    slots, first = [part.slot for part, _ in plan.collectives], np.zeros(1, dtype=np.int32)
    # Workers that share buckets hold a part of each slot.
    share = plan.schedule.nbytes_total / sum(bucket.nbytes_total for _, bucket in plan.buckets)
    count = plan.schedule.ranks
    # No transfers write into the buffer of a priced run: its values are not those of the run.
    live = [Changes(np.zeros(1), np.array([-plan.schedule.nbytes_total * plan.workers]), first)]
    resident = list[Changes]()
    inboxes = [_inboxes(each, count) for each in timeline.alone]
    for number, (part, schedule) in enumerate(plan.collectives):
        slot, is_bucket = part.slot, part.memory in BUCKETS
        entered = timeline.start[plan.first[part.tasks]]
        begin, late = entered.min(), int(entered.max() > entered.min())
        end = timeline.finish[plan.last[part.tasks]].max()
        most = inboxes[timeline.collective[part.begin]][late]
        moments, is_last = np.array([begin, end]), slot not in slots[number + 1 :]
        scratch = _scratch(schedule, count) * (share if is_bucket else part.memory == "used")
        if part.memory == "used":
            scratch[: schedule.workers] += schedule.nbytes_total
        appear = most + scratch * (slot not in slots[:number])
        vanish = -most - scratch * is_last
        ranks = np.arange(count, dtype=np.int32)
        resident.append(
            Changes(moments.repeat(count), np.concatenate((appear, vanish)), np.tile(ranks, 2))
        )
        value = schedule.nbytes_total * share * is_bucket
        live.append(Changes(moments, value * np.array([1.0, is_last - 1.0]), first.repeat(2)))
    return reduce(joined, resident), reduce(joined, live)


def _inboxes(timeline: Timeline, ranks: int) -> tuple[Floats, Floats]:
    """The most bytes that are on their way to each rank to be added there, and all of them: so many
    may wait for a rank that enters last."""
    schedule, start, finish = timeline.schedule, timeline.start, timeline.finish
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
    return most[place], sums(at[: len(rows)], nbytes, len(most))[place]


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
