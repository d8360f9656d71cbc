"""Spans: who does what when. Every picture, page and trace of a timeline draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.analysis.critical_path import SEGMENT_PARTS, CriticalPath
from simulator.schedules.timeline import union
from topologies.columns import plain_rows
from topologies.topology import Flags, Floats, Ints, Longs, Numbers

MOST = 100_000
"""A file or a page has at most so many spans; beyond, short neighbours are one span."""
MOST_PIECES = 20_000
"""A critical path has at most so many pieces."""
LONGEST = 500
"""Letters of a word of a timeline, at most."""
IDLE = "idle"
"""The kind of spans in which a lane waits."""
MESSAGES = "messages"
"""The lane of messages below the lanes on which ranks compute and communicate."""
STEPS = "steps"
"""The lane of the steps of a training run, in traces."""


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

    def alike(self, *names: str) -> Flags:
        """Whether each span but the last has the values of the next one in some columns."""
        same = np.ones(max(len(self.row) - 1, 0), dtype=np.bool_)
        for name in names:
            column = getattr(self, name)
            same &= column[1:] == column[:-1]
        return same

    def united(self, joined: Flags) -> Columns:
        """Spans as one with the span behind them where `joined` says so."""
        if not len(self.row):
            return self
        first = np.flatnonzero(np.append(True, ~joined))
        sums = {
            name: np.add.reduceat(getattr(self, name), first)
            for name in ("nbytes", "waited", "members")
        }
        return self.take(first)._replace(
            end=np.maximum.reduceat(self.end, first),
            critical=np.maximum.reduceat(self.critical, first),
            **sums,
        )

    @classmethod
    def of(
        cls, row: npt.NDArray[Any], start: Floats, end: Floats, **some: npt.NDArray[Any] | int
    ) -> Columns:
        """Spans with some columns; the others are none."""
        none = dict.fromkeys(("peer", "link", "cause", "awaited", "task"), -1)
        values: dict[str, Any] = {**dict.fromkeys(cls._fields, 0), **none, "members": 1, **some}
        values |= {"row": row, "start": start, "end": end}
        columns = (np.asarray(values[name], dtype=kind) for name, kind in TYPES.items())
        return cls._make(np.broadcast_to(column, len(row)) for column in columns)

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
NO_SPANS = Columns.of(*np.zeros((3, 0)))
WORDS = {
    **{"lane": "lanes", "kind": "kinds", "name": "names", "awaited": "names"},
    **{"peer": "peers", "link": "links", "cause": "causes"},
}
"""The list of words of each column."""


@dataclass(frozen=True, eq=False, kw_only=True)
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
    causes: Sequence[str]
    """Why a lane is idle."""
    makespan: float
    """Seconds from the start to the end of the last operation."""
    remarks: tuple[str, ...]
    """Sentences: what is not shown, and who stands for others."""
    links: Sequence[str] = ()
    parts: Sequence[str] = ()
    """What the critical path consists of: its pieces have these as kinds."""
    main: int = -1
    """The lane on which ranks compute: communication at the same time is hidden, other
    communication is exposed. -1 if there is none."""
    steps: Floats = field(default_factory=lambda: np.zeros((0, 1)))
    """When each step of a training run ends, in seconds, shape (steps, 1); or at each worker if
    none waits for another, shape (steps, workers)."""
    columns: Columns = NO_SPANS
    path: Columns = NO_SPANS
    """The pieces of the critical path, from the start on. A row of -1 is not shown."""
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

    @property
    def common_steps(self) -> list[float]:
        """When each step ends at all workers; none if they do not end together."""
        steps: list[float] = self.steps[:, 0].tolist() if self.steps.shape[1] == 1 else []
        return steps

    def bands(self, columns: Columns) -> Longs:
        """The band of each of some spans, so that no two of a row, lane and band overlap."""
        lane = columns.row.astype(np.int64) * len(self.lanes) + columns.lane
        return bands(lane, columns.start, columns.end - 1e-9 * self.makespan)

    def compact(self) -> Spans:
        """These spans with the words alone that occur."""
        columns, path = self.columns, self.path
        used = {"parts": [path.kind], "lanes": [path.lane]}
        for name, table in WORDS.items():
            used.setdefault(table, []).append(getattr(columns, name))
        # The first is that of no word.
        known = {table: np.unique(np.concatenate([[-1], *each])) for table, each in used.items()}

        def place(table: str, number: Ints) -> Ints:
            return np.searchsorted(known[table], number).astype(np.int32) - 1

        words: dict[str, Any] = {
            table: tuple(getattr(self, table)[number][:LONGEST] for number in numbers[1:].tolist())
            for table, numbers in known.items()
        }
        places: dict[str, Any] = {
            name: place(table, getattr(columns, name)) for name, table in WORDS.items()
        }
        return replace(
            self,
            **words,
            main=known["lanes"].tolist().index(self.main) - 1
            if self.main in known["lanes"]
            else -1,
            columns=columns._replace(**places),
            path=path._replace(lane=place("lanes", path.lane), kind=place("parts", path.kind)),
        )

    def having(self, *parts: Columns, most: int | None = MOST) -> Spans:
        """These spans with the columns of some parts; with `most`, in order and no more."""
        if most is None:
            return replace(self, columns=Columns.behind(*parts)).compact()
        columns = Columns.joined(*parts)
        columns = columns.take(columns.end > columns.start)
        return thinned(replace(self, columns=columns), most).compact()


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
        # Neighbours that are short, near each other and begin in one part of the time.
        short, part = columns.end - columns.start < limit, np.floor(columns.start / limit)
        near = columns.start[1:] - columns.end[:-1] < limit
        joined = short[1:] & short[:-1] & near & (part[1:] == part[:-1])
        columns = columns.united(joined & columns.alike("row", "lane", "kind", "cause"))
        limit *= 2
    if len(columns.row) > most:
        columns = columns.take(np.sort(np.argsort(columns.start - columns.end)[:most]))
    missing = total - int(columns.members.sum())
    lost = f", and the shortest {missing:,} are left out" * (missing > 0)
    remark = (
        f"{total:,} spans are drawn as {len(columns.row):,}: short neighbours of one kind are one "
        f"span{lost}."
    )
    return replace(spans, columns=columns, remarks=(*spans.remarks, remark))


WORD_LISTS = ("rows", *dict.fromkeys(WORDS.values()), "parts", "remarks")
"""The lists of texts of spans."""
PATH = {"row": "row", "lane": "lane", "start": "start", "end": "end", "kind": "part"}
"""Columns of the critical path, and their keys in files."""


def to_document(spans: Spans) -> dict[str, Any]:
    """Spans as a file stores them: words, numbers and columns by key. A column of equal values is
    one value."""
    columns = spans.columns._asdict()
    del columns["task"]
    return {
        **{name: getattr(spans, name) for name in (*WORD_LISTS, "makespan", "main")},
        "nodes": spans.nodes.tolist(),
        "steps": spans.common_steps,
        "count": len(spans.columns.row),
        "columns": {
            name: column[0].item() if len(set(column.tolist())) == 1 else column.tolist()
            for name, column in columns.items()
        },
        "path": {key: getattr(spans.path, name).tolist() for name, key in PATH.items()},
    }


def from_document(document: Mapping[str, Any]) -> Spans:
    """The spans of a document that :func:`to_document` made."""
    count, path = document["count"], document["path"]
    columns = {name: np.broadcast_to(column, count) for name, column in document["columns"].items()}
    words: dict[str, Any] = {name: tuple(document[name]) for name in WORD_LISTS}
    return Spans(
        **words,
        makespan=document["makespan"],
        main=document["main"],
        nodes=np.array(document["nodes"], dtype=np.int32),
        steps=np.reshape(document["steps"], (-1, 1)),
        columns=Columns.of(**columns),
        path=Columns.of(**{column: np.array(path[key]) for column, key in PATH.items()}),
    )


def path_pieces(path: CriticalPath, ranks: Ints, lane: Ints) -> Columns:
    """A critical path from the start on. `ranks` are those of the rows, in order; `lane` is that
    of each segment of the path.

    Neighbours on one lane with one part are one piece, and so are the shortest of very many.
    """
    order = np.flatnonzero(path.seconds > 0)[::-1]
    path, lane = path.take(order), lane[order]
    end = np.cumsum(path.seconds)
    # What merges is at the receiver.
    merges = [SEGMENT_PARTS.index(part) for part in ("reduction", "copy")]
    rank = np.where(np.isin(path.part, merges), path.where, path.rank)
    row = np.searchsorted(ranks, rank).clip(max=len(ranks) - 1)
    row = np.where(ranks[row] == rank, row, -1)
    pieces = Columns.of(row, end - path.seconds, end, lane=lane, kind=path.charged)
    pieces, limit = pieces.united(pieces.alike("row", "lane", "kind")), end[-1:].sum() / MOST_PIECES
    while len(pieces.row) > MOST_PIECES:
        short = pieces.end - pieces.start < limit
        pieces, limit = pieces.united(short[1:] & short[:-1]), 4 * limit
    return pieces


def bands(
    track: Numbers,
    start: Longs | Floats,
    end: Longs | Floats,
) -> Longs:
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


def partition(start: Longs | Floats, end: Longs | Floats) -> Ints:
    """The fewest bands in which no two spans overlap, for spans in order of start: each takes the
    lowest free one."""
    band, free = np.zeros(len(start), dtype=np.int32), list[int]()
    busy: list[tuple[float, int]] = []
    for k, (begin, until) in enumerate(plain_rows(start, end)):
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        band[k] = heappop(free) if free else len(busy)
        heappush(busy, (until, int(band[k])))
    return band


def busy_times(columns: Columns) -> dict[int, Floats]:
    """When some span of each row lasts: intervals in order, shape (2, n)."""
    chosen = ((row, columns.row == row) for row in np.unique(columns.row).tolist())
    return {row: union(columns.start[mine], columns.end[mine]) for row, mine in chosen}
