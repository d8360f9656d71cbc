"""Chrome traces of spans: events of ranks on tracks, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from experiments.answer_files import ALL, TraceChoice
from experiments.output import note, provenance, to_json
from experiments.pictures.timelines.collective_spans import LANES, PHASES, SENDS
from experiments.pictures.timelines.spans import IDLE, MESSAGES, STEPS, Columns, Spans, bands
from simulator.analysis.contention import waited
from simulator.analysis.memory import MemoryTrace
from simulator.schedules.timeline import Timeline
from topologies.columns import distinct_rows, plain_rows
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Numbers

EVENTS = 1_000_000
"""A trace has at most this many complete events."""
ARROWS = 20_000
"""Up to this many transfers, an arrow leads from each to the communication that receives it."""
Nanoseconds = npt.NDArray[np.int64]


Slices = tuple[Numbers, Numbers, Nanoseconds, Nanoseconds]
"""The rank, the track, from 1 on, the begin and the end of each slice."""


def chrome_trace(
    spans: Spans,
    timeline: Timeline,
    parameters: Mapping[str, object],
    remedy: str,
    *,
    memory: MemoryTrace | None = None,
    choice: TraceChoice = ALL,
) -> str:
    """The spans of a timeline as Chrome trace JSON: a process for each rank.

    A rank has these tracks, if it does something on them:

    - its steps (`ProfilerStep#n`, as Kineto names them),
    - its lanes, the main one first, and behind that its bubbles: each has its cause, what it waits
      for, and the link of a queue,
    - its sends, a track for each medium that it sends on.

    Times are microseconds, on a grid of nanoseconds: see :func:`microseconds`. Slices that overlap
    on a track go to a second track of that name. The `memory` of each rank is a counter. Up to
    20,000 transfers, arrows lead from each transfer to the communication that it ends in. The
    choice leaves out ranks, and transfers of all ranks. The `parameters`, JSON values, are stored
    in `otherData`, with versions and command.

    A trace has at most a million slices. If it had more, only the earliest transfers are kept, and
    a note and `otherData` say so. Raises InputError, which recommends the `remedy`, if it has more
    even without transfers.
    """
    chosen = choice.of(timeline.schedule.ranks, f"{spans.what}s")
    columns = spans.columns.take(np.isin(spans.places[spans.columns.row], chosen))
    sent = _sent(spans, columns)
    columns, sent = columns.take(~sent | choice.transfers), sent[~sent | choice.transfers]
    room, transfers = EVENTS - int((~sent).sum()), np.flatnonzero(sent)
    if room < 0:
        raise InputError(
            f"the trace has {EVENTS - room} events without transfers, at most {EVENTS}: {remedy}"
        )
    about = json.loads(provenance()) | {"parameters": parameters}
    if len(transfers) > room:
        about["note"] = (
            f"the trace has the earliest {room} of {len(transfers)} transfers, and all else"
        )
        note(about["note"])
        late = transfers[np.argsort(columns.start[transfers], kind="stable")[room:]]
        columns, sent = (columns.take(np.delete(np.arange(len(sent)), late)), np.delete(sent, late))
    slices, names = _tracks(spans, columns, sent, chosen)
    arrows = list[tuple[int, str]]()
    if len(transfers) <= ARROWS:
        arrows = list(_arrows(spans, columns, sent, slices, timeline))
    texts = _texts(spans, columns, sent, waited(timeline)[1])
    counters = _counters(memory, chosen) if memory else []
    return document({}, about, [*names, *_in_order(slices, texts, arrows), *counters])


def document(head: Mapping[str, object], about: Mapping[str, object], events: Iterable[str]) -> str:
    """A trace with more keys at its head and its origin, a line each, and its events, which are
    JSON."""
    keys = {**head, "displayTimeUnit": "ms", "otherData": about}
    lines = "".join(f"{json.dumps(key)}: {to_json(value)},\n" for key, value in keys.items())
    listed = ",\n".join(events)
    return f'{{{lines}"traceEvents": [\n{listed}\n]}}\n'


def microseconds(nanoseconds: Nanoseconds) -> Floats:
    """The smallest doubles that Perfetto reads as these nanoseconds.

    Perfetto multiplies by a thousand and truncates. With a smaller double a slice would begin
    before the end of the previous slice, and Perfetto would drop it.
    """
    nearest = nanoseconds / 1000
    return np.where(np.floor(nearest * 1000) < nanoseconds, np.nextafter(nearest, np.inf), nearest)


def nanoseconds(seconds: Floats) -> Nanoseconds:
    """Seconds as whole nanoseconds."""
    return np.rint(seconds * 1e9).astype(np.int64)


def complete_events(
    process: npt.ArrayLike,
    track: npt.ArrayLike,
    start: Nanoseconds,
    end: Nanoseconds | Floats,
    texts: Iterable[str],
) -> list[str]:
    """Events of processes on tracks, from nanosecond to nanosecond, with their names, categories
    and args as JSON."""
    columns = np.broadcast_arrays(process, track, microseconds(start), (end - start) / 1000)
    rows = zip(*(column.tolist() for column in columns), texts, strict=True)
    return [
        f'{{"ph": "X", "pid": {rank}, "tid": {track}, "ts": {ts}, "dur": {dur}, {about}}}'
        for rank, track, ts, dur, about in rows
    ]


def _sent(spans: Spans, columns: Columns) -> Flags:
    names = LANES[SENDS], MESSAGES
    lanes = [lane for lane, name in enumerate(spans.lanes) if name in names]
    return np.isin(columns.lane, lanes)


def _texts(spans: Spans, columns: Columns, sent: Flags, contention: Floats) -> Iterator[str]:
    """Name, category and args of each slice, as JSON without its braces. `contention` has the
    seconds for which each operation queues behind other ranks."""
    names, peers = (
        [json.dumps(text)[1:-1] for text in each] for each in (spans.names, spans.peers)
    )
    task, known = columns.task, dict[tuple[float, ...], str]()
    queued = np.where(sent, contention[task], 0.0) if len(task) else contention
    task = np.where(sent, -1, task)
    numbers = [np.where(task < 0, -1, column[task]) for column in spans.labels.values()]
    moved = columns.peer, columns.waited * 1e6, queued * 1e6
    about = columns.kind, columns.name, columns.cause, columns.awaited, columns.link
    each = (column.tolist() for column in (sent, *moved, *about, columns.nbytes, *numbers))
    for is_sent, peer, waits, behind_others, *key in zip(*each, strict=True):
        if is_sent:
            args = f'"bytes": {key[5]:.0f}, "waited_us": {waits:.3f}, '
            args += f'"contention_us": {behind_others:.3f}'
            name = f'"name": "{names[key[1]]} to {peers[peer]}"'
            yield f'{name}, "cat": "transfer", "args": {{{args}}}'
        else:
            if (text := known.get(tuple(key))) is None:
                text = known[tuple(key)] = _described(spans, *key)
            yield text


def _described(
    spans: Spans, kind: int, name: int, cause: int, awaited: int, link: int, *numbers: float
) -> str:
    """What a slice is that is no transfer. The numbers are its bytes and labels."""
    nbytes, *labels = numbers
    title, category = spans.names[name], spans.kinds[kind]
    args: dict[str, object] = {
        word: k for word, k in zip(spans.labels, labels, strict=True) if k >= 0
    }
    args |= {"bytes": round(nbytes)} if nbytes > 0 else {}
    if spans.kinds[kind] == IDLE:
        why = spans.causes[cause]
        title, category = f"bubble: {why}", "bubble"
        texts = {"waits for": (spans.names, awaited)}
        if why == "contention":
            texts["queues for"] = spans.links, link
        args = {word: table[place] for word, (table, place) in texts.items() if place >= 0}
    whole = json.dumps({"name": title, "cat": category, "args": args})
    return whole[1:-1]


def _tracks(
    spans: Spans, columns: Columns, sent: Flags, ranks: Sequence[int]
) -> tuple[Slices, list[str]]:
    """The slices, and the events that name ranks and tracks.

    No two tracks of the whole trace have one number, since readers look up a track's name by its
    number alone.
    """
    place = spans.places[columns.row]
    start, end = nanoseconds(columns.start), nanoseconds(columns.end)
    lanes, idle = list(spans.lanes), columns.cause >= 0
    # The steps are above all lanes, and the media behind them.
    titles = [STEPS, *(title for lane in lanes for title in (lane, "bubbles"))]
    code = np.where(sent, len(titles) + columns.link, 1 + 2 * columns.lane + idle)
    if STEPS in lanes:
        code[columns.lane == lanes.index(STEPS)] = 0
    titles += [f"sends on {link}" for link in spans.links]
    keys = np.stack((place, code, bands(distinct_rows(place, code)[1], start, end)))
    first, number = distinct_rows(*keys)
    names = list[str]()
    for rank, name in zip(spans.places.tolist(), spans.rows, strict=True):
        if rank in ranks:
            names += _named("process", rank, 0, name, rank)
    for row, (rank, title, repeat) in enumerate(keys.T[first].tolist()):
        name = titles[title] + (f" ({repeat + 1})" if repeat else "")
        names += _named("thread", rank, row + 1, name, row)
    return (place, number + 1, start, end), names


def _named(what: str, rank: int, track: int, name: str, order: int) -> Iterator[str]:
    ids = f'"ph": "M", "pid": {rank}, "tid": {track}'
    yield f'{{"name": "{what}_name", {ids}, "args": {{"name": {json.dumps(name)}}}}}'
    yield f'{{"name": "{what}_sort_index", {ids}, "args": {{"sort_index": {order}}}}}'


def _arrows(
    spans: Spans, columns: Columns, sent: Flags, slices: Slices, timeline: Timeline
) -> Iterator[tuple[int, str]]:
    """Both ends of an arrow from each transfer to the communication that it ends in: their
    nanoseconds and texts."""
    lanes, into = list(spans.lanes), ~sent
    if LANES[PHASES] in lanes:
        into &= columns.lane == lanes.index(LANES[PHASES])
    targets: dict[tuple[int, int], list[tuple[int, float, int]]] = {}
    chosen = np.flatnonzero(into)
    chosen = chosen[np.lexsort((slices[3][chosen], slices[2][chosen]))]
    place, track, begin, end = (column.tolist() for column in slices)
    name, places = columns.name.tolist(), dict(zip(spans.rows, spans.places.tolist(), strict=True))
    for row in chosen.tolist():
        target = begin[row], end[row], track[row]
        targets.setdefault((place[row], name[row]), []).append(target)
    for number, row in enumerate(np.flatnonzero(sent).tolist()):
        peer = places.get(spans.peers[columns.peer[row]], -1)
        time = int(nanoseconds(timeline.finish[columns.task[row]])) - 1
        candidates = targets.get((peer, name[row]), [])
        latest = bisect_right(candidates, (time, np.inf, 0)) - 1
        if latest < 0 or candidates[latest][1] <= time or begin[row] >= min(time, end[row]):
            continue
        yield begin[row], _arrow("s", number, place[row], track[row], begin[row])
        yield time, _arrow("f", number, peer, candidates[latest][2], time)


def _arrow(phase: str, number: int, rank: int, track: int, time: int) -> str:
    ids = f'"id": {number}, "pid": {rank}, "tid": {track}, "ts": {microseconds(np.array(time))}'
    return f'{{"ph": "{phase}", "bp": "e", "name": "transfer", "cat": "transfer", {ids}}}'


def _counters(memory: MemoryTrace, ranks: Sequence[int]) -> Iterator[str]:
    """What each rank holds over time; of many changes about two thousand."""
    for rank in ranks:
        times, nbytes = (column[:: max(1, len(column) // 2000)] for column in memory.of(rank))
        for time, level in plain_rows(microseconds(nanoseconds(times)), nbytes):
            ids = f'"ph": "C", "name": "memory", "pid": {rank}, "ts": {time}'
            yield f'{{{ids}, "args": {{"bytes": {level:.0f}}}}}'


def _in_order(
    slices: Slices, texts: Iterable[str], arrows: Sequence[tuple[int, str]]
) -> Iterator[str]:
    """All events by time; of those that begin together the shortest first, the ends of arrows
    last."""
    _, _, start, end = slices
    events = complete_events(*slices, texts)
    events += [text for _, text in arrows]
    time = np.append(start, np.array([time for time, _ in arrows], dtype=np.int64))
    last = np.full(len(arrows), np.iinfo(np.int64).max)
    return (events[row] for row in np.lexsort((np.append(end - start, last), time)).tolist())
