"""The film of a training step: devices as rows, what they do, and items that move between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.animation.film import (
    ACCENT,
    GROUND,
    INK,
    PANEL,
    Act,
    Canvas,
    Figure,
    Film,
    Key,
    Look,
    TimedShape,
    changing,
    moving,
    rows_of,
)
from experiments.pictures.timelines.spans import Columns
from experiments.pictures.timelines.step_spans import StepSpans
from topologies.topology import Floats, Ints

NOTE = (
    "A row is a device. Its numbered cells are {items}: colour and sign say in which state each "
    "is. Boxes move from row to row. The bars below are the timeline so far. Keys: space plays, "
    "arrows go from event to event, Home and End jump."
)
WIDE, NARROW = (1010.0, 88.0), (300.0, 58.0)
"""Pixels of the rows and of their names, in wide windows and in narrow ones."""
FEW, SMALL, LARGE = 8, (16, 8, 8), (24, 14, 14)
"""Rows up to which they are large; and pixels of the height of cells, of a lane, and of the gap to
the next row."""
MOST_FLIGHTS = 20_000
"""Messages that are drawn, at most."""
SAMPLES = 400
"""Moments at which figures are sampled."""
CELL, NAME = 64.0, 16.0
"""Pixels of the width of a cell and of the height of a name, at most."""


class Task(NamedTuple):
    """Something that a row does."""

    row: int
    lane: int
    begin: float
    end: float
    key: Key
    item: int
    """The item that it works on, or -1."""


class Change(NamedTuple):
    """An item at a row gets into another state."""

    time: float
    row: int
    item: int
    state: Key


class Flight(NamedTuple):
    """An item on its way from row to row."""

    begin: float
    end: float
    row: int
    peer: int
    item: int


class Event(NamedTuple):
    """A mark of the film: what ends at a moment."""

    time: float
    title: str
    sentence: str


@dataclass(frozen=True, eq=False)
class Step:
    """What happens in a step."""

    rows: Sequence[str]
    """What each row is called."""
    items: str
    """What several items are called."""
    keys: Sequence[Key]
    """The states of items, the first is that at the start; and the kinds of tasks."""
    tasks: Sequence[Task]
    changes: Sequence[Change]
    flights: Sequence[Flight]
    events: Sequence[Event]
    """The last one is at the end of the step."""

    @property
    def marks(self) -> list[float]:
        """The moments of the events, behind 0."""
        return [0.0, *(event.time for event in self.events)]

    @cached_property
    def lanes(self) -> int:
        """The number of lanes of a row."""
        return max(task.lane for task in self.tasks) + 1

    @cached_property
    def count(self) -> int:
        """The number of items."""
        return max(change.item for change in self.changes) + 1


def step_film(step: Step, figures: Sequence[Figure], facts: Sequence[str]) -> Film:
    """The film of a step."""
    marks, events = step.marks, step.events
    ends = np.array([0.0, marks[-1]])
    act = Act(
        "simulated time",
        marks,
        ["before the first event", *(event.title for event in events)],
        ["", *(event.sentence for event in events)],
        list(_shapes(step)),
        [Figure("time", "seconds", ends, ends, marks[-1]), *figures],
        marks[-1],
    )
    used = {change.state for change in step.changes} | {task.key for task in step.tasks}
    used.add(step.keys[0])
    return Film(
        [act],
        [_layout(step, *size) for size in (WIDE, NARROW)],
        facts,
        NOTE.format(items=step.items),
        [key for key in step.keys if key in used],
        stops=40,
        frames=80,
        pause=600,
    )


def _layout(step: Step, width: float, margin: float) -> Canvas:
    """The boxes of cells, row by row; of names, of the ground of lanes, and of the present at the
    start and at the end, for each row; and of tasks as they begin and as they end."""
    rows, count = len(step.rows), step.count
    strip, lane, gap = LARGE if rows <= FEW else SMALL
    height, lanes = strip + 6 + lane * step.lanes + gap, lane * step.lanes
    cell = min(CELL, width / count)
    top = 4.0 + np.arange(rows) * height
    begin, end = np.array([task[2:4] for task in step.tasks]).T * width / step.marks[-1]
    task_top = np.array([top[task.row] + strip + 4.5 + task.lane * lane for task in step.tasks])
    boxes = [
        _boxes(np.tile(np.arange(count) * cell + 1, rows), top.repeat(count), cell - 2, strip),
        _boxes(-margin, top + (strip - NAME) / 2, margin, NAME),
        _boxes(0.0, top + strip + 4, width, lanes),
        _boxes(0.0, top + strip + 2, 0.0, lanes + 4),
        _boxes(width, top + strip + 2, 0.0, lanes + 4),
        _boxes(begin, task_top, 0.0, lane - 1),
        _boxes(begin, task_top, np.maximum(0.7, end - begin - 0.5), lane - 1),
    ]
    down = 4.0 + height * rows
    return Canvas(width, down, np.concatenate(boxes), margin=margin, stretches=True)


def _boxes(*sides: npt.ArrayLike) -> Floats:
    """Boxes from left, top, width and height, shape (boxes, 4)."""
    return np.stack(np.broadcast_arrays(*sides), axis=1)


def _shapes(step: Step) -> Iterator[TimedShape]:
    """All shapes, at the places of :func:`_layout`."""
    rows, count, start = len(step.rows), step.count, step.keys[0]
    names = rows * count
    for row, name in enumerate(step.rows, names):
        yield TimedShape(Look(text=name, style="left"), row)
        yield TimedShape(Look(fill=PANEL), row + rows)
        present = TimedShape(Look(edge=INK, width=1.5), row + 2 * rows, 0.0, goal=row + 3 * rows)
        yield present._replace(arrival=step.marks[-1])
    states = defaultdict[int, list[tuple[float, Look]]](list)
    for place in range(names):
        states[place].append((-np.inf, _cell(place % count, start)))
    for time, row, item, state in sorted(step.changes, key=lambda change: change.time):
        states[row * count + item].append((time, _cell(item, state)))
    for place, looks in states.items():
        yield from changing(place, looks)
    first = names + 4 * rows
    for place, task in enumerate(step.tasks, first):
        look = Look(fill=task.key.colour, text=f"{task.item}" if task.item >= 0 else "")
        yield TimedShape(look, place, task.begin, goal=place + len(step.tasks), arrival=task.end)
    for begin, end, row, peer, item in step.flights:
        text = f"{item} {'↓' if peer > row else '↑'}"
        look = Look(fill=GROUND, text=text, edge=ACCENT, width=2, ink=ACCENT)
        yield moving(look, (row * count + item, peer * count + item), begin, end)


def _cell(item: int, state: Key) -> Look:
    return Look(fill=state.colour, text=f"{item} {state.sign}".strip())


def merged(events: Sequence[Event], end: float) -> list[Event]:
    """Events in the order of time; of those at one moment the first."""
    result = list[Event]()
    for event in sorted(events, key=lambda event: event.time):
        if event.time - (result[-1].time if result else 0.0) > 1e-6 * end:
            result.append(event)
    return result


def messages(spans: StepSpans, item: Ints) -> list[Flight]:
    """The messages between places, each with the item of its task; those without one are left out.
    None if there are too many to draw."""
    timeline, schedule = spans.timeline, spans.timeline.schedule
    taking, peers = timeline.finish > timeline.start, schedule.peer
    chosen = np.flatnonzero(schedule.remote & taking).astype(np.int32)
    if not schedule.remote.any():
        # The calls of a plan are priced: its messages are tasks.
        chosen = spans.first[(spans.graph.peer >= 0) & taking[spans.first]]
        peers = spans.graph.peer
    task = np.searchsorted(spans.first, chosen, side="right") - 1
    row = np.full(max(schedule.ranks, len(peers)) + 1, -1)
    row[spans.places] = np.arange(len(spans.places))
    columns = timeline.start[chosen], timeline.finish[chosen], schedule.rank[chosen], peers[chosen]
    begin, end, sender, receiver = columns
    drawn = (item[task] >= 0) & (row[sender] >= 0) & (row[receiver] >= 0)
    if np.count_nonzero(drawn) > MOST_FLIGHTS:
        return []
    every = begin, end, row[sender], row[receiver], item[task]
    return [Flight(*each) for each in rows_of(*(column[drawn] for column in every))]


def overlap_figures(boxes: Columns, rows: int, end: float) -> list[Figure]:
    """Communication behind computation and beside it, as means of rows."""
    moments = np.linspace(0.0, end, SAMPLES)
    hidden, exposed = np.zeros(SAMPLES), np.zeros(SAMPLES)
    for row in range(rows):
        mine = boxes.take(boxes.row == row)
        sends, computes = mine.take(mine.lane > 0), mine.take(mine.lane == 0)
        computing, sending, either = (
            covered(each.start, each.end, moments) for each in (computes, sends, mine)
        )
        hidden += (computing + sending - either) / rows
        exposed += (either - computing) / rows
    return [
        Figure("hidden communication", "seconds", moments, np.maximum(hidden, 0.0)),
        Figure("exposed communication", "seconds", moments, np.maximum(exposed, 0.0)),
    ]


def covered(begin: Floats, end: Floats, moments: Floats) -> Floats:
    """For how long at least one of some spans has covered the time up to each moment."""
    order = np.argsort(begin)
    ends = np.maximum.accumulate(np.append(0.0, end[order]))
    length = np.maximum(0.0, ends[1:] - np.maximum(begin[order], ends[:-1]))
    sums = np.append(0.0, np.cumsum(length))
    knots = np.stack((ends[1:] - length, ends[1:]), axis=1).ravel()
    sofar = np.stack((sums[:-1], sums[1:]), axis=1).ravel()
    known = np.interp(moments, np.append(0.0, knots), np.append(0.0, sofar))
    return np.asarray(known)
