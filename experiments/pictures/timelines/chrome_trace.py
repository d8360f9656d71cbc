"""A training run as a Chrome trace, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.names import rank_name
from experiments.output import note, provenance, to_json
from experiments.pictures.timelines.tracks import (
    Boxes,
    Integers,
    Sends,
    bands,
    communications,
    computations,
    gaps,
    kind_of,
    lane_name,
    sends,
)
from simulator.analysis.contention import waited
from simulator.analysis.memory import Memory
from simulator.schedules.schedule import COMPUTE as COMPUTATION
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from simulator.training.plan import COMPUTE, Plan
from topologies.errors import InputError
from topologies.topology import Floats

EVENTS = 1_000_000
"""Complete events of a trace at most."""
COUNTED = 2000
"""Points of a rank's memory at most, about."""
ARROWS = 20_000
"""Transfers up to which an arrow leads from each to what receives it."""
STEPS, MAIN, BUBBLES, LANES = 0, 1, 2, 3
"""Tracks of a rank in their order: its steps, its main lane, the gaps of that, further lanes; then
its sends."""
Nanoseconds = npt.NDArray[np.int64]


class _Slices(NamedTuple):
    """Complete events, a row each: on a track of a rank, in nanoseconds; `about` is its name,
    category and args."""

    rank: Integers
    track: Integers
    start: Nanoseconds
    end: Nanoseconds
    about: list[str]


class _End(NamedTuple):
    """One end of an arrow, at `time` nanoseconds."""

    time: int
    text: str


def chrome_trace(
    plan: Plan, timeline: Timeline, parameters: dict[str, object], memory: Memory | None = None
) -> str:
    """Chrome trace JSON of a training run: a process a rank, a track a lane.

    A rank has a track for its steps (`ProfilerStep#n`, as Kineto names them), its main lane, its
    bubbles (with what ended each), its communications, its host, and one for each medium on which
    it sends; what would overlap on a track goes to a second one of that name. Arrows lead from
    transfers to the communication that they end in, if there are at most 20,000. What each rank
    holds of the `memory` is a counter. The `parameters`, JSON values, are kept with versions and
    command in `otherData`.

    Times are microseconds, on a grid of nanoseconds: see :func:`microseconds`. Of the transfers the
    earliest are kept where the trace would have over a million events, which is then noted, in
    `otherData` too. Raises InputError if it would have as many without them.
    """
    others = [
        _steps(plan, timeline),
        _computing(plan, timeline),
        _bubbles(plan, timeline),
        _talking(plan, timeline),
    ]
    room = EVENTS - sum(len(slices.about) for slices in others)
    if room < 0:
        raise InputError(
            f"the trace has {EVENTS - room} events without transfers, at most {EVENTS}: take "
            f"fewer steps"
        )
    every = sends(timeline)
    sent, remarks = _earliest(every, room)
    slices = _joined([*others, _sending(plan, timeline, sent)])
    track, names = _tracks(plan, timeline, slices)
    arrows = _arrows(plan, timeline, sent, slices, track) if len(every.operation) <= ARROWS else []
    about = (
        json.loads(provenance())
        | {"parameters": parameters}
        | ({"note": remarks} if remarks else {})
    )
    counters = _counters(memory, timeline.schedule.ranks) if memory else []
    events = ",\n".join([*names, *_in_order(slices, track, arrows), *counters])
    return (
        f'{{"displayTimeUnit": "ms",\n"otherData": {to_json(about)},\n"traceEvents": [\n'
        f"{events}\n]}}\n"
    )


def _counters(memory: Memory, ranks: int) -> Iterator[str]:
    """What each rank holds over time; of many changes about two thousand."""
    for rank in range(ranks):
        times, nbytes = (column[:: max(1, len(column) // COUNTED)] for column in memory.of(rank))
        for time, held in zip(
            microseconds(_nanoseconds(times)).tolist(), nbytes.tolist(), strict=True
        ):
            ids = f'"ph": "C", "name": "memory", "pid": {rank}, "ts": {time}'
            yield f'{{{ids}, "args": {{"bytes": {held:.0f}}}}}'


def microseconds(nanoseconds: Nanoseconds) -> Floats:
    """The least doubles that a reader which truncates a thousand times their value, as Perfetto
    does, reads as these: with any less a span would begin before the end of the last, and be
    dropped."""
    nearest = nanoseconds / 1000
    return np.where(np.floor(nearest * 1000) < nanoseconds, np.nextafter(nearest, np.inf), nearest)


def _nanoseconds(seconds: Floats) -> Nanoseconds:
    return np.rint(seconds * 1e9).astype(np.int64)


def _slices(
    rank: Integers, track: Integers | int, start: Floats, end: Floats, about: list[str]
) -> _Slices:
    return _Slices(
        rank, np.broadcast_to(track, len(rank)), _nanoseconds(start), _nanoseconds(end), about
    )


def _about(name: str, category: str, **args: object) -> str:
    return f'"name": {json.dumps(name)}, "cat": {json.dumps(category)}, "args": {json.dumps(args)}'


def _steps(plan: Plan, timeline: Timeline) -> _Slices:
    """Each worker's steps, from the end of the one before."""
    end = timeline.finish[plan.ends]
    start = np.vstack((np.zeros(plan.workers), end[:-1]))
    about = [
        _about(f"ProfilerStep#{step}", "user_annotation", **({} if useful else {"lost": True}))
        for step, useful in zip(plan.numbers.tolist(), plan.useful.tolist(), strict=True)
    ]
    ranks = np.tile(np.arange(plan.workers), plan.steps)
    return _slices(
        ranks,
        STEPS,
        start.ravel(),
        end.ravel(),
        [word for word in about for _ in range(plan.workers)],
    )


def _computing(plan: Plan, timeline: Timeline) -> _Slices:
    boxes = computations(plan, timeline)
    phases = [_about(phase, kind_of(phase)) for phase in timeline.schedule.phases]
    return _on_lanes(boxes, [phases[phase] for phase in boxes.phase.tolist()])


def _talking(plan: Plan, timeline: Timeline) -> _Slices:
    boxes, phases = communications(plan, timeline), timeline.schedule.phases
    keys = list(zip(boxes.phase.tolist(), _bytes(timeline.schedule, boxes), strict=True))
    about = {
        (phase, size): _about(
            phases[phase], kind_of(phases[phase]), **({} if size is None else {"bytes": size})
        )
        for phase, size in set(keys)
    }
    return _on_lanes(boxes, [about[key] for key in keys])


def _bytes(schedule: Schedule, boxes: Boxes) -> list[int | None]:
    """What each communication is about: the slots that it enters with, or its only transfer, if
    known."""
    sums = np.concatenate(([0.0], np.cumsum(schedule.shares))) * schedule.nbytes_total
    slot, entered = schedule.target[boxes.first], schedule.kind[boxes.first] == COMPUTATION
    held = sums[slot + schedule.count[boxes.first]] - sums[slot]
    nbytes = np.where(entered, held, schedule.nbytes[boxes.first])
    known = np.where(entered, slot >= 0, boxes.first == boxes.last)
    return [
        round(size) if is_known else None
        for size, is_known in zip(nbytes.tolist(), known.tolist(), strict=True)
    ]


def _on_lanes(boxes: Boxes, about: list[str]) -> _Slices:
    track = np.where(boxes.lane == COMPUTE, MAIN, LANES + boxes.lane)
    return _slices(boxes.rank, track, boxes.start, boxes.end, about)


def _bubbles(plan: Plan, timeline: Timeline) -> _Slices:
    found, phases = gaps(plan, timeline), timeline.schedule.phases
    drain = _about("bubble: drain", "bubble")
    waits = [_about("bubble", "bubble", **{"waits for": phase}) for phase in phases]
    rows = [waits[timeline.schedule.phase[i]] if i >= 0 else drain for i in found.awaited.tolist()]
    return _slices(found.rank, BUBBLES, found.start, found.end, rows)


def _earliest(every: Sends, room: int) -> tuple[Sends, str]:
    """As many transfers as there is room for, and what to say about it."""
    count = len(every.operation)
    if count <= room:
        return every, ""
    chosen = np.sort(np.argsort(every.start, kind="stable")[:room])
    remark = f"the trace has the earliest {room} of {count} transfers, and all else"
    note(remark)
    return Sends._make(column[chosen] for column in every), remark


def _sending(plan: Plan, timeline: Timeline, sent: Sends) -> _Slices:
    schedule, first = timeline.schedule, _lanes(plan, timeline)
    phases = [json.dumps(phase)[1:-1] for phase in schedule.phases]
    names = [json.dumps(rank_name(schedule, rank))[1:-1] for rank in range(schedule.ranks)]
    chosen = sent.operation
    waiting, contention = waited(timeline)
    rows = zip(
        schedule.phase[chosen].tolist(),
        schedule.peer[chosen].tolist(),
        schedule.nbytes[chosen].tolist(),
        (waiting[chosen] * 1e6).tolist(),
        (contention[chosen] * 1e6).tolist(),
        strict=True,
    )
    about = [
        f'"name": "{phases[phase]} to {names[peer]}", "cat": "transfer", '
        f'"args": {{"bytes": {nbytes:.0f}, "waited_us": {seconds:.3f}, "contention_us": '
        f"{behind_others:.3f}}}"
        for phase, peer, nbytes, seconds, behind_others in rows
    ]
    return _slices(schedule.rank[chosen], first + sent.medium, sent.start, sent.end, about)


def _lanes(plan: Plan, timeline: Timeline) -> int:
    """The number of the first track for sends."""
    return LANES + max(
        len(plan.lanes), timeline.schedule.lanes, int(plan.spans.lane.max(initial=0)) + 1
    )


def _joined(parts: list[_Slices]) -> _Slices:
    rank, track, start, end = (
        np.concatenate(column) for column in list(zip(*parts, strict=True))[:4]
    )
    return _Slices(rank, track, start, end, [about for part in parts for about in part.about])


def _tracks(plan: Plan, timeline: Timeline, slices: _Slices) -> tuple[Integers, list[str]]:
    """The number of every slice's track, and the events that name ranks and tracks.

    The numbers are different ones for all ranks, since readers look names up by the number of the
    track alone.
    """
    _, both = np.unique(np.stack((slices.rank, slices.track)), axis=1, return_inverse=True)
    band = bands(both, slices.start, slices.end)
    found, number = np.unique(
        np.stack((slices.rank, slices.track, band)), axis=1, return_inverse=True
    )
    names: list[str] = []
    for rank in range(timeline.schedule.ranks):
        names += _named("process", rank, 0, rank_name(timeline.schedule, rank), rank)
    for row, (rank, track, again) in enumerate(found.T.tolist()):
        names += _named("thread", rank, row + 1, _track_name(plan, timeline, track, again), row)
    return number + 1, names


def _track_name(plan: Plan, timeline: Timeline, track: int, again: int) -> str:
    first = _lanes(plan, timeline)
    if track >= first:
        name = f"sends on {timeline.routed.topology.medium_names[track - first]}"
    elif track in (STEPS, BUBBLES):
        name = "bubbles" if track else "steps"
    else:
        name = lane_name(plan, COMPUTE if track == MAIN else track - LANES)
    return f"{name} ({again + 1})" if again else name


def _named(what: str, rank: int, track: int, name: str, order: int) -> Iterator[str]:
    ids = f'"ph": "M", "pid": {rank}, "tid": {track}'
    yield f'{{"name": "{what}_name", {ids}, "args": {{"name": {json.dumps(name)}}}}}'
    yield f'{{"name": "{what}_sort_index", {ids}, "args": {{"sort_index": {order}}}}}'


def _arrows(
    plan: Plan, timeline: Timeline, sent: Sends, slices: _Slices, track: Integers
) -> list[_End]:
    """Both ends of an arrow from each transfer, of which the last slices are, to the communication
    that it ends in."""
    first, ends = len(track) - len(sent.operation), list[_End]()
    open_spans = _open_spans(communications(plan, timeline), slices, track, first)
    schedule, arrived = timeline.schedule, _nanoseconds(timeline.finish[sent.operation]) - 1
    for number, operation in enumerate(sent.operation.tolist()):
        row, peer, time = first + number, int(schedule.peer[operation]), int(arrived[number])
        spans = open_spans.get((peer, int(schedule.phase[operation])), [])
        place = bisect_right(spans, (time, np.inf, 0)) - 1
        begin = int(slices.start[row])
        if place < 0 or spans[place][1] <= time or not begin < min(time, int(slices.end[row])):
            continue
        ends.append(_end("s", number, int(slices.rank[row]), int(track[row]), begin))
        ends.append(_end("f", number, peer, spans[place][2], time))
    return ends


def _open_spans(
    boxes: Boxes, slices: _Slices, track: Integers, last: int
) -> dict[tuple[int, int], list[tuple[int, float, int]]]:
    """Start, end and track of the communications, the slices before `last`, by rank and phase."""
    spans: dict[tuple[int, int], list[tuple[int, float, int]]] = {}
    rows = slice(last - len(boxes.rank), last)
    for rank, phase, *span in sorted(
        zip(
            boxes.rank.tolist(),
            boxes.phase.tolist(),
            slices.start[rows].tolist(),
            slices.end[rows].tolist(),
            track[rows].tolist(),
            strict=True,
        )
    ):
        spans.setdefault((rank, phase), []).append((span[0], span[1], span[2]))
    return spans


def _end(which: str, number: int, rank: int, track: int, time: int) -> _End:
    ids = f'"id": {number}, "pid": {rank}, "tid": {track}, "ts": {microseconds(np.array(time))}'
    return _End(
        time, f'{{"ph": "{which}", "bp": "e", "name": "transfer", "cat": "transfer", {ids}}}'
    )


def _in_order(slices: _Slices, track: Integers, arrows: list[_End]) -> list[str]:
    """All events by time; of those that begin together the shortest first, and the ends of arrows
    last."""
    ids = zip(slices.rank.tolist(), track.tolist(), slices.about, strict=True)
    times = zip(
        microseconds(slices.start).tolist(),
        ((slices.end - slices.start) / 1000).tolist(),
        strict=True,
    )
    texts = [
        f'{{"ph": "X", "pid": {rank}, "tid": {number}, "ts": {ts}, "dur": {dur}, {about}}}'
        for (rank, number, about), (ts, dur) in zip(ids, times, strict=True)
    ]
    time = np.concatenate(
        (slices.start, np.array([arrow.time for arrow in arrows], dtype=np.int64))
    )
    length = np.concatenate(
        (slices.end - slices.start, np.full(len(arrows), np.iinfo(np.int64).max))
    )
    texts += [arrow.text for arrow in arrows]
    return [texts[row] for row in np.lexsort((length, time)).tolist()]
