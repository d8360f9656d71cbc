"""The film of a training step: devices as rows, what they do, and items that move between them.

In the columns of a film the task is the item: a micro-batch, a bucket of gradients or a step. Lane
0 computes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

import numpy as np

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
    rectangles,
)
from experiments.pictures.timelines.palette import colours
from experiments.pictures.timelines.spans import Columns
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, KINDS, WEIGHTS
from topologies.columns import distinct_rows, plain_rows
from topologies.errors import InputError

NOTE = (
    "A row is a device. Its numbered cells are {items}: colour and sign say in which state each "
    "is. Boxes move from row to row. The bars below are the timeline so far. Keys: space plays, "
    "arrows go from event to event, Home and End jump."
)
STATES = (
    Key("not here yet", "#dfe3e8"),
    Key("waits", "#f7cdb0", "…"),
    Key("activations kept", "#e9afd0", "▪"),
    Key("ready", "#e9afd0", "▪"),
    Key("done", "#8a8f98", "✓"),
    Key("averaged", "#8a8f98", "✓"),
)
"""The states of items with which no row works; buckets of gradients are ready and averaged."""
AHEAD, WAITS, KEPT, READY, DONE, AVERAGED = STATES
SIGNS = {KINDS[INPUTS]: "I", KINDS[WEIGHTS]: "W"}
"""The signs of kinds whose first letter is that of another kind."""
WIDE, NARROW = (1010.0, 88.0), (300.0, 58.0)
"""Pixels of the rows and of their names, in wide windows and in narrow ones."""
LARGE_ROWS, SMALL, LARGE = 8, (16, 8, 8), (24, 14, 14)
"""Rows up to which they are large; and pixels of the height of cells, of a lane, and of the gap to
the next row."""
CELL, NAME = 64.0, 16.0
"""Pixels of the width of a cell and of the height of a name, at most."""
MOST_ROWS, MOST_BOXES = 32, 8_000
NAMED, LISTED = 6, 2
"""Phrases of a sentence, and rows that one names."""
LEAST, PAUSE = 5e-4, 0.01
"""Shares of the run: ends that are nearer are one event, and a row that does the same after a
shorter gap goes on."""
States = dict[tuple[int, int], list[tuple[float, Key]]]
"""The states of an item at a row, each with the time at which it begins, by row and item."""


def step_film(
    rows: Sequence[str],
    items: str,
    kinds: Sequence[str],
    boxes: Columns,
    messages: Columns,
    figures: Sequence[RunningFigure],
    facts: Sequence[str],
) -> Film:
    """The film of boxes of these kinds on rows, and of messages from their row to their peer.

    An item is in the state of the box that works with it: one of lane 0, or of any lane for
    buckets. Raises InputError for too many rows or boxes.
    """
    if len(rows) > MOST_ROWS or len(boxes.row) > MOST_BOXES:
        raise InputError(
            f"{len(rows)} rows with {len(boxes.row)} tasks: an animation shows {MOST_ROWS} and "
            f"{MOST_BOXES} at most, take fewer ranks, devices, layers, micro-batches or steps"
        )
    palette = colours(kinds)
    keys = [Key(kind, palette[kind], SIGNS.get(kind, kind[0].upper())) for kind in kinds]
    end, count = float(boxes.end.max()), int(boxes.task.max()) + 1
    acting = boxes.take((boxes.lane == 0) | ((boxes.task >= 0) & (items == "buckets")))
    acting = _joined(acting, PAUSE * end)
    item, after, last = "", {KINDS[FORWARD]: KEPT, KINDS[INPUTS]: KEPT}, DONE
    if items == "buckets":
        item, after, last = "bucket ", {KINDS[BACKWARD]: READY}, AVERAGED
    states = _states(acting, messages, keys, after, last)
    used = {AHEAD, *(state for changes in states.values() for _, state in changes)}
    # Items are never in the state of other kinds: these have no sign.
    kinds_used = {keys[kind] for kind in np.unique(boxes.kind).tolist()}
    shown = [key for key in dict.fromkeys(keys) if key in kinds_used]
    legend = [key if key in used else key._replace(sign="") for key in shown]
    events, ends = list(_events(rows, acting, keys, end, item)), np.array([0.0, end])
    act = Act(
        "simulated time",
        [0.0, *(time for time, _, _ in events)],
        ["before the first event", *(title for _, title, _ in events)],
        ["", *(sentence for _, _, sentence in events)],
        list(_shapes(rows, count, keys, boxes, messages, states)),
        [RunningFigure("time", "seconds", ends, ends, end), *figures],
        end,
    )
    return Film(
        [act],
        [_layout(len(rows), count, boxes, *size) for size in (WIDE, NARROW)],
        facts,
        NOTE.format(items=items),
        [*(state for state in STATES if state in used), *legend],
        stops=40,
        frames=80,
        pause=600,
    )


def _joined(boxes: Columns, pause: float) -> Columns:
    """Boxes by row, lane and time, as one where a row goes on with the same."""
    boxes = boxes.take(np.lexsort((boxes.start, boxes.lane, boxes.row)))
    goes_on = boxes.start[1:] - boxes.end[:-1] <= pause
    return boxes.united(goes_on & boxes.alike("row", "lane", "kind", "task"))


def _states(
    acting: Columns, messages: Columns, keys: Sequence[Key], after: Mapping[str, Key], last: Key
) -> States:
    """The states of each item that a row works with: `after` each kind, else it waits, and the
    last."""
    arrivals = dict[tuple[int, int], float]()
    for row, item, end in plain_rows(messages.peer, messages.task, messages.end):
        arrivals.setdefault((row, item), end)
    working = acting.take(acting.task >= 0)
    columns = working.row, working.task, working.start, working.end, working.kind
    ends = {(row, item): end for row, item, _, end, _ in plain_rows(*columns)}
    states: States = defaultdict(list)
    for row, item, begin, end, kind in plain_rows(*columns):
        changes = states[row, item]
        if not changes and arrivals.get((row, item), begin) < begin:
            changes.append((arrivals[row, item], WAITS))
        state = last if end >= ends[row, item] else after.get(keys[kind].name, WAITS)
        changes += [(begin, keys[kind]), (end, state)]
    return states


def _events(
    rows: Sequence[str], acting: Columns, keys: Sequence[Key], end: float, noun: str
) -> Iterator[tuple[float, str, str]]:
    """When rows have done something: the time, what they did since the event before in short, and
    who did it."""
    times, before, least = np.unique(np.append(acting.end, end)), 0.0, LEAST * end
    while before < end:
        first = times[np.searchsorted(times, before + least, side="right")]
        time = float(times[np.searchsorted(times, first + least, side="right") - 1])
        time = end if end - time <= least else time
        lasting = np.minimum(acting.end, time) - np.maximum(acting.start, before)
        # Of a row and lane what lasts longest.
        now = acting.take(np.argsort(-lasting)[: np.count_nonzero(lasting > least)])
        now = now.take(distinct_rows(now.lane, now.row)[0])
        alike = defaultdict[tuple[int, int], list[str]](list)
        for row, kind, number in plain_rows(now.row, now.kind, now.task):
            alike[kind, number].append(rows[row])
        does = [
            f"{_who(names)} the {keys[kind].name}" + f" of {noun}{number}" * (number >= 0)
            for (kind, number), names in alike.items()
        ]
        more = [f"and {len(does) - NAMED} more"] * (len(does) > NAMED)
        text = ", ".join([*does[:NAMED], *more]) or f"all {_word(rows)}s wait"
        title = " and ".join(dict.fromkeys(keys[kind].name for kind in now.kind.tolist()))
        yield time, title or "waiting", f"{text[0].upper()}{text[1:]}."
        before = time


def _who(names: Sequence[str]) -> str:
    """Rows that run something: their names, or how many they are."""
    if len(names) <= LISTED:
        return " and ".join(names) + (" runs" if len(names) == 1 else " run")
    return f"{len(names)} {_word(names)}s run"


def _word(names: Sequence[str]) -> str:
    """What each of the rows is: "rank", "device", or "row" for ranks that do the same."""
    words = {name.partition(" ")[0] for name in names}
    word = words.pop()
    return word if not words and word.isalpha() else "row"


def _layout(rows: int, count: int, columns: Columns, width: float, margin: float) -> Canvas:
    """The boxes of cells, row by row; of names, of the ground of lanes, and of the present at the
    start and at the end, for each row; and of tasks as they begin and as they end."""
    strip, lane, gap = LARGE if rows <= LARGE_ROWS else SMALL
    lanes = lane * (int(columns.lane.max()) + 1)
    height, cell = strip + 6 + lanes + gap, min(CELL, width / count)
    top = 4.0 + np.arange(rows) * height
    begin, end = np.stack((columns.start, columns.end)) * width / columns.end.max()
    task_top = top[columns.row] + strip + 4.5 + columns.lane * lane
    places = [
        rectangles(np.tile(np.arange(count) * cell + 1, rows), top.repeat(count), cell - 2, strip),
        rectangles(-margin, top + (strip - NAME) / 2, margin, NAME),
        rectangles(0.0, top + strip + 4, width, lanes),
        rectangles(0.0, top + strip + 2, 0.0, lanes + 4),
        rectangles(width, top + strip + 2, 0.0, lanes + 4),
        rectangles(begin, task_top, 0.0, lane - 1),
        rectangles(begin, task_top, np.maximum(0.7, end - begin - 0.5), lane - 1),
    ]
    down = 4.0 + height * rows
    return Canvas(width, down, np.concatenate(places), margin=margin, stretches=True)


def _shapes(
    rows: Sequence[str],
    count: int,
    keys: Sequence[Key],
    boxes: Columns,
    messages: Columns,
    states: States,
) -> Iterator[TimedShape]:
    names, each, end = len(rows) * count, len(rows), float(boxes.end.max())
    for row, name in enumerate(rows, names):
        yield TimedShape(Look(text=name, style="left"), row)
        yield TimedShape(Look(fill=PANEL), row + each)
        present = Look(edge=INK, width=1.5)
        yield TimedShape(present, row + 2 * each, 0.0, goal=row + 3 * each, arrival=end)
    for place in range(names):
        row, item = divmod(place, count)
        changes = sorted([(-np.inf, AHEAD), *states.get((row, item), ())], key=itemgetter(0))
        looks = [
            (time, Look(fill=state.colour, text=f"{item} {state.sign}".strip()))
            for time, state in changes
        ]
        yield from changing(place, looks)
    columns = plain_rows(boxes.kind, boxes.task, boxes.start, boxes.end)
    for place, (kind, item, begin, until) in enumerate(columns, names + 4 * each):
        look = Look(fill=keys[kind].colour, text=f"{item}" if item >= 0 else "")
        yield TimedShape(look, place, begin, goal=place + len(boxes.row), arrival=until)
    ways = messages.row, messages.peer, messages.task, messages.start, messages.end
    for row, peer, item, begin, until in plain_rows(*ways):
        text = f"{item} {'↓' if peer > row else '↑'}"
        look = Look(fill=GROUND, text=text, edge=ACCENT, width=2, ink=ACCENT)
        yield moving(look, (row * count + item, peer * count + item), begin, until)
