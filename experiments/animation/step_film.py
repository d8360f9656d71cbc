"""The animation of a training step: devices as rows, and what moves between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from topologies.topology import Floats, Ints

SAMPLES = 400
"""Moments at which figures are sampled."""


class Look(NamedTuple):
    """How boxes of a kind, or items in a state, are drawn."""

    name: str
    colour: str
    sign: str = ""
    """A sign beside the colour."""


class Boxes(NamedTuple):
    """What devices do, a row for each box."""

    row: Ints
    lane: Ints
    start: Floats
    end: Floats
    look: Ints
    """The kind, as a place in the looks of boxes."""
    item: Ints
    """The item that it works on, or -1."""


class Changes(NamedTuple):
    """States of items at rows, in the order of time."""

    time: Floats
    row: Ints
    item: Ints
    state: Ints
    """The state from then on, as a place in the looks of states."""


class Flights(NamedTuple):
    """Items on their way from row to row."""

    start: Floats
    end: Floats
    row: Ints
    peer: Ints
    item: Ints


class Event(NamedTuple):
    """A mark of the animation: what ends at a moment."""

    time: float
    title: str
    sentence: str


class Figure(NamedTuple):
    """A figure that changes, sampled at the same moments as all others."""

    name: str
    unit: str
    """seconds, bytes, share or count."""
    values: Floats


@dataclass(frozen=True, eq=False)
class StepFilm:
    """What an animation of a training step shows."""

    rows: Sequence[str]
    """What each row is called."""
    lanes: Sequence[str]
    """The lanes of a row."""
    items: str
    """What an item is called: "bucket" or "micro-batch"."""
    count: int
    """The number of items."""
    kinds: Sequence[Look]
    """The looks of boxes."""
    states: Sequence[Look]
    """The looks of items; the first is the state at the start."""
    boxes: Boxes
    changes: Changes
    flights: Flights
    end: float
    """The length of the step in seconds."""
    events: Sequence[Event]
    """What happens, in the order of time. The last event is at the end."""
    figures: Sequence[Figure] = field(default=())

    @property
    def marks(self) -> list[float]:
        """The moments of the events, behind 0."""
        return [0.0, *(event.time for event in self.events)]

    @property
    def moments(self) -> Floats:
        """The moments at which figures are sampled."""
        return np.linspace(0.0, self.end, SAMPLES)

    def event(self, moment: float) -> Event:
        """What goes on at a moment."""
        place = int(np.searchsorted(self.marks[1:], moment - 1e-9 * self.end))
        return self.events[min(place, len(self.events) - 1)]

    def states_at(self, moment: float) -> Ints:
        """The state of each item at each row, shape (rows, items)."""
        states = np.zeros((len(self.rows), self.count), dtype=np.int32)
        done = int(np.searchsorted(self.changes.time, moment, side="right"))
        states[self.changes.row[:done], self.changes.item[:done]] = self.changes.state[:done]
        return states


def merged(events: Sequence[Event], end: float) -> list[Event]:
    """Events in the order of time; of those at one moment the first, and one at the end."""
    result = list[Event]()
    for event in sorted(events, key=lambda event: event.time):
        if event.time <= 0:
            continue
        if result and event.time - result[-1].time <= 1e-6 * end:
            continue
        result.append(event)
    return result


def covered(start: Floats, end: Floats, moments: Floats) -> Floats:
    """For how long at least one of some spans has covered the time up to each moment."""
    order = np.argsort(start)
    begins, ends = start[order], np.maximum.accumulate(end[order]) if len(end) else end
    before = np.append(0.0, ends[:-1])[: len(ends)]
    length = np.maximum(0.0, ends - np.maximum(begins, before))
    first = ends - length
    share = np.clip(moments[:, None] - first, 0.0, length)
    return np.asarray(share.sum(axis=1))


def sorted_changes(rows: Sequence[tuple[float, int, int, int]]) -> Changes:
    """Changes from (time, row, item, state)."""
    ordered = sorted(rows, key=lambda change: (change[0], change[3]))
    time, row, item, state = (np.array(column) for column in zip(*ordered, strict=True))
    return Changes(time.astype(np.float64), *(c.astype(np.int32) for c in (row, item, state)))
