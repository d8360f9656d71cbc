"""An MSCCL++ plan as an algorithm: lanes, and a schedule.

A thread block is a serial lane. What it writes to another GPU is there when the next signal on a
channel arrives. A packet is there when its flag is: whoever reads it waits for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import lcm

from experiments.algorithm_files.free_names import free_name, of_file
from experiments.algorithm_files.lanes import (
    EventPost,
    EventWait,
    Lane,
    LaneMove,
    LanePlace,
    run,
)
from experiments.algorithm_files.mscclpp.plan_reader import (
    ChunkSpan,
    MscclppPlan,
    PlanChannel,
    PlanOperation,
)
from simulator.collectives import Algorithm, algorithms, of_collective
from simulator.schedules.schedule import LIMIT, Schedule
from topologies.errors import InputError

Cells = tuple[int, int, int]
"""A rank, its first slot and the number of slots."""


def algorithm_of(plan: MscclppPlan) -> Algorithm:
    """A plan as an algorithm for its number of ranks. It is proven when it is simulated."""
    write = PlanLanes(plan).schedule
    ranks, blocks = len(plan.gpus), sum(len(gpu.blocks) for gpu in plan.gpus)
    collective = of_collective(plan.collective, algorithms())[0].collective
    summary = f"MSCCL++, {plan.protocol}, {blocks} thread blocks of {ranks} GPUs"
    return of_file(free_name(plan.name, "json"), collective, write, summary, ranks)


class PlanLanes:
    """The slots and the lanes of a plan."""

    def __init__(self, plan: MscclppPlan) -> None:
        self.plan = plan
        operations = [each for gpu in plan.gpus for block in gpu.blocks for each in block]
        self.pieces = lcm(*(each.parts for each in operations))
        inputs, outputs, scratch = (max(gpu.chunks[key] for gpu in plan.gpus) for key in "ios")
        self.chunks = max(inputs, outputs)
        self.scratch = self.chunks + (0 if plan.in_place else outputs)
        self.register = self.pieces * (self.scratch + scratch)
        self.widest = self.pieces * max(
            (span.size for each in operations for span in each.sources), default=1
        )
        blocks = max(len(gpu.blocks) for gpu in plan.gpus)
        self.slots = self.register + blocks * self.widest
        if self.slots * len(plan.gpus) > LIMIT:
            raise InputError("the plan has too many chunks: simctl takes 2^30 in all")
        if not self.chunks:
            raise InputError("the plan has no chunks: input_chunks or output_chunks are 1 or more")
        _check_channels(plan)

    def schedule(self) -> Schedule:
        """The schedule for V = 1 byte. Raises InputError if thread blocks block each other, or if
        nothing orders two of them on the same chunk."""
        result = run(self._lanes())
        if result.stuck:
            raise InputError(f"deadlock: {result.stuck}")
        ranks, buffer = len(self.plan.gpus), self.chunks * self.pieces
        return result.schedule(ranks, buffer, self.slots - buffer, self._results())

    def _lanes(self) -> Iterator[Lane]:
        for rank, gpu in enumerate(self.plan.gpus):
            for number, block in enumerate(gpu.blocks):
                yield self._lane(rank, number, block)

    def _lane(self, rank: int, number: int, block: Sequence[PlanOperation]) -> Lane:
        lane = _LaneWriter(self, rank, number)
        for step, operation in enumerate(block):
            for action in lane.actions(operation):
                yield LanePlace(rank, number, step), action

    def _results(self) -> Iterator[LaneMove]:
        """Where input and output are two buffers, results move to the buffer of the collective."""
        if self.plan.in_place:
            return
        for rank, gpu in enumerate(self.plan.gpus):
            if outputs := gpu.chunks["o"]:
                source = self._first(ChunkSpan(rank, "o", 0, outputs))
                target = self._own(rank, "o") if self._is("reducescatter") else 0
                size = outputs * self.pieces
                yield LaneMove(rank, rank, source, target * self.pieces, size)

    def cells(self, span: ChunkSpan, operation: PlanOperation) -> Cells:
        """The slots of the part of a span that an operation handles."""
        size = span.size * self.pieces // operation.parts
        return span.rank, self._first(span) + operation.part * size, size

    def _first(self, span: ChunkSpan) -> int:
        place = span.first
        if span.buffer == "s":
            place += self.scratch
        elif span.buffer == "o" and not self.plan.in_place:
            place += self.chunks
        elif (span.buffer == "i" and self._is("allgather")) or (
            span.buffer == "o" and self._is("reducescatter")
        ):
            place += self._own(span.rank, span.buffer)
        return place * self.pieces

    def _own(self, rank: int, buffer: str) -> int:
        """The first chunk of a GPU's share of V."""
        return rank * self.plan.gpus[rank].chunks[buffer]

    def _is(self, collective: str) -> bool:
        return self.plan.collective.lower().replace("_", "") == collective


class _LaneWriter:
    """Writes what the operations of a thread block do."""

    def __init__(self, lanes: PlanLanes, rank: int, number: int) -> None:
        self.lanes, self.rank, self.number = lanes, rank, number
        self.written = 0
        """Messages to other GPUs since the last wait."""
        self.waits, self.barriers = Counter[object](), Counter[int]()

    def actions(self, operation: PlanOperation) -> Iterator[LaneMove | EventPost | EventWait]:
        """What an operation does."""
        name = operation.name
        if name in ("wait", "rlxwait"):
            for channel in operation.channels:
                event = channel.kind, channel.peer, self.rank, channel.number
                yield self._wait(event, f"a signal from gpu {channel.peer}")
        elif name in ("signal", "rlxsignal"):
            yield from self._signal(operation.channels)
        elif name == "barrier":
            yield from self._barrier(operation)
        elif name == "sem_acquire":
            for number in operation.ids:
                yield from self._acquire(number)
        elif name == "sem_release":
            for number in operation.ids:
                yield EventPost(("semaphore", self.rank, number))
        elif operation.targets:
            yield from self._data(operation)
            if name in ("pws", "pwsf"):
                yield from self._signal(operation.channels)

    def _wait(self, event: object, reason: str) -> EventWait:
        self.waits[event] += 1
        return EventWait(event, self.waits[event], reason)

    def _signal(self, channels: tuple[PlanChannel, ...]) -> Iterator[EventPost]:
        for channel in channels:
            event = channel.kind, self.rank, channel.peer, channel.number
            yield EventPost(event, arrives=self.written)

    def _barrier(self, operation: PlanOperation) -> Iterator[EventPost | EventWait]:
        (number,) = operation.ids
        event = "barrier", self.rank, number, self.barriers[number]
        self.barriers[number] += 1
        yield EventPost(event, arrives=self.written)
        for times in range(1, operation.blocks + 1):
            yield EventWait(event, times, f"barrier {number}")

    def _acquire(self, number: int) -> Iterator[EventWait]:
        semaphores = self.lanes.plan.gpus[self.rank].semaphores
        if number >= len(semaphores):
            raise InputError(f"gpu {self.rank} has no semaphore {number}")
        event = "semaphore", self.rank, number
        wait = self._wait(event, f"semaphore {number}")
        yield wait._replace(times=max(0, wait.times - semaphores[number]))

    def _data(self, operation: PlanOperation) -> Iterator[LaneMove | EventPost | EventWait]:
        name, packets = operation.name, operation.name.endswith("pkt")
        sources = [self.lanes.cells(span, operation) for span in operation.sources]
        targets = [self.lanes.cells(span, operation) for span in operation.targets]
        if name in ("ppkt", "rppkt", "cpkt", "upkt", "put", "pws", "pwsf", "get", "copy"):
            pairs = list(zip(sources, targets, strict=False))
            if len(sources) == 1:
                pairs = [(sources[0], target) for target in targets]
            for source, target in pairs:
                if name in ("rppkt", "upkt"):
                    yield from self._packets(source)
                yield from self._move(source, target, packets=packets and name != "upkt")
            return
        yield from self._reduce(sources, targets, packets)

    def _reduce(
        self, sources: list[Cells], targets: list[Cells], packets: bool
    ) -> Iterator[LaneMove | EventPost | EventWait]:
        """Add all sources into the first target, and copy the sum to the others."""
        first, *rest = sources
        for source in rest if packets else ():
            yield from self._packets(source)
        total = targets[0]
        if total != first:
            if total[0] != self.rank or total in rest:
                place = self.lanes.register + self.number * self.lanes.widest
                total = self.rank, place, first[2]
            yield from self._move(first, total)
        for source in rest:
            yield from self._move(source, total, reduces=True)
        for place, target in enumerate(targets):
            if target != total:
                yield from self._move(total, target, packets=packets and place > 0)

    def _packets(self, cells: Cells) -> Iterator[EventWait]:
        rank, first, size = cells
        for slot in range(first, first + size):
            yield EventWait(("packet", rank, slot), 1, f"a packet in slot {slot}")

    def _move(
        self, source: Cells, target: Cells, *, reduces: bool = False, packets: bool = False
    ) -> Iterator[LaneMove | EventPost]:
        if source[2] != target[2]:
            raise InputError(
                f"gpu {self.rank}, thread block {self.number}: {source[2]} chunks move to "
                f"{target[2]}"
            )
        posted = target[0] != self.rank
        ends = source[0], target[0], source[1], target[1], source[2]
        yield LaneMove(*ends, reduces=reduces, posted=posted)
        self.written = self.written + 1 if posted else self.written
        if packets:
            for slot in range(target[1], target[1] + target[2]):
                yield EventPost(("packet", target[0], slot), arrives=int(posted))


def _check_channels(plan: MscclppPlan) -> None:
    """One thread block waits on a channel: else it is open who takes a signal."""
    waiting: dict[object, str] = {}
    for rank, gpu in enumerate(plan.gpus):
        for number, block in enumerate(gpu.blocks):
            for step, operation in enumerate(block):
                if operation.name not in ("wait", "rlxwait"):
                    continue
                for channel in operation.channels:
                    place, key = LanePlace(rank, number, step), (rank, channel)
                    owner = waiting.setdefault(key, f"gpu {rank}, thread block {number}")
                    if owner != f"gpu {rank}, thread block {number}":
                        raise InputError(f"{place}: {owner} waits on the same channel")
