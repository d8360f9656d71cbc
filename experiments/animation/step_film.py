"""The film of a training step: devices as rows, what they do, and items that move between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    Film,
    Key,
    Look,
    RunningFigure,
    TimedShape,
    changing,
    moving,
)
from experiments.pictures.timelines.spans import Columns, busy_times
from experiments.pictures.timelines.step_spans import StepSpans
from topologies.columns import plain_rows
from topologies.topology import Flags, Floats, Ints

NOTE = (
    "A row is a device. Its numbered cells are {items}: colour and sign say in which state each "
    "is. Boxes move from row to row. The bars below are the timeline so far. Keys: space plays, "
    "arrows go from event to event, Home and End jump."
)
WIDE, NARROW = (1010.0, 88.0), (300.0, 58.0)
"""Pixels of the rows and of their names, in wide windows and in narrow ones."""
LARGE_ROWS, SMALL, LARGE = 8, (16, 8, 8), (24, 14, 14)
"""Rows up to which they are large; and pixels of the height of cells, of a lane, and of the gap to
the next row."""
MOST_FLIGHTS = 20_000
"""Messages that are drawn, at most."""
SAMPLES = 400
"""Moments at which figures are sampled."""
CELL, NAME = 64.0, 16.0
"""Pixels of the width of a cell and of the height of a name, at most."""


class Task(NamedTuple):
    """Something that a row does with an item, or with none: -1."""

    row: int
    lane: int
    begin: float
    end: float
    key: Key
    item: int


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


def step_film(step: Step, figures: Sequence[RunningFigure], facts: Sequence[str]) -> Film:
    """The film of a step."""
    events, end = step.events, step.events[-1].time
    count = max(change.item for change in step.changes) + 1
    ends = np.array([0.0, end])
    act = Act(
        "simulated time",
        [0.0, *(event.time for event in events)],
        ["before the first event", *(event.title for event in events)],
        ["", *(event.sentence for event in events)],
        list(_shapes(step, count)),
        [RunningFigure("time", "seconds", ends, ends, end), *figures],
        end,
    )
    used = {change.state for change in step.changes} | {task.key for task in step.tasks}
    return Film(
        [act],
        [_layout(step, count, *size) for size in (WIDE, NARROW)],
        facts,
        NOTE.format(items=step.items),
        [key for key in step.keys if key in used or key is step.keys[0]],
        stops=40,
        frames=80,
        pause=600,
    )


def _layout(step: Step, count: int, width: float, margin: float) -> Canvas:
    """The boxes of cells, row by row; of names, of the ground of lanes, and of the present at the
    start and at the end, for each row; and of tasks as they begin and as they end."""
    rows = len(step.rows)
    strip, lane, gap = LARGE if rows <= LARGE_ROWS else SMALL
    lanes = lane * (max(task.lane for task in step.tasks) + 1)
    height, cell = strip + 6 + lanes + gap, min(CELL, width / count)
    top = 4.0 + np.arange(rows) * height
    begin, end = np.array([task[2:4] for task in step.tasks]).T * width / step.events[-1].time
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


def _shapes(step: Step, count: int) -> Iterator[TimedShape]:
    rows, end = len(step.rows), step.events[-1].time
    names = rows * count
    for row, name in enumerate(step.rows, names):
        yield TimedShape(Look(text=name, style="left"), row)
        yield TimedShape(Look(fill=PANEL), row + rows)
        present = Look(edge=INK, width=1.5)
        yield TimedShape(present, row + 2 * rows, 0.0, goal=row + 3 * rows, arrival=end)
    states = defaultdict[int, list[tuple[float, Look]]](list)
    first = (Change(-np.inf, *divmod(place, count), step.keys[0]) for place in range(names))
    for time, row, item, state in sorted((*first, *step.changes), key=lambda change: change.time):
        look = Look(fill=state.colour, text=f"{item} {state.sign}".strip())
        states[row * count + item].append((time, look))
    for place, looks in states.items():
        yield from changing(place, looks)
    for place, task in enumerate(step.tasks, names + 4 * rows):
        look = Look(fill=task.key.colour, text=f"{task.item}" if task.item >= 0 else "")
        yield TimedShape(look, place, task.begin, goal=place + len(step.tasks), arrival=task.end)
    for begin, until, row, peer, item in step.flights:
        text = f"{item} {'↓' if peer > row else '↑'}"
        look = Look(fill=GROUND, text=text, edge=ACCENT, width=2, ink=ACCENT)
        yield moving(look, (row * count + item, peer * count + item), begin, until)


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
    return [Flight(*each) for each in plain_rows(*(column[drawn] for column in every))]


def overlap_figures(boxes: Columns, rows: int, end: float) -> list[RunningFigure]:
    """Communication behind computation and beside it, as means of rows."""
    moments = np.linspace(0.0, end, SAMPLES)

    def covered(chosen: Flags) -> Floats:
        """For how long some box of a row has lasted up to each moment, as mean of rows."""
        total = np.zeros(SAMPLES)
        for start, until in busy_times(boxes.take(chosen)).values():
            total += np.clip(moments[:, None] - start, 0.0, until - start).sum(axis=1) / rows
        return total

    computes = boxes.lane == 0
    computing, sending, either = map(covered, (computes, ~computes, boxes.row >= 0))
    hidden = np.maximum(computing + sending - either, 0.0)
    return [
        RunningFigure("hidden communication", "seconds", moments, hidden),
        RunningFigure("exposed communication", "seconds", moments, either - computing),
    ]
