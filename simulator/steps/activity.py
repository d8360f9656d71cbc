"""What the lanes of places do at a time: computing, communicating, or nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topologies.columns import sums
from topologies.topology import Flags, Floats, Ints


class Activity(NamedTuple):
    """When lanes of places are active, a row each."""

    place: Ints
    lane: Ints
    begin: Floats
    end: Floats
    operation: Ints
    """The operation; -1 for none."""


class States(NamedTuple):
    """Which lanes of a place are active at a time: a row each, by place and time."""

    place: Ints
    begin: Floats
    length: Floats
    """Seconds until the next row of the place; 0 in its last row."""
    active: Flags
    """Whether each lane is active, shape (rows, lanes)."""
    begun: Ints
    """The row of the activity that begins; -1: one ends."""

    @property
    def some(self) -> Flags:
        """Whether some lane is active."""
        return np.asarray(self.active.any(axis=1))

    @property
    def first(self) -> Ints:
        """The first lane that is active, where one is."""
        return np.asarray(self.active.argmax(axis=1), dtype=np.int32)


def states(rows: Activity, lanes: int) -> States:
    """What is active from each begin and end on."""
    lasting = rows.end > rows.begin
    row, lane = np.flatnonzero(lasting), np.tile(rows.lane[lasting], 2)
    where = np.tile(rows.place[lasting], 2).astype(np.int32)
    time = np.concatenate((rows.begin[lasting], rows.end[lasting]))
    order = np.lexsort((time, where))
    change = np.zeros((len(order), lanes), dtype=np.int32)
    change[np.arange(len(order)), lane[order]] = np.repeat((1, -1), len(row))[order]
    where, time = where[order], time[order]
    length = np.append(np.diff(time), 0.0)
    length[np.append(np.diff(where) > 0, True)] = 0.0
    begun = np.append(row, np.full_like(row, -1))[order].astype(np.int32)
    return States(where, time, length, np.cumsum(change, axis=0) > 0, begun)


def lane_seconds(rows: States, places: int) -> tuple[Floats, Floats]:
    """How long each lane of a place is the first of the active ones, which is not hidden by others,
    and how long it is active, shape (places, lanes)."""
    some, lanes = rows.some, rows.active.shape[1]
    first = np.zeros((places, lanes))
    np.add.at(first, (rows.place[some], rows.first[some]), rows.length[some])
    busy = [sums(rows.place, rows.length * rows.active[:, lane], places) for lane in range(lanes)]
    return first, np.column_stack(busy)
