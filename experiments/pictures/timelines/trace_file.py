"""A Chrome trace file: events of ranks on tracks, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from experiments.names import rank_name
from experiments.output import note, provenance, to_json
from experiments.pictures.timelines.trace_slices import (
    Slices,
    joined,
    microseconds,
    nanoseconds,
    slices_of,
    some,
)
from experiments.pictures.timelines.tracks import Boxes, Integers, Sends, bands, sends
from experiments.trace_choice import ALL, TraceChoice
from simulator.analysis.contention import waited
from simulator.analysis.memory import Memory
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError

EVENTS = 1_000_000
"""A trace has at most this many complete events."""
COUNTED = 2000
"""The memory of a rank has about this many points at most."""
ARROWS = 20_000
"""Up to this many transfers, an arrow leads from each to the communication that receives it."""


@dataclass(frozen=True, eq=False)
class Trace:
    """What a trace shows: `slices` of ranks on named tracks; the sends are added to them."""

    timeline: Timeline
    slices: list[Slices]
    communications: Boxes
    """The boxes of the last `slices`, in their order: arrows lead from transfers to them."""
    tracks: Sequence[str]
    """The name of each track of `slices`."""
    memory: Memory | None = None
    """What each rank holds over time."""
    choice: TraceChoice = ALL
    """Which ranks the trace shows, and whether it shows transfers."""
    what: str = "ranks"
    """What the ranks are."""
    place_name: Callable[[int], str] | None = None
    """What each rank is called; None: as in its schedule."""

    @cached_property
    def ranks(self) -> list[int]:
        """The ranks that are shown. Raises InputError if the choice has others."""
        return self.choice.of(self.timeline.schedule.ranks, self.what)

    def shown(self) -> Trace:
        """The trace with the chosen ranks only."""
        if self.choice.ranks is None:
            return self
        slices = [
            some(each, np.flatnonzero(np.isin(each.rank, self.ranks))) for each in self.slices
        ]
        boxes = self.communications
        return replace(
            self, slices=slices, communications=boxes.take(np.isin(boxes.rank, self.ranks))
        )

    def sends(self) -> Sends:
        """The transfers that are shown."""
        every = sends(self.timeline)
        sender = self.timeline.schedule.rank[every.operation]
        chosen = np.isin(sender, self.ranks) & self.choice.transfers
        return Sends._make(column[chosen] for column in every)

    @cached_property
    def joined(self) -> Slices:
        """All slices in one."""
        return joined(self.slices)


class _ArrowEnd(NamedTuple):
    """One end of an arrow."""

    time: int
    """Nanoseconds."""
    text: str


def to_file(trace: Trace, parameters: Mapping[str, object], remedy: str) -> str:
    """The trace as Chrome trace JSON.

    Times are microseconds, on a grid of nanoseconds: see :func:`microseconds`. Slices that overlap
    on a track go to a second track of that name. The sends of a rank have a track for each medium
    that it sends on. Up to 20,000 transfers, arrows lead from each transfer to the communication
    that it ends in. The choice of the trace leaves out ranks, and transfers of all ranks. The
    `parameters`, JSON values, are stored in `otherData`, with versions and
    command.

    A trace has at most a million slices. If it had more, only the earliest transfers are kept, and
    a note and `otherData` say so. Raises InputError, which recommends the `remedy`, if it has more
    even without transfers.
    """
    trace = trace.shown()
    room = EVENTS - len(trace.joined.about)
    if room < 0:
        raise InputError(
            f"the trace has {EVENTS - room} events without transfers, at most {EVENTS}: {remedy}"
        )
    every = trace.sends()
    sent, remark = _earliest(every, room)
    slices = joined([trace.joined, _sending(trace, sent)])
    track, names = _tracks(trace, slices)
    arrows = _arrows(trace, sent, slices, track) if len(every.operation) <= ARROWS else []
    about = json.loads(provenance()) | {"parameters": parameters}
    if remark:
        about["note"] = remark
    counters = _counters(trace.memory, trace.ranks) if trace.memory else []
    events = ",\n".join([*names, *_in_order(slices, track, arrows), *counters])
    return (
        f'{{"displayTimeUnit": "ms",\n"otherData": {to_json(about)},\n"traceEvents": [\n'
        f"{events}\n]}}\n"
    )


def _counters(memory: Memory, ranks: Sequence[int]) -> Iterator[str]:
    """What each rank holds over time; of many changes about two thousand."""
    for rank in ranks:
        times, nbytes = (column[:: max(1, len(column) // COUNTED)] for column in memory.of(rank))
        for time, level in zip(
            microseconds(nanoseconds(times)).tolist(), nbytes.tolist(), strict=True
        ):
            ids = f'"ph": "C", "name": "memory", "pid": {rank}, "ts": {time}'
            yield f'{{{ids}, "args": {{"bytes": {level:.0f}}}}}'


def _earliest(every: Sends, room: int) -> tuple[Sends, str]:
    """As many transfers as there is room for, and a remark if these are not all."""
    count = len(every.operation)
    if count <= room:
        return every, ""
    chosen = np.sort(np.argsort(every.start, kind="stable")[:room])
    remark = f"the trace has the earliest {room} of {count} transfers, and all else"
    note(remark)
    return Sends._make(column[chosen] for column in every), remark


def _sending(trace: Trace, sent: Sends) -> Slices:
    """Transfers while they hold the first link of their sender."""
    timeline, chosen = trace.timeline, sent.operation
    schedule = timeline.schedule
    phases = [json.dumps(phase)[1:-1] for phase in schedule.phases]
    names = [json.dumps(rank_name(schedule, rank))[1:-1] for rank in range(schedule.ranks)]
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
    track = len(trace.tracks) + sent.medium
    return slices_of(schedule.rank[chosen], track, sent.start, sent.end, about)


def _tracks(trace: Trace, slices: Slices) -> tuple[Integers, list[str]]:
    """The number of every slice's track, and the events that name ranks and tracks.

    No two tracks of the whole trace have one number, since readers look up a track's name by its
    number alone.
    """
    schedule = trace.timeline.schedule
    _, place = np.unique(np.stack((slices.rank, slices.track)), axis=1, return_inverse=True)
    band = bands(place, slices.start, slices.end)
    keys, number = np.unique(
        np.stack((slices.rank, slices.track, band)), axis=1, return_inverse=True
    )
    media = trace.timeline.routed.topology.medium_names
    titles, names = [*trace.tracks, *(f"sends on {medium}" for medium in media)], list[str]()
    for rank in trace.ranks:
        name_of = trace.place_name or partial(rank_name, schedule)
        names += _named("process", rank, 0, name_of(rank), rank)
    for row, (rank, track, repeat) in enumerate(keys.T.tolist()):
        name = titles[track] + (f" ({repeat + 1})" if repeat else "")
        names += _named("thread", rank, row + 1, name, row)
    return number + 1, names


def _named(what: str, rank: int, track: int, name: str, order: int) -> Iterator[str]:
    ids = f'"ph": "M", "pid": {rank}, "tid": {track}'
    yield f'{{"name": "{what}_name", {ids}, "args": {{"name": {json.dumps(name)}}}}}'
    yield f'{{"name": "{what}_sort_index", {ids}, "args": {{"sort_index": {order}}}}}'


def _arrows(trace: Trace, sent: Sends, slices: Slices, track: Integers) -> list[_ArrowEnd]:
    """Both ends of an arrow from each transfer to the communication that it ends in.

    The transfers are the last slices.
    """
    first, ends = len(track) - len(sent.operation), list[_ArrowEnd]()
    spans = _spans(trace.communications, slices, track, first)
    timeline = trace.timeline
    schedule, arrived = timeline.schedule, nanoseconds(timeline.finish[sent.operation]) - 1
    for number, operation in enumerate(sent.operation.tolist()):
        row, peer, time = first + number, int(schedule.peer[operation]), int(arrived[number])
        candidates = spans.get((peer, int(schedule.phase[operation])), [])
        place = bisect_right(candidates, (time, np.inf, 0)) - 1
        begin = int(slices.start[row])
        if place < 0 or candidates[place][1] <= time:
            continue
        if not begin < min(time, int(slices.end[row])):
            continue
        ends.append(_arrow_end("s", number, int(slices.rank[row]), int(track[row]), begin))
        ends.append(_arrow_end("f", number, peer, candidates[place][2], time))
    return ends


def _spans(
    boxes: Boxes, slices: Slices, track: Integers, last: int
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


def _arrow_end(phase: str, number: int, rank: int, track: int, time: int) -> _ArrowEnd:
    ids = f'"id": {number}, "pid": {rank}, "tid": {track}, "ts": {microseconds(np.array(time))}'
    return _ArrowEnd(
        time, f'{{"ph": "{phase}", "bp": "e", "name": "transfer", "cat": "transfer", {ids}}}'
    )


def _in_order(slices: Slices, track: Integers, arrows: list[_ArrowEnd]) -> list[str]:
    """All events by time; of those that begin together the shortest first, the ends of arrows
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
