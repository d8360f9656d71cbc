"""Programs of serial lanes: each moves data, posts events, and waits for events of others.

A run decides in which order the moves can happen, and whether the lanes block each other. It also
finds moves on the same slots in no fixed order: they would be right or wrong by chance.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.sequences import sequence
from topologies.errors import InputError

MOST_STEPS = 2**22
"""Instructions of all lanes."""
MOST_SLOTS = 2**24
"""Slots that all moves together read."""
COLUMNS = 7
"""The numbers of a move that a schedule has."""
Event = Hashable
Clock = npt.NDArray[np.int32]
"""How many instructions of each lane are known to be done."""


class LanePlace(NamedTuple):
    """Where in a file an instruction stands."""

    rank: int
    lane: int
    step: int

    def __str__(self) -> str:
        return f"gpu {self.rank}, thread block {self.lane}, step {self.step}"


class LaneMove(NamedTuple):
    """Data from slots of a rank to slots of a peer, which may be the rank itself."""

    rank: int
    peer: int
    source: int
    target: int
    size: int
    """How many slots."""
    reduces: bool = False
    channel: int = 0
    posted: bool = False
    """Whether the lane goes on at once: the message is on its way, and an event says when it is
    there."""


class EventPost(NamedTuple):
    """The next event of a name."""

    event: Event
    arrives: int = 0
    """How many of the last moves that were on their way must have arrived."""


class EventWait(NamedTuple):
    """Wait until an event of a name has happened so many times."""

    event: Event
    times: int
    reason: str
    """What is waited for, in words."""


Lane = Iterable[tuple[LanePlace, LaneMove | EventPost | EventWait]]
"""The steps of a lane, or parts of them."""


def run(lanes: Iterable[Lane], check: bool = True) -> LaneRun:
    """Run the lanes until all are done, or none can go on.

    With `check`, raises InputError with both places if two moves use the same slots in no fixed
    order, and one of them writes. Raises InputError if there are too many instructions.
    """
    state = LaneRun(lanes, check)
    ready = deque(range(len(state.lanes)))
    while ready:
        ready.extend(state.advance(ready.popleft()))
    state.stuck = state.blocked()
    if check and not state.stuck:
        state.check_ends()
    return state


class _Access(NamedTuple):
    lane: int
    time: int
    place: LanePlace


class LaneRun:
    """A run of lanes: the moves of all lanes in an order that they allow."""

    def __init__(self, lanes: Iterable[Lane], check: bool) -> None:
        self.moves = array("q")
        """The first numbers of a move, one move after the other: they take little memory."""
        self.waits = array("i")
        """Pairs of moves of which the first waits for the second."""
        self.stuck = ""
        """Why the lanes block each other, if they do."""
        self.lanes = [iter(lane) for lane in lanes]
        self.instructions, self.posts = 0, 0
        """How many instructions and posts there were."""
        self.next = [next(lane, None) for lane in self.lanes]
        """The next instruction of each lane; None if it is done."""
        self.ranks = np.array([first[0].rank if first else -1 for first in self.next])
        """The rank of each lane that has any instruction."""
        self.frontier: list[dict[int, int]] = [{} for _ in self.lanes]
        """The moves after which a lane goes on: the last of each other lane, which comes after its
        earlier ones, and messages."""
        self.posted: list[list[int]] = [[] for _ in self.lanes]
        self.happened: dict[Event, list[dict[int, int]]] = defaultdict(list)
        self.clocks_of: dict[Event, list[Clock]] = defaultdict(list)
        self.waiting: dict[Event, list[int]] = defaultdict(list)
        self.clock = np.zeros((len(self.lanes), len(self.lanes) if check else 0), dtype=np.int32)
        self.check, self.slots = check, 0
        self.written: dict[tuple[int, int], _Access] = {}
        self.read: dict[tuple[int, int], dict[int, _Access]] = defaultdict(dict)

    def schedule(
        self, ranks: int, buffer: int, scratch: int, ends: Iterable[LaneMove] = ()
    ) -> Schedule:
        """The moves as a schedule for V = 1 byte, with so many slots in the buffer of a rank and
        behind it, and then those of `ends`, which wait for what they read or overwrite."""
        last = np.array([move[:COLUMNS] for move in ends], dtype=np.int64).reshape(-1, COLUMNS)
        moves = np.array(self.moves, dtype=np.int64).reshape(-1, COLUMNS)
        waits = np.array(self.waits, dtype=np.int32).reshape(-1, 2).T
        builder = ScheduleBuilder(ranks, 1.0, slots=buffer, scratch=scratch)
        names = "rank", "peer", "source", "target", "count", "reduces", "lane"
        values = dict(zip(names, np.concatenate([moves, last]).T, strict=True))
        return sequence(builder, values, (waits[0], waits[1]))

    def advance(self, lane: int) -> list[int]:
        """Go on with a lane until it waits, or has sent a message. Returns the lanes that can go on
        now: lanes that send at once take turns."""
        woken: list[int] = []
        while (instruction := self.next[lane]) is not None:
            place, action = instruction
            if isinstance(action, EventWait):
                if len(self.happened[action.event]) < action.times:
                    self.waiting[action.event].append(lane)
                    return woken
                self._join(lane, action)
            elif isinstance(action, EventPost):
                woken += self._post(lane, action)
            else:
                self._move(lane, action, place)
            self.next[lane] = next(self.lanes[lane], None)
            self.instructions += 1
            if self.instructions > MOST_STEPS:
                raise InputError(f"the program has more than {MOST_STEPS} steps")
            if isinstance(action, EventPost) and action.arrives:
                return [*woken, lane]
        return woken

    def blocked(self) -> str:
        """The first lane that is not done, and what it waits for."""
        for instruction in self.next:
            if instruction is not None:
                place, action = instruction
                assert isinstance(action, EventWait)
                return f"{place} waits for {action.reason}"
        return ""

    def check_ends(self) -> None:
        """Raise InputError if a rank may be done before another has written to it or read from
        it."""
        ranks = {rank for rank, _ in chain(self.written, self.read)}
        done = {r: self.clock[self.ranks == r].max(axis=0, initial=0).tolist() for r in ranks}
        reads = ((cell, read) for cell, lanes in self.read.items() for read in lanes.values())
        for (rank, _), access in chain(self.written.items(), reads):
            if access.place.rank != rank and done[rank][access.lane] < access.time:
                raise InputError(
                    f"{access.place} uses a chunk of gpu {rank}, which may be done before: no "
                    f"thread block of gpu {rank} waits for it"
                )

    def _join(self, lane: int, wait: EventWait) -> None:
        if wait.times > 0:
            frontier = self.frontier[lane]
            for mover, move in self.happened[wait.event][wait.times - 1].items():
                frontier[mover] = max(move, frontier.get(mover, move))
            if self.check:
                clock = self.clocks_of[wait.event][wait.times - 1]
                np.maximum(self.clock[lane], clock, out=self.clock[lane])

    def _post(self, lane: int, post: EventPost) -> list[int]:
        moves = self.frontier[lane].copy()
        if post.arrives:
            moves = {-1 - move: move for move in self.posted[lane][-post.arrives :]}
        self.happened[post.event].append(moves)
        if self.check:
            self.posts += 1
            # Each event knows what is done in each lane.
            if len(self.lanes) * (len(self.lanes) + self.posts) > 2**27:
                raise InputError(
                    f"{len(self.lanes)} thread blocks with more than {self.posts - 1} events: too "
                    f"many to check them"
                )
            self.clocks_of[post.event].append(self.clock[lane].copy())
        return self.waiting.pop(post.event, [])

    def _move(self, lane: int, move: LaneMove, place: LanePlace) -> None:
        number = len(self.moves) // COLUMNS
        self.moves.extend(move[:COLUMNS])
        for earlier in self.frontier[lane].values():
            self.waits.extend((number, earlier))
        if move.posted:
            self.posted[lane].append(number)
        else:
            self.frontier[lane] = {lane: number}
        self.slots += move.size
        if self.slots > MOST_SLOTS:
            raise InputError(f"all steps together move more than {MOST_SLOTS} chunks")
        if self.check:
            self.clock[lane, lane] += 1
            access = _Access(lane, int(self.clock[lane, lane]), place)
            for offset in range(move.size):
                self._reads(move.rank, move.source + offset, access)
            for offset in range(move.size):
                self._writes(move.peer, move.target + offset, access)

    def _reads(self, rank: int, slot: int, access: _Access) -> None:
        cell = rank, slot
        if cell in self.written:
            self._ordered(self.written[cell], access)
        self.read[cell][access.lane] = access

    def _writes(self, rank: int, slot: int, access: _Access) -> None:
        cell = rank, slot
        if cell in self.written:
            self._ordered(self.written[cell], access)
        for earlier in self.read.pop(cell, {}).values():
            self._ordered(earlier, access)
        self.written[cell] = access

    def _ordered(self, earlier: _Access, later: _Access) -> None:
        if self.clock[later.lane, earlier.lane] < earlier.time:
            raise InputError(
                f"{later.place} and {earlier.place} use the same chunk, and nothing orders them: "
                f"a dependency is missing"
            )
