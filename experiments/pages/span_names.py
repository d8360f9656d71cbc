"""Spans whose names are numbers, and their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.pages.spans import Columns, Pieces, Spans, remark, thin
from experiments.pages.stored import LONGEST
from simulator.analysis.critical_path import PARTS
from topologies.topology import Floats, Ints

NameOf = Callable[[int], str]


class Names(NamedTuple):
    """The names of numbers in columns."""

    lanes: Sequence[str]
    """All lanes, from top to bottom: those that occur are shown."""
    kind: NameOf
    name: NameOf
    """The name of `name` and `awaited`."""
    peer: NameOf
    link: NameOf
    causes: Sequence[str]


class Chart(NamedTuple):
    """What is known of a timeline besides its spans."""

    rows: tuple[str, ...]
    """The name of each row."""
    nodes: Ints
    """The node of each row; -1 for none."""
    makespan: float
    main: int = -1
    """The lane on which ranks compute, a number of `lanes`."""
    steps: Floats = np.zeros(0)
    """When each step ends."""
    remarks: tuple[str, ...] = ()


def assembled(chart: Chart, parts: Sequence[Columns], path: Pieces, names: Names) -> Spans:
    """Spans with names, no more than a page draws."""
    total = sum(len(part.row) for part in parts)
    some = Columns.joined(*(thin(part, chart.makespan) for part in parts))
    columns = Columns.joined(thin(some, chart.makespan))
    lanes, lane = np.unique(np.concatenate((columns.lane, path.lane)), return_inverse=True)
    lane_places: Ints = lane.ravel().astype(np.int32)
    kinds, kind = named(columns.kind, names.kind)
    words, word = named(np.concatenate((columns.name, columns.awaited)), names.name)
    peers, peer = named(columns.peer, names.peer)
    links, link = named(columns.link, names.link)
    causes, cause = named(columns.cause, names.causes.__getitem__)
    path_parts, part = named(path.part, PARTS.__getitem__)
    count = len(columns.row)
    main = int(np.searchsorted(lanes, chart.main)) if chart.main in lanes else -1
    return Spans(
        chart.rows,
        chart.nodes.astype(np.int32),
        tuple(names.lanes[number] for number in lanes.tolist()),
        kinds,
        words,
        peers,
        links,
        causes,
        path_parts,
        main,
        chart.steps,
        chart.makespan,
        (*chart.remarks, *remark(total, columns)),
        columns._replace(
            lane=lane_places[:count],
            kind=kind,
            name=word[:count],
            awaited=word[count:],
            peer=peer,
            link=link,
            cause=cause,
        ),
        path._replace(lane=lane_places[count:], part=part),
    )


def named(numbers: npt.NDArray[np.integer], name_of: NameOf) -> tuple[tuple[str, ...], Ints]:
    """The names of the numbers that occur, and the place of each number's name; below 0 stays
    none."""
    known, place = np.unique(numbers, return_inverse=True)
    places: dict[str, int] = {}
    table = [
        places.setdefault(name_of(number)[:LONGEST], len(places)) if number >= 0 else -1
        for number in known.tolist()
    ]
    return tuple(places), np.array(table, dtype=np.int32)[place.ravel()]
