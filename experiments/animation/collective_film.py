"""The film of a collective: slots of ranks, what they hold, and messages between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from experiments.animation.film import (
    ACCENT,
    ALARM,
    GROUND,
    INK,
    PANEL,
    QUIET,
    RULE,
    Act,
    Canvas,
    Film,
    Look,
    RunningFigure,
    Stripe,
    TimedShape,
    changing,
    moving,
    rank_colours,
    rectangles,
)
from experiments.animation.sentences import Speaker, numbered
from experiments.animation.slot_contents import (
    Clock,
    Run,
    equal_steps,
    first_wrong,
    follow,
    simulated,
)
from experiments.animation.stage import HEAD, Stage, stages
from experiments.output import counted
from experiments.text_lines import first_of
from simulator.analysis.memory import MemoryTrace, trace
from simulator.collectives.collective import Collective
from simulator.schedules.schedule import TRANSFER, Schedule
from simulator.schedules.timeline import Timeline
from topologies.columns import places_in_groups, plain_rows
from topologies.errors import InputError
from topologies.topology import Floats, Ints
from topologies.units import format_bytes, format_seconds, in_binary

UNIT, TALLEST = 76.0, 760.0
"""Pixels of a unit of length, and of the height of a machine with its links, at most."""
MOST_RANKS = 32
"""Ranks of a film, at most."""
MOST_WRITES = 60_000
"""Slots that operations write, all together, at most."""
START = "Each rank holds only its own data."
SAMPLES = 400
"""Moments at which figures are sampled, besides the ends of steps."""
LISTED = 8
"""Operations of a step that a page describes, at most."""
SUMS = (
    "A bar is a slot of a rank's buffer. Its stripes are the contributions that it holds: stripe 2 "
    "is that of rank 2. A bar with all stripes, a frame and a tick is complete."
)
MOVES = (
    "A bar is a slot of a rank's buffer. Its colour and number say which rank's data it holds. A "
    "bar with a frame and a tick holds what the collective promises. An empty bar holds nothing "
    "that is needed."
)
REST = (
    "Dashed bars are scratch. busbw so far takes the share of all bytes that has been sent for the "
    "share of V that is done. redundant is duplicate data over all ranks. Equal steps give each "
    "step the same time, simulated time shows who waits. Keys: space plays, arrows step, Home "
    "and End jump."
)


class Subject(NamedTuple):
    """What is filmed."""

    timeline: Timeline
    collective: Collective
    depth: Ints
    """The step of each operation."""
    places: dict[int, int]
    """The place of each cell that is drawn: of a worker's buffer, and all that operations use."""
    stage: Stage
    memory: MemoryTrace

    @property
    def schedule(self) -> Schedule:
        """The schedule that runs."""
        return self.timeline.schedule


def collective_film(timeline: Timeline, collective: Collective) -> Film:
    """The film of a simulated collective, on both clocks.

    Raises InputError for too many ranks or operations.
    """
    schedule = timeline.schedule
    check_ranks(schedule.workers)
    writes = int(schedule.count[(schedule.source >= 0) & (schedule.target >= 0)].sum())
    if writes > MOST_WRITES:
        raise InputError(
            f"{writes} slots are written: an animation shows at most {MOST_WRITES}, take fewer "
            f"ranks"
        )
    depth = schedule.depth()
    clocks = simulated(timeline, depth), equal_steps(schedule, depth)
    runs = [follow(schedule, collective, clock.order) for clock in clocks]
    buffers = np.arange(schedule.workers)[:, None] * schedule.slots + np.arange(schedule.buffer)
    moved = [cell for write in runs[0].writes for cell in (write.origin, write.cell)]
    cells = np.unique(np.append(buffers, np.array(moved, dtype=np.int64)))
    both = stages(timeline.routed, int(np.bincount(cells // schedule.slots).max()))
    # Before the cells are the cards of ranks, their chips, names and middles.
    places = {cell: place for place, cell in enumerate(cells.tolist(), 4 * schedule.ranks)}
    memory = trace(schedule, timeline)
    subject = Subject(timeline, collective, depth, places, both[0], memory)
    acts = [
        _act(subject, name, clock, run, clocks[0].marks)
        for name, clock, run in zip(("simulated time", "equal steps"), clocks, runs, strict=True)
    ]
    return Film(
        acts,
        [_layout(schedule, cells, stage) for stage in both],
        _facts(subject, acts[0].wrong),
        f"{SUMS if runs[0].most > 1 else MOVES} {REST}",
    )


def check_ranks(ranks: int) -> None:
    """Raise InputError unless so many ranks can be filmed."""
    if not 2 <= ranks <= MOST_RANKS:
        raise InputError(f"--p {ranks}: an animation shows 2 to {MOST_RANKS} ranks")


def _layout(schedule: Schedule, cells: Ints, stage: Stage) -> Canvas:
    """The boxes of all places on a stage: behind the cells are devices, then the ends of links."""
    card, rank = stage.card, cells // schedule.slots
    corner = stage.ranks - np.array([card.width, card.height]) / 2
    column, row = np.divmod(places_in_groups(rank), card.rows)
    width, height = card.width / card.columns, (card.height - HEAD) / card.rows
    side = 0.36 if card.columns == 1 else 0.03
    within = np.stack((column * width + side, HEAD + row * height + 0.03), axis=1)
    devices = [(x - across / 2, y - 0.25, across, 0.5) for _, x, y, across in stage.devices]
    ends = [(x, y, 0.0, 0.0) for link in stage.links for x, y in link]
    x, y = corner.T
    places = [
        rectangles(x - 0.08, y, card.width + 0.16, card.height + 0.08),
        rectangles(x + 0.06, y + 0.12, 0.26, 0.26),
        rectangles(x + 0.42, y + 0.06, card.width - 0.42, 0.4),
        rectangles(*(stage.ranks - 0.08).T, 0.16, 0.16),
        rectangles(*(corner[rank] + within).T, width - 2 * side, height - 0.06),
        np.reshape([*devices, *ends], (-1, 4)),
    ]
    unit = min(UNIT, TALLEST / stage.height) if stage.links else UNIT
    return Canvas(stage.width, stage.height, np.concatenate(places), unit, stage.ways)


def _act(subject: Subject, name: str, clock: Clock, run: Run, seconds: Floats) -> Act:
    schedule = subject.schedule
    speaker, marks = Speaker(run), clock.marks
    order = np.argsort(subject.depth, kind="stable").astype(np.int32)
    parts = np.searchsorted(subject.depth[order], np.arange(1, len(marks)))
    steps = np.split(order, parts)[1:]
    end, count, wrong, failed = float(marks[-1]), len(run.writes), "", list[TimedShape]()
    if (first := first_wrong(run)) is not None:
        sentence = "No operation is wrong, one is missing"
        place, cell, reason = first
        if place is not None:
            write = run.writes[place]
            count, end = place + 1, float(clock.finish[write.operation])
            sentence = speaker.operation(write.operation)
        rank, slot = divmod(cell, schedule.slots)
        where = f"{speaker.rank(rank)}, {speaker.slots(slot)}"
        wrong = f"The first wrong value is in {where}: {reason}. {sentence}."
        alarm = Look(edge=ALARM, width=4, ink=ALARM, after="✗")
        failed.append(TimedShape(alarm, subject.places[cell], end))
    titles, sentences, details = list[str](), [START], list[list[str]]([[]])
    for step in steps:
        # A title has the phases of transfers first, a sentence is about those between ranks.
        phases = schedule.phase[step[np.argsort(~schedule.remote[step], kind="stable")]]
        names = list(dict.fromkeys(schedule.phases[k] for k in phases.tolist()))
        titles.append(first_of(names, 2))
        data = schedule.remote & (schedule.source >= 0)
        kinds = data[step], schedule.remote[step], schedule.kind[step] == TRANSFER
        transfers: list[int] = next((step[kind].tolist() for kind in kinds if kind.any()), [])
        sentences.append(speaker.step(transfers))
        more = [f"and {len(step) - LISTED} more"] * (len(step) > LISTED)
        details.append([*map(speaker.operation, step[:LISTED].tolist()), *more])
    filled = _filled(run)
    return Act(
        name,
        marks.tolist(),
        ["before the first step", *numbered(titles)],
        sentences,
        [
            *_scenery(subject, speaker),
            *_contents(subject, clock, run, count, filled),
            *failed,
            *_messages(subject, clock, run, end, filled),
        ],
        _figures(subject, clock, seconds, wrong),
        end,
        wrong,
        details,
        clock.part,
    )


Filling = tuple[tuple[Stripe, ...], int]


def _filled(run: Run) -> Callable[[int, int], Filling]:
    """The stripes of a value in a slot, a contribution each, and how many would fill it. An only
    contribution fills it alone. Contributions that no result needs are not shown."""
    workers, buffer = run.schedule.workers, run.schedule.buffer
    colours, whole = rank_colours(workers), (1 << buffer) - 1

    @cache
    def filled(value: int, slot: int) -> Filling:
        useful = value & run.useful
        ranks = [rank for rank in range(workers) if useful >> rank * buffer & whole]
        if run.most > 1 or useful.bit_count() > 1:
            return tuple(Stripe(rank, colours[rank], f"{rank}") for rank in ranks), workers
        origin = (useful.bit_length() - 1) % buffer
        more = "" if origin == slot else f".{origin}"
        return tuple(Stripe(0, colours[rank], f"{rank}{more}") for rank in ranks), 1

    return filled


def _scenery(subject: Subject, speaker: Speaker) -> Iterator[TimedShape]:
    """What stays all the time: links, devices and the cards of ranks."""
    ranks, stage = subject.schedule.ranks, subject.stage
    device = 4 * ranks + len(subject.places)
    link = device + len(stage.devices)
    for place in range(link, link + 2 * len(stage.links), 2):
        yield TimedShape(Look(edge=RULE, width=2, style="line"), place, goal=place + 1)
    for place, (name, *_) in enumerate(stage.devices, device):
        yield TimedShape(Look(fill=PANEL, text=name, edge=QUIET, style="round"), place)
    for rank in range(ranks):
        yield TimedShape(Look(fill=GROUND, edge=RULE, style="round"), rank)
        yield TimedShape(Look(text=speaker.rank(rank), style="left"), 2 * ranks + rank)
    for rank, colour in enumerate(rank_colours(subject.schedule.workers), ranks):
        yield TimedShape(Look(fill=colour), rank)


def _contents(
    subject: Subject, clock: Clock, run: Run, writes: int, filled: Callable[[int, int], Filling]
) -> Iterator[TimedShape]:
    schedule, room = subject.schedule, subject.stage.card.columns == 1
    fillings = {cell: [(-np.inf, run.first[cell])] for cell in subject.places}
    for write in run.writes[:writes]:
        fillings[write.cell].append((float(clock.finish[write.operation]), write.value))
    for cell, values in fillings.items():
        rank, slot = divmod(cell, schedule.slots)
        inside = rank < schedule.workers and slot < schedule.buffer
        label = slot if slot < schedule.buffer else slot - schedule.buffer
        style, before = "" if inside else "dashed", f"{label}" * room
        states = list[tuple[float, Look]]()
        for time, value in values:
            edge, width, after = QUIET, 0.8, ""
            if value == run.promise.get(cell):
                edge, width, after = INK, 2.0, "✓" * room
            stripes, parts = filled(value, slot)
            look = Look(PANEL, "", edge, width, "", style, before, after, stripes, parts)
            states.append((time, look))
        yield from changing(subject.places[cell], states)


def _messages(
    subject: Subject, clock: Clock, run: Run, end: float, filled: Callable[[int, int], Filling]
) -> Iterator[TimedShape]:
    """Messages on their way until the end of the act, and slots that ranks copy or add by
    themselves."""
    schedule, slots = subject.schedule, subject.schedule.slots
    carried = {write.operation: write.carried for write in reversed(run.writes)}
    shown = (clock.start < np.minimum(clock.finish, end)) & (schedule.peer >= 0)
    columns = (
        *(schedule.rank, schedule.peer, schedule.source, schedule.target),
        *(schedule.count, schedule.reduces, clock.start, clock.finish),
        np.where(schedule.remote, subject.timeline.routed.route, -1),
    )
    for operation, *row in plain_rows(np.arange(len(schedule)), *columns):
        if not shown[operation]:
            continue
        rank, peer, source, target, count, reduces, begin, finish, way = row
        ends = 3 * schedule.ranks + rank, 3 * schedule.ranks + peer
        bar = Look(fill=ACCENT, style="round")
        if data := min(source, target) >= 0:
            # A message of several slots shows the first of them.
            ends = subject.places[rank * slots + source], subject.places[peer * slots + target]
            stripes, parts = filled(carried[operation], source)
            copies = min(count, 3)
            bar = Look(PANEL, "", ACCENT, 2, stripes=stripes, parts=parts, copies=copies)
        message = moving(bar, ends, begin, finish, way)
        if end < finish:
            message = message._replace(end=end)
        yield message._replace(look=Look(edge=ACCENT, width=1.5, style="arrow"))
        if data:
            mark = ("+" if reduces else "←") * (subject.stage.card.columns == 1)
            into = Look(edge=ACCENT, width=2.5, ink=ACCENT, after=mark)
            yield TimedShape(into, ends[1], message.begin, message.end)
        yield message


def _figures(subject: Subject, clock: Clock, seconds: Floats, wrong: str) -> list[RunningFigure]:
    schedule, memory, marks = subject.schedule, subject.memory, clock.marks
    # Simulated time passes while messages move.
    reached = np.stack((marks[:-1], marks[:-1] + clock.part * np.diff(marks)), axis=1).ravel()
    evenly = np.linspace(0.0, marks[-1], SAMPLES)
    moments = np.unique(np.concatenate((evenly, reached, marks)))
    time = np.interp(moments, reached, np.stack((seconds[:-1], seconds[1:]), axis=1).ravel())
    nbytes = np.where(schedule.remote, schedule.nbytes, 0.0)
    length = np.maximum(clock.finish - clock.start, np.finfo(float).tiny)
    total = float(nbytes.sum())
    sent = np.array([nbytes @ np.clip((now - clock.start) / length, 0.0, 1.0) for now in moments])
    rate = np.zeros(len(moments))
    if total and not wrong:
        volume = subject.collective.busbw(schedule.workers) * schedule.nbytes_total
        np.divide(volume * sent / total, time, out=rate, where=time > 0)
    last = np.searchsorted(memory.times, time * (1 + 1e-9), side="right") - 1
    redundant = memory.redundant[np.maximum(last, 0)]
    return [
        RunningFigure("time", "seconds", moments, time, subject.timeline.makespan),
        RunningFigure("bytes moved", "bytes", moments, sent, total),
        RunningFigure("busbw so far", "rate", moments, rate),
        RunningFigure("redundant", "bytes", moments, redundant, jumps=True),
    ]


def _facts(subject: Subject, wrong: str) -> list[str]:
    schedule, makespan = subject.schedule, subject.timeline.makespan
    binary, steps = in_binary([schedule.nbytes_total]), int(subject.depth.max(initial=0))
    name, time = subject.collective.name, format_seconds(makespan)
    facts = [f"{name}: {counted(steps, 'step')} in {time}."]
    if wrong:
        return [*facts, f"The algorithm is wrong, and the animation stops there. {wrong}"]
    volume = schedule.nbytes_total * subject.collective.busbw(schedule.workers)
    rate = f"{volume / makespan / 1e9:.4g} GB/s busbw, " if makespan and volume else ""
    moved = format_bytes(schedule.volume, binary)
    redundant = format_bytes(subject.memory.peak_redundant, binary)
    return [*facts, f"{rate}{moved} moved, {redundant} of duplicate data at the peak."]
