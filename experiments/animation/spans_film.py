"""The film of a step of any strategy or plan: places as rows, and what each works on."""

from __future__ import annotations

import numpy as np

from experiments.animation.ddp_film import MOST_FLIGHTS, overlap_figures
from experiments.animation.film import Film, Key, rows_of
from experiments.animation.step_film import Change, Event, Flight, Step, Task, merged, step_film
from experiments.pictures.timelines.palette import colours
from experiments.pictures.timelines.step_spans import StepSpans
from simulator.training.plan import COMPUTE
from topologies.errors import InputError
from topologies.topology import Ints
from topologies.units import format_seconds

AHEAD, WAITS = Key("not here yet", "#dfe3e8"), Key("waits, or is done", "#f0e442", "…")
MOST_ROWS, MOST_BOXES = 32, 8_000


def spans_film(spans: StepSpans) -> Film:
    """The film of a run. Its items are micro-batches, or steps where there are none.

    Raises InputError for too many rows or tasks.
    """
    boxes, graph, end = spans.device_boxes, spans.graph, spans.timeline.makespan
    places, many = spans.places.tolist(), len(boxes.row)
    if len(places) > MOST_ROWS or many > MOST_BOXES:
        raise InputError(
            f"{len(places)} rows with {many} tasks: an animation shows {MOST_ROWS} and "
            f"{MOST_BOXES} at most, take fewer ranks, layers, micro-batches or steps"
        )
    item, items = graph.micro[boxes.task], "micro-batches"
    if not (graph.micro >= 0).any():
        # Servers are in the step of the last worker.
        ends = spans.ends[:, np.minimum(boxes.row, spans.workers - 1)]
        item, items = np.sum(ends[:-1] < boxes.end * (1 - 1e-12), axis=0), "steps"
    lane = np.searchsorted(np.union1d(boxes.lane, COMPUTE), boxes.lane)
    palette = colours(spans.kinds)
    keys = {kind: Key(kind, palette[kind], kind[0].upper()) for kind in spans.kinds}
    tasks = [
        Task(place, stream, begin, until, keys[spans.legend[kind]], number)
        for place, stream, begin, until, kind, number in rows_of(boxes.row, lane, *boxes[2:5], item)
    ]
    main = [task for task in tasks if task.lane == COMPUTE and task.item >= 0]
    changes = [Change(task.begin, task.row, task.item, task.key) for task in main]
    changes += [Change(task.end, task.row, task.item, WAITS) for task in main]
    names = [spans.place_name(place) for place in places]
    items_of = dict(zip(spans.first[boxes.task].tolist(), item.tolist(), strict=True))
    flights, events = _flights(spans, items_of), _events(names, main, end)
    states = [AHEAD, WAITS, *dict.fromkeys(keys.values())]
    step = Step(names, items, states, tasks, changes, flights, events)
    facts = [f"The run takes {format_seconds(end)}.", *spans.remarks]
    return step_film(step, overlap_figures(boxes, len(places), end), facts)


def _flights(spans: StepSpans, item: dict[int, int]) -> list[Flight]:
    """The messages between places; none if there are too many to draw."""
    timeline, schedule = spans.timeline, spans.timeline.schedule
    peer: Ints = spans.graph.peer
    sends = np.flatnonzero((peer >= 0) & (timeline.finish > timeline.start)[spans.first])
    chosen, peers = spans.first[sends], peer[sends]
    if schedule.remote.any():
        remote = schedule.remote & (timeline.finish > timeline.start)
        chosen = np.flatnonzero(remote).astype(np.int32)
        peers = schedule.peer[chosen]
    if len(chosen) > MOST_FLIGHTS:
        return []
    columns = timeline.start[chosen], timeline.finish[chosen], schedule.rank[chosen], peers
    row = {place: number for number, place in enumerate(spans.places.tolist())}
    first = spans.first[np.searchsorted(spans.first, chosen, side="right") - 1]
    return [
        Flight(begin, end, row[rank], row[to], max(0, item.get(operation, 0)))
        for begin, end, rank, to, operation in rows_of(*columns, first)
        if rank in row and to in row
    ]


def _events(names: list[str], main: list[Task], end: float) -> list[Event]:
    """The moments at which computations end, and what ended."""
    events = [
        Event(task.end, task.key.name, f"{names[task.row].capitalize()} ends a {task.key.name}.")
        for task in main
    ]
    return merged([*events, Event(end, "end", "All places are done.")], end)
