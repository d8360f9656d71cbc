"""The spans of a timeline as plain columns: what a page draws, and what a result file stores."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pages.stored import MOST as STORED
from experiments.pages.stored import Stored
from topologies.errors import InputError
from topologies.topology import Floats, Ints

MOST = 100_000
"""A file or a page has at most so many spans; beyond, short neighbours are one span."""
MOST_PIECES = 20_000
"""A critical path has at most so many pieces."""
IDLE = "idle"
"""The kind of spans in which a lane waits."""


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

    def take(self, chosen: npt.NDArray[Any]) -> Columns:
        """Some of the spans."""
        return Columns._make(column[chosen] for column in self)

    @classmethod
    def of(
        cls, row: npt.NDArray[Any], start: Floats, end: Floats, **some: npt.NDArray[Any] | int
    ) -> Columns:
        """Spans with some columns; the others are none."""
        none = dict.fromkeys(("peer", "link", "cause", "awaited"), -1)
        values: dict[str, Any] = {**dict.fromkeys(cls._fields, 0), **none, "members": 1, **some}
        values |= {"row": row, "start": start, "end": end}
        return cls(
            *(
                np.broadcast_to(np.asarray(values[name], dtype=kind), len(row))
                for name, kind in TYPES.items()
            )
        )

    @classmethod
    def joined(cls, *parts: Columns) -> Columns:
        """All spans, by row, lane and time."""
        every = cls._make(np.concatenate(column) for column in zip(*parts, strict=True))
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


@dataclass(frozen=True, eq=False)
class Spans:
    """When ranks did what, with the names of everything."""

    rows: tuple[str, ...]
    """The ranks or devices, from top to bottom."""
    nodes: Ints
    """The node of each row; -1 for none."""
    lanes: tuple[str, ...]
    """The streams of a row, from top to bottom."""
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    peers: tuple[str, ...]
    links: tuple[str, ...]
    causes: tuple[str, ...]
    """Why a lane is idle."""
    parts: tuple[str, ...]
    """What the critical path consists of."""
    main: int
    """The lane on which ranks compute: communication at the same time is hidden, other
    communication is exposed. -1 if there is none."""
    steps: Floats
    """When each step of a training run ends, in seconds; empty where there is one."""
    makespan: float
    """Seconds from the start to the end of the last operation."""
    remarks: tuple[str, ...]
    """Sentences: what is not shown, and who stands for others."""
    columns: Columns
    path: Pieces


def thin(columns: Columns, makespan: float, most: int = MOST) -> Columns:
    """At most so many spans. Short neighbours of one kind become one span; if that is
    not enough, the longest are kept."""
    if len(columns.row) <= most:
        return columns
    order = (columns.start, columns.cause, columns.kind, columns.lane, columns.row)
    columns, limit = columns.take(np.lexsort(order)), (makespan or 1.0) / most
    while len(columns.row) > most and limit < makespan:
        columns, limit = _merged(columns, limit), 2 * limit
    if len(columns.row) > most:
        columns = columns.take(np.sort(np.argsort(columns.start - columns.end)[:most]))
    return columns


def remark(total: int, columns: Columns) -> tuple[str, ...]:
    """A sentence that says how many spans stand for `total`, if they are fewer."""
    if len(columns.row) >= total:
        return ()
    missing = total - int(columns.members.sum())
    lost = f", and the shortest {missing:,} are left out" * (missing > 0)
    return (
        f"{total:,} spans are drawn as {len(columns.row):,}: short neighbours of one kind are one "
        f"span{lost}.",
    )


def thinned(spans: Spans, most: int = MOST) -> Spans:
    """At most so many spans, and a remark that says so."""
    columns = thin(spans.columns, spans.makespan, most)
    if columns is spans.columns:
        return spans
    total = int(spans.columns.members.sum())
    return replace(spans, columns=columns, remarks=(*spans.remarks, *remark(total, columns)))


def _merged(columns: Columns, limit: float) -> Columns:
    """Neighbours of one row, lane, kind and cause as one span if they are shorter than `limit`, as
    is the time between them, and begin in one part of the time of that length."""
    short = columns.end - columns.start < limit
    joined = short[1:] & short[:-1] & (columns.start[1:] - columns.end[:-1] < limit)
    part = np.floor(columns.start / limit)
    for same in (columns.row, columns.lane, columns.kind, columns.cause, part):
        joined &= same[1:] == same[:-1]
    first = np.flatnonzero(np.append(True, ~joined))
    one = columns.take(first)
    return one._replace(
        end=np.maximum.reduceat(columns.end, first),
        nbytes=np.add.reduceat(columns.nbytes, first),
        waited=np.add.reduceat(columns.waited, first),
        members=np.add.reduceat(columns.members, first),
        critical=np.maximum.reduceat(columns.critical, first),
    )


def to_document(spans: Spans) -> dict[str, object]:
    """The spans as JSON: columns are lists, and a column of equal values is one value."""
    words = {
        field.name: list(getattr(spans, field.name))
        for field in fields(spans)
        if field.name not in ("nodes", "steps", "main", "makespan", "columns", "path")
    }
    return {
        **words,
        "main": spans.main,
        "makespan": spans.makespan,
        "nodes": spans.nodes.tolist(),
        "steps": spans.steps.tolist(),
        "columns": {name: _plain(column) for name, column in spans.columns._asdict().items()},
        "path": {name: column.tolist() for name, column in spans.path._asdict().items()},
        "count": len(spans.columns.row),
    }


def _plain(column: npt.NDArray[Any]) -> object:
    alike = len(column) and bool((column == column[0]).all())
    return column[0].item() if alike else column.tolist()


def from_document(document: object, name: str) -> Spans:
    """The spans of a document that :func:`to_document` made. Raises InputError of one line, which
    begins with `name`, if anything in it does not fit."""
    file = Stored(document, name)
    rows, lanes, kinds, names = (file.words(key) for key in ("rows", "lanes", "kinds", "names"))
    peers, links, causes, parts = (file.words(key) for key in ("peers", "links", "causes", "parts"))
    part, pieces = file.part("columns"), file.part("path")
    count = file.whole_number("count", 0, STORED)
    columns = Columns(
        row=part.places("row", count, rows),
        lane=part.places("lane", count, lanes),
        start=part.reals("start", count),
        end=part.reals("end", count),
        kind=part.places("kind", count, kinds),
        name=part.places("name", count, names),
        peer=part.places("peer", count, peers, -1),
        link=part.places("link", count, links, -1),
        nbytes=part.reals("nbytes", count),
        cause=part.places("cause", count, causes, -1),
        awaited=part.places("awaited", count, names, -1),
        waited=part.reals("waited", count),
        members=part.whole("members", count, 1, 2**31 - 1),
        critical=part.whole("critical", count, 0, 1),
    )
    starts = pieces.reals("start")
    path = Pieces(
        pieces.places("row", len(starts), rows, -1),
        pieces.places("lane", len(starts), lanes),
        starts,
        pieces.reals("end", len(starts)),
        pieces.places("part", len(starts), parts),
    )
    makespan = file.real("makespan")
    for table in (columns, path):
        if np.any(table.start > table.end) or np.any(table.end > makespan * (1 + 1e-9)):
            raise InputError(f"{name}: a span ends before it starts, or after the makespan")
    nodes = file.whole("nodes", len(rows), -1, 2**31 - 1)
    remarks, steps = file.words("remarks"), file.reals("steps")
    words = rows, nodes, lanes, kinds, names, peers, links, causes, parts
    main = file.whole_number("main", -1, len(lanes) - 1)
    return Spans(*words, main, steps, makespan, remarks, Columns.joined(columns), path)
