"""The animation of a collective: what a page and a picture draw, and nothing about how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.animation.clocks import Clock, depths, equal_steps, simulated
from experiments.animation.first_wrong import first_wrong
from experiments.animation.sentences import Speaker, numbered, title
from experiments.animation.slot_contents import Run, follow
from experiments.animation.stage import Stage, stages
from simulator.analysis.memory import Memory, trace
from simulator.collectives.collective import Collective
from simulator.schedules.schedule import TRANSFER, Schedule
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.topology import Ints

MOST_RANKS = 32
"""Ranks of an animation, at most."""
MOST_WRITES = 60_000
"""Slots that operations write, all together, at most."""
BEFORE = "before the first step"


class Wrong(NamedTuple):
    """Why an animation stops before its end."""

    place: int
    """The place of the slot in :class:`Slots`."""
    text: str
    """What is wrong, in a sentence."""


class Slots(NamedTuple):
    """The slots that are drawn, rank by rank: a worker's buffer, and all that operations use."""

    rank: Ints
    slot: Ints
    place: Ints
    """The place of the slot on the card of its rank."""
    number: Ints
    """The row of each (rank, slot) here, shape (ranks, slots); -1 for slots that are not drawn."""


class Message(NamedTuple):
    """A transfer that is on its way, or a slot that a rank copies or adds by itself."""

    operation: int
    share: float
    """How much of its way the message has behind it."""


class Still(NamedTuple):
    """What an animation shows at one moment."""

    values: Sequence[int]
    """The value of each slot that is drawn, as a place in the values of the run."""
    messages: list[Message]
    step: int


@dataclass(frozen=True, eq=False)
class Act:
    """An animation on one clock."""

    clock: Clock
    run: Run
    cells: npt.NDArray[np.int64]
    """The cell of each slot that is drawn."""
    titles: list[str]
    """What each step is called; the first one is the state before."""
    sentences: list[str]
    """What happens in each step."""
    end: float
    """Where the animation ends."""
    writes: int
    """How many writes there are until then."""
    wrong: Wrong | None = None

    @cached_property
    def written_at(self) -> npt.NDArray[np.float64]:
        """When each write ends."""
        return self.clock.finish[[write.operation for write in self.run.writes[: self.writes]]]

    def still(self, moment: float) -> Still:
        """What is to be seen at a moment."""
        values = list(self.run.first)
        done = int(np.searchsorted(self.written_at, moment, side="right"))
        for write in self.run.writes[:done]:
            values[write.cell] = write.value
        clock = self.clock
        running = np.flatnonzero((clock.start < moment) & (moment < clock.finish))
        shares = (moment - clock.start[running]) / (clock.finish - clock.start)[running]
        messages = [Message(*pair) for pair in zip(running.tolist(), shares.tolist(), strict=True)]
        step = int(np.searchsorted(clock.marks, moment - 1e-9 * self.end, side="left"))
        return Still([values[cell] for cell in self.cells.tolist()], messages, step)


@dataclass(frozen=True, eq=False)
class Film:
    """The animation of a collective, on both clocks."""

    timeline: Timeline
    collective: Collective
    depth: Ints
    """The step of each operation."""
    slots: Slots
    wide: Stage
    narrow: Stage
    acts: Mapping[str, Act]
    """The animation on each clock, by what the clock is called."""
    names: list[str]
    """What each rank is called."""

    @property
    def schedule(self) -> Schedule:
        """The schedule that runs."""
        return self.timeline.schedule

    @property
    def steps(self) -> int:
        """The number of steps."""
        return int(self.depth.max(initial=0))

    @cached_property
    def memory(self) -> Memory:
        """What ranks hold, and how much of it is redundant."""
        return trace(self.schedule, self.timeline)

    @property
    def busbw(self) -> float:
        """The bus bandwidth of the whole run, in bytes per second."""
        schedule, makespan = self.schedule, self.timeline.makespan
        factor = self.collective.busbw(schedule.workers)
        return schedule.nbytes_total * factor / makespan if makespan else 0.0

    @property
    def wrong(self) -> str:
        """What is wrong with the algorithm; "" if nothing is."""
        wrong = self.acts["simulated time"].wrong
        return wrong.text if wrong else ""


def film_of(timeline: Timeline, collective: Collective) -> Film:
    """The animation of a simulated collective.

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
    depth, slots = depths(schedule), _slots(schedule, collective)
    wide, narrow = stages(timeline.routed, int(slots.place.max(initial=0)) + 1)
    acts = {
        "simulated time": _act(schedule, collective, simulated(timeline, depth), depth, slots),
        "equal steps": _act(schedule, collective, equal_steps(schedule, depth), depth, slots),
    }
    speaker = Speaker(acts["equal steps"].run)
    names = [speaker.rank(rank) for rank in range(schedule.ranks)]
    return Film(timeline, collective, depth, slots, wide, narrow, acts, names)


def check_ranks(ranks: int) -> None:
    """Raise InputError unless so many ranks can be animated."""
    if not 2 <= ranks <= MOST_RANKS:
        raise InputError(f"--p {ranks}: an animation shows 2 to {MOST_RANKS} ranks")


def operations_of(schedule: Schedule, depth: Ints) -> list[list[int]]:
    """The transfers of each step, those between ranks if there are any."""
    steps: list[list[int]] = [[] for _ in range(int(depth.max(initial=0)) + 1)]
    transfers = np.flatnonzero(schedule.kind == TRANSFER)
    data = schedule.remote & (schedule.source >= 0)
    for wanted in (data, schedule.remote, schedule.kind == TRANSFER):
        chosen = transfers[wanted[transfers]]
        empty = {step for step, operations in enumerate(steps) if not operations}
        for operation, step in zip(chosen.tolist(), depth[chosen].tolist(), strict=True):
            if step in empty:
                steps[step].append(operation)
    return steps


def _slots(schedule: Schedule, collective: Collective) -> Slots:
    used = np.zeros((schedule.ranks, schedule.slots), dtype=np.bool_)
    used[: schedule.workers, : schedule.buffer] = True
    moved = (schedule.kind == TRANSFER) & (schedule.source >= 0) & (schedule.target >= 0)
    for offset in range(int(schedule.count[moved].max(initial=0))):
        chosen = moved & (schedule.count > offset)
        used[schedule.rank[chosen], schedule.source[chosen] + offset] = True
        used[schedule.peer[chosen], schedule.target[chosen] + offset] = True
    rank, slot = np.nonzero(used)
    number = np.full(used.shape, -1, dtype=np.int32)
    number[rank, slot] = np.arange(len(rank))
    begin = np.searchsorted(rank, np.arange(schedule.ranks))
    place = np.arange(len(rank)) - begin[rank]
    return Slots(rank.astype(np.int32), slot.astype(np.int32), place.astype(np.int32), number)


def _act(
    schedule: Schedule, collective: Collective, clock: Clock, depth: Ints, slots: Slots
) -> Act:
    run = follow(schedule, collective, clock.order)
    speaker, steps = Speaker(run), operations_of(schedule, depth)
    titles = [title(_phases(schedule, depth, step)) for step in range(1, len(steps))]
    sentences = ["", *(speaker.step(operations) for operations in steps[1:])]
    cells = slots.rank.astype(np.int64) * schedule.slots + slots.slot
    end, writes, wrong = float(clock.marks[-1]), len(run.writes), None
    if (first := first_wrong(run)) is not None:
        sentence = "No operation is wrong, one is missing"
        if first.write is not None:
            write = run.writes[first.write]
            writes, end = first.write + 1, float(clock.finish[write.operation])
            sentence = speaker.operation(write.operation)
        rank, slot = divmod(first.cell, schedule.slots)
        where = f"{speaker.rank(rank)}, {speaker.slots(slot)}"
        wrong = Wrong(
            int(slots.number[rank, slot]),
            f"The first wrong value is in {where}: {first.reason}. {sentence}.",
        )
    return Act(clock, run, cells, [BEFORE, *numbered(titles)], sentences, end, writes, wrong)


def _phases(schedule: Schedule, depth: Ints, step: int) -> list[str]:
    """The phases of a step: those of its transfers, then those of what ranks do by themselves."""
    chosen = np.flatnonzero(depth == step)
    order = np.argsort(~schedule.remote[chosen], kind="stable")
    return [schedule.phases[phase] for phase in schedule.phase[chosen[order]].tolist()]
