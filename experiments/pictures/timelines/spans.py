"""Spans: who does what when. Every picture, page and trace of a timeline draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pictures.timelines import stored
from simulator.analysis.critical_path import SEGMENT_PARTS, CriticalPath
from topologies.errors import InputError
from topologies.topology import Floats, Ints

MOST = 100_000
"""A file or a page has at most so many spans; beyond, short neighbours are one span."""
MOST_PIECES = 20_000
"""A critical path has at most so many pieces."""
IDLE = "idle"
"""The kind of spans in which a lane waits."""
MESSAGES = "messages"
"""The lane of messages below the lanes on which ranks compute and communicate."""
STEPS = "steps"
"""The lane of the steps of a training run, in traces."""
Flags = npt.NDArray[np.bool_]


class Columns(NamedTuple):
    """Spans, a row for each. A place of -1 is none; seconds and bytes of 0 are none."""

    row: Ints
    """The rank or device, a place in `rows`."""
    lane: Ints
    """Its stream, a place in `lanes`."""
    start: Floats
    """In seconds."""
    end: Floats
    """In seconds."""
    kind: Ints
    """What colours the span, a place in `kinds`."""
    name: Ints
    """A place in `names`."""
    peer: Ints
    """The other end of a message, or who is waited for: a place in `peers`."""
    link: Ints
    """The link or port that a message crosses or waits for, a place in `links`."""
    nbytes: Floats
    """Bytes of a message or a collective."""
    cause: Ints
    """Why the lane is idle, a place in `causes`."""
    awaited: Ints
    """What an idle lane waits for, a place in `names`."""
    waited: Floats
    """Seconds that a message waits in queues on its way."""
    members: Ints
    """For how many spans this one stands."""
    critical: Ints
    """1 if the critical path runs through it, else 0."""
    task: Ints
    """The task of the graph, or the operation of the schedule, that it is of. Files have none."""

    def take(self, chosen: npt.NDArray[Any]) -> Columns:
        """Some of the spans."""
        return Columns._make(column[chosen] for column in self)

    @classmethod
    def of(
        cls, row: npt.NDArray[Any], start: Floats, end: Floats, **some: npt.NDArray[Any] | int
    ) -> Columns:
        """Spans with some columns; the others are none."""
        none = dict.fromkeys(("peer", "link", "cause", "awaited", "task"), -1)
        values: dict[str, Any] = {**dict.fromkeys(cls._fields, 0), **none, "members": 1, **some}
        values |= {"row": row, "start": start, "end": end}
        return cls(
            *(
                np.broadcast_to(np.asarray(values[name], dtype=kind), len(row))
                for name, kind in TYPES.items()
            )
        )

    @classmethod
    def behind(cls, *parts: Columns) -> Columns:
        """The spans of some parts, one part behind the other."""
        return cls._make(np.concatenate(column) for column in zip(*parts, strict=True))

    @classmethod
    def joined(cls, *parts: Columns) -> Columns:
        """All spans, by row, lane and time."""
        every = cls.behind(*parts)
        return every.take(np.lexsort((every.start, every.lane, every.row)))


TYPES = {
    name: np.float64 if name in ("start", "end", "nbytes", "waited") else np.int32
    for name in Columns._fields
}
"""The type of each column."""


class Pieces(NamedTuple):
    """The pieces of a critical path, from the start on."""

    row: Ints
    """The rank or device, a place in `rows`; -1 for one that is not shown."""
    lane: Ints
    """A place in `lanes`."""
    start: Floats
    """In seconds."""
    end: Floats
    """In seconds."""
    part: Ints
    """A place in `parts`."""


NO_PATH = Pieces(
    *(np.zeros(0, dtype=kind) for kind in (np.int32, np.int32, float, float, np.int32))
)
WORDS = {
    **{"lane": "lanes", "kind": "kinds", "name": "names", "awaited": "names"},
    **{"peer": "peers", "link": "links", "cause": "causes"},
}
"""The list of words of each column."""


@dataclass(frozen=True, eq=False)
class Spans:
    """When ranks did what, with the names of everything."""

    rows: Sequence[str]
    """The ranks or devices, from top to bottom."""
    nodes: Ints
    """The node of each row; -1 for none."""
    lanes: Sequence[str]
    """The streams of a row, from top to bottom."""
    kinds: Sequence[str]
    names: Sequence[str]
    peers: Sequence[str]
    links: Sequence[str]
    causes: Sequence[str]
    """Why a lane is idle."""
    parts: Sequence[str]
    """What the critical path consists of."""
    main: int
    """The lane on which ranks compute: communication at the same time is hidden, other
    communication is exposed. -1 if there is none."""
    steps: Floats
    """When each step of a training run ends, in seconds, shape (steps, 1); or at each worker if
    none waits for another, shape (steps, workers)."""
    makespan: float
    """Seconds from the start to the end of the last operation."""
    remarks: tuple[str, ...]
    """Sentences: what is not shown, and who stands for others."""
    columns: Columns
    path: Pieces = NO_PATH
    workers: int | None = None
    """The first rows, which train: those behind them serve. None: all. Files do not have this, nor
    what follows."""
    places: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """The rank or device of each row."""
    step_names: Sequence[str] = ()
    labels: Mapping[str, Ints] = field(default_factory=dict)
    """Numbers of each task, by what they are called; -1 for none."""

    @property
    def what(self) -> str:
        """What rows are: "rank", "device", or else "place"."""
        words = {row.partition(" ")[0] for row in self.rows[: self.workers]}
        return words.pop() if len(words) == 1 else "place"

    @property
    def idle(self) -> Flags:
        """Whether each span is one in which a lane waits."""
        return np.isin(self.columns.kind, [k for k, kind in enumerate(self.kinds) if kind == IDLE])

    def bands(self, columns: Columns) -> npt.NDArray[np.int64]:
        """The band of each of some spans, so that no two of a row, lane and band overlap."""
        lane = columns.row.astype(np.int64) * len(self.lanes) + columns.lane
        return bands(lane, columns.start, columns.end - 1e-9 * self.makespan)

    def compact(self) -> Spans:
        """These spans with the words alone that occur, each once."""
        columns, path = self.columns, self.path
        used = {table: list[Ints]() for table in (*WORDS.values(), "parts")}
        for name, table in WORDS.items():
            used[table].append(getattr(columns, name))
        used["lanes"].append(path.lane)
        used["parts"].append(path.part)
        words, place = dict[str, Any](), dict[str, Ints]()
        for table, numbers in used.items():
            words[table], place[table] = _occurring(numbers, getattr(self, table))
        moved = {name: place[table][getattr(columns, name)] for name, table in WORDS.items()}
        lane, part = place["lanes"][path.lane], place["parts"][path.part]
        return replace(
            self,
            **words,
            main=int(place["lanes"][self.main]),
            columns=columns._replace(**moved),
            path=path._replace(lane=lane, part=part),
        )

    def having(self, *parts: Columns, most: int | None = MOST) -> Spans:
        """These spans with the columns of some parts; with `most`, in order and no more."""
        if most is None:
            return replace(self, columns=Columns.behind(*parts)).compact()
        columns = Columns.joined(*parts)
        columns = columns.take(columns.end > columns.start)
        return thinned(replace(self, columns=columns), most).compact()


def _occurring(numbers: Sequence[Ints], words: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """The words whose numbers occur, and the place of each number's word among them. The last
    place is that of -1."""
    every = np.concatenate(numbers)
    table = np.full(len(words) + 1, -1, dtype=np.int32)
    places: dict[str, int] = {}
    known = np.flatnonzero(np.bincount(every + 1, minlength=1)) - 1
    for number in known[known >= 0].tolist():
        table[number] = places.setdefault(words[number][: stored.LONGEST], len(places))
    return tuple(places), table


def thinned(spans: Spans, most: int = MOST) -> Spans:
    """At most so many spans, and a remark that says so. Short neighbours of one kind become one
    span; if that is not enough, the longest are kept."""
    columns, limit = spans.columns, (spans.makespan or 1.0) / most
    if len(columns.row) <= most:
        return spans
    total = int(columns.members.sum())
    order = columns.start, columns.cause, columns.kind, columns.lane, columns.row
    columns = columns.take(np.lexsort(order))
    while len(columns.row) > most and limit < spans.makespan:
        columns, limit = _merged(columns, limit), 2 * limit
    if len(columns.row) > most:
        columns = columns.take(np.sort(np.argsort(columns.start - columns.end)[:most]))
    missing = total - int(columns.members.sum())
    lost = f", and the shortest {missing:,} are left out" * (missing > 0)
    remark = (
        f"{total:,} spans are drawn as {len(columns.row):,}: short neighbours of one kind are one "
        f"span{lost}."
    )
    return replace(spans, columns=columns, remarks=(*spans.remarks, remark))


def _merged(columns: Columns, limit: float) -> Columns:
    """Neighbours of one row, lane, kind and cause as one span if they are shorter than `limit`, as
    is the time between them, and begin in one part of the time of that length."""
    short = columns.end - columns.start < limit
    joined = short[1:] & short[:-1] & (columns.start[1:] - columns.end[:-1] < limit)
    part = np.floor(columns.start / limit)
    for same in (columns.row, columns.lane, columns.kind, columns.cause, part):
        joined &= same[1:] == same[:-1]
    return united(columns, joined)


def united(columns: Columns, joined: Flags) -> Columns:
    """Spans as one with the span behind them where `joined` says so."""
    if not len(columns.row):
        return columns
    first = np.flatnonzero(np.append(True, ~joined))
    return columns.take(first)._replace(
        end=np.maximum.reduceat(columns.end, first),
        nbytes=np.add.reduceat(columns.nbytes, first),
        waited=np.add.reduceat(columns.waited, first),
        members=np.add.reduceat(columns.members, first),
        critical=np.maximum.reduceat(columns.critical, first),
    )


def pieces_of(path: CriticalPath, ranks: Ints, lane: Ints) -> Pieces:
    """A critical path from the start on. `ranks` are those of the rows, in order; `lane` is that
    of each segment of the path.

    Neighbours on one lane with one part are one piece, and so are the shortest of very many.
    """
    order = np.flatnonzero(path.seconds > 0)[::-1]
    path, lane = path.take(order), lane[order].astype(np.int32)
    end = np.cumsum(path.seconds)
    # What merges is at the receiver.
    merges = [SEGMENT_PARTS.index(part) for part in ("reduction", "copy")]
    rank = np.where(np.isin(path.part, merges), path.where, path.rank)
    row = np.searchsorted(ranks, rank).clip(max=len(ranks) - 1)
    row = np.where(ranks[row] == rank, row, -1).astype(np.int32)
    pieces = Pieces(row, lane, end - path.seconds, end, path.charged.astype(np.int32))
    alike = np.ones(max(len(row) - 1, 0), dtype=np.bool_)
    for column in (pieces.row, pieces.lane, pieces.part):
        alike &= column[1:] == column[:-1]
    pieces, limit = _joined(pieces, alike), float(end.max(initial=0.0)) / MOST_PIECES
    while len(pieces.row) > MOST_PIECES:
        short = pieces.end - pieces.start < limit
        pieces, limit = _joined(pieces, short[1:] & short[:-1]), 4 * limit
    return pieces


def _joined(pieces: Pieces, with_next: Flags) -> Pieces:
    if not len(pieces.row):
        return pieces
    first = np.flatnonzero(np.append(True, ~with_next))
    last = np.append(first[1:], len(pieces.row)) - 1
    return Pieces._make(column[first] for column in pieces)._replace(end=pieces.end[last])


def bands(
    track: npt.NDArray[np.integer],
    start: npt.NDArray[np.int64] | Floats,
    end: npt.NDArray[np.int64] | Floats,
) -> npt.NDArray[np.int64]:
    """The band of every span, so that no two of a track and a band overlap: 0 wherever they do not
    overlap anyway."""
    order = np.lexsort((end, start, track))
    track, start, end = track[order], start[order], end[order]
    band = np.zeros(len(order), dtype=np.int64)
    overlap = (track[1:] == track[:-1]) & (start[1:] < end[:-1])
    for crowded in np.unique(track[1:][overlap]):
        part = slice(*np.searchsorted(track, [crowded, crowded + 1]))
        band[part] = partition(start[part], end[part])
    result = np.empty_like(band)
    result[order] = band
    return result


def partition(start: npt.NDArray[np.int64] | Floats, end: npt.NDArray[np.int64] | Floats) -> Ints:
    """The fewest bands in which no two spans overlap, for spans in order of start: each takes the
    lowest free one."""
    band, free = np.zeros(len(start), dtype=np.int32), list[int]()
    busy: list[tuple[float, int]] = []
    for k, (begin, until) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        band[k] = heappop(free) if free else len(busy)
        heappush(busy, (until, int(band[k])))
    return band


def to_document(spans: Spans) -> dict[str, object]:
    """The spans as JSON: columns are lists, and a column of equal values is one value."""
    words = ("rows", *dict.fromkeys(WORDS.values()), "parts", "remarks")
    columns = spans.columns._asdict()
    del columns["task"]
    return {
        **{name: list(getattr(spans, name)) for name in words},
        "main": spans.main,
        "makespan": spans.makespan,
        "nodes": spans.nodes.tolist(),
        "steps": common_steps(spans),
        "columns": {name: _plain(column) for name, column in columns.items()},
        "path": {name: column.tolist() for name, column in spans.path._asdict().items()},
        "count": len(spans.columns.row),
    }


def common_steps(spans: Spans) -> list[float]:
    """When each step ends at all workers; none if they do not end together."""
    steps: list[float] = spans.steps[:, 0].tolist() if spans.steps.shape[1] == 1 else []
    return steps


def _plain(column: npt.NDArray[Any]) -> object:
    alike = len(column) and bool((column == column[0]).all())
    return column[0].item() if alike else column.tolist()


def from_document(document: object, name: str) -> Spans:
    """The spans of a document that :func:`to_document` made. Raises InputError of one line, which
    begins with `name`, if anything in it does not fit."""
    file = stored.Stored(document, name)
    part, pieces = file.part("columns"), file.part("path")
    words: dict[str, Any] = {key: file.words(key) for key in ("rows", *WORDS.values(), "parts")}
    count = file.whole_number("count", 0, stored.MOST)
    known: dict[str, Any] = {"row": part.places("row", count, words["rows"])}
    for column, words_of in WORDS.items():
        least = 0 if column in ("lane", "kind", "name") else -1
        known[column] = part.places(column, count, words[words_of], least)
    known["members"] = part.whole("members", count, 1, 2**31 - 1)
    known["critical"] = part.whole("critical", count, 0, 1)
    known |= {key: part.reals(key, count) for key in ("start", "end", "nbytes", "waited")}
    starts = pieces.reals("start")
    path = Pieces(
        pieces.places("row", len(starts), words["rows"], -1),
        pieces.places("lane", len(starts), words["lanes"]),
        starts,
        pieces.reals("end", len(starts)),
        pieces.places("part", len(starts), words["parts"]),
    )
    makespan, columns = file.real("makespan"), Columns.of(known.pop("row"), **known)
    for table in (columns, path):
        if np.any(table.start > table.end) or np.any(table.end > makespan * (1 + 1e-9)):
            raise InputError(f"{name}: a span ends before it starts, or after the makespan")
    return Spans(
        nodes=file.whole("nodes", len(words["rows"]), -1, 2**31 - 1),
        main=file.whole_number("main", -1, len(words["lanes"]) - 1),
        steps=file.reals("steps").reshape(-1, 1),
        makespan=makespan,
        remarks=file.words("remarks"),
        columns=Columns.joined(columns),
        path=path,
        **words,
    )
