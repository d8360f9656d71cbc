"""MSCCL++ plans as algorithms: thread blocks that read and write buffers of other GPUs.

A thread block is a serial lane. What it writes to another GPU is there when the next signal on a
channel arrives. A packet is there when its flag is: whoever reads it waits for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import lcm
from typing import NamedTuple, TypeVar, get_args

from experiments.algorithm_files import free_name, of_file
from experiments.algorithm_files.lanes import EventPost, EventWait, Lane, LaneMove, LanePlace, run
from experiments.algorithm_files.mscclpp_plan import (
    ChunkSpan,
    Copy,
    MscclppPlan,
    PlanBlock,
    PlanGpu,
    PlanOperation,
    RemoteBuffer,
)
from simulator.collectives import Algorithm, algorithms, of_collective
from simulator.schedules.schedule import LIMIT, Schedule
from topologies.errors import InputError, naming

Row = TypeVar("Row")
Channel = tuple[str, int, int]
"""The kind, the peer and the number of a channel to the peer: its two ends have the same number."""


class Cells(NamedTuple):
    """Slots of a rank."""

    rank: int
    first: int
    size: int


def algorithm_of(plan: MscclppPlan) -> Algorithm:
    """A plan as an algorithm for its number of ranks. It is proven when it is simulated."""
    write = PlanLanes(plan).schedule
    ranks, blocks = len(plan.gpus), sum(len(gpu.threadblocks) for gpu in plan.gpus)
    collective = of_collective(plan.collective, algorithms())[0].collective
    summary = f"MSCCL++, {plan.protocol}, {blocks} thread blocks of {ranks} GPUs"
    return of_file(free_name(plan.name, "json"), collective, write, summary, ranks)


class PlanLanes:
    """The slots and the lanes of a plan."""

    def __init__(self, plan: MscclppPlan) -> None:
        self.plan, self.ranks = plan, len(plan.gpus)
        self.channels = [self._channels(gpu) for gpu in plan.gpus]
        self.writers = [
            _LaneWriter(self, rank, block)
            for rank, gpu in enumerate(plan.gpus)
            for block in gpu.threadblocks
        ]
        _check_channels(self.writers)
        operations = [operation for writer in self.writers for operation in writer.operations]
        self.pieces = lcm(*(operation.tbg_info.tbg_size for operation in operations))
        inputs, outputs, scratch = (max(gpu.chunks(key) for gpu in plan.gpus) for key in "ios")
        self.chunks = max(inputs, outputs)
        self.scratch = self.chunks + (0 if plan.inplace else outputs)
        self.register = self.pieces * (self.scratch + scratch)
        sizes = (span.size for operation in operations for span in operation.src_buff)
        self.widest = self.pieces * max(sizes, default=1)
        self.slots = self.register + max(len(gpu.threadblocks) for gpu in plan.gpus) * self.widest
        if self.slots * self.ranks > LIMIT:
            raise InputError("the plan has too many chunks: simctl takes 2^30 in all")
        if not self.chunks:
            raise InputError("the plan has no chunks: input_chunks or output_chunks are 1 or more")

    def _channels(self, gpu: PlanGpu) -> dict[str, list[Channel]]:
        channels: dict[str, list[Channel]] = {"memory": [], "port": []}
        for group in gpu.channels:
            several, kind = channels.get(group.channel_type, []), group.channel_type
            for peer in group.connected_to:
                entry(range(self.ranks), peer, f"gpu {gpu.id} is connected to gpu")
                number = sum(channel[:2] == (kind, peer) for channel in several)
                several.append((kind, peer, number))
        return channels

    def schedule(self) -> Schedule:
        """The schedule for V = 1 byte. Raises InputError if thread blocks block each other, or if
        nothing orders two of them on the same chunk."""
        result = run(writer.lane() for writer in self.writers)
        if result.stuck:
            raise InputError(f"deadlock: {result.stuck}")
        buffer = self.chunks * self.pieces
        return result.schedule(self.ranks, buffer, self.slots - buffer, self._results())

    def _results(self) -> Iterator[LaneMove]:
        """Where input and output are two buffers, results move to the buffer of the collective."""
        for rank, gpu in enumerate(() if self.plan.inplace else self.plan.gpus):
            if outputs := gpu.output_chunks:
                target = rank * outputs if self._is("reducescatter") else 0
                size = outputs * self.pieces
                yield LaneMove(rank, rank, self.first(rank, "o", 0), target * self.pieces, size)

    def first(self, rank: int, buffer: str, index: int) -> int:
        """The first slot of a chunk of a buffer."""
        place = index
        if buffer == "s":
            place += self.scratch
        elif buffer == "o" and not self.plan.inplace:
            place += self.chunks
        elif (buffer == "i" and self._is("allgather")) or (
            buffer == "o" and self._is("reducescatter")
        ):
            place += rank * self.plan.gpus[rank].chunks(buffer)  # its share of V
        return place * self.pieces

    def _is(self, collective: str) -> bool:
        return self.plan.collective.lower().replace("_", "") == collective


class _LaneWriter:
    """Writes what the operations of a thread block do."""

    def __init__(self, lanes: PlanLanes, rank: int, block: PlanBlock) -> None:
        self.lanes, self.rank, self.number = lanes, rank, block.id
        self.gpu, self.operations = lanes.plan.gpus[rank], block.operations()
        self.place = f"gpu {rank}, thread block {block.id}"
        self.channels: dict[str, list[Channel]] = {"memory": [], "port": [], "none": []}
        for several in block.channels:
            rows = lanes.channels[rank].get(several.channel_type, [])
            for number in several.channel_ids if several.channel_type in self.channels else ():
                self.channels[several.channel_type].append(self._entry(rows, number, "channel"))
        self.operation_channels = [self._channels_of(step) for step in range(len(self.operations))]
        self.remote: dict[str, list[RemoteBuffer]] = {"memory": [], "port": [], "none": []}
        for references in block.remote_buffer_refs:
            for number in references.remote_buffer_ids:
                buffer = self._entry(self.gpu.remote_buffers, number, "remote buffer")
                self._entry(range(lanes.ranks), buffer.rank, "gpu")
                self.remote[references.access_channel_type].append(buffer)

    def lane(self) -> Lane:
        """What the thread block does."""
        # Messages to other GPUs since the last wait.
        self.written = 0
        self.waits, self.barriers = Counter[object](), Counter[int]()
        for step in range(len(self.operations)):
            with naming(self.step_place(step)):
                actions = [*self._actions(step)]
            for action in actions:
                yield LanePlace(self.rank, self.number, step), action

    def step_place(self, step: int) -> str:
        """Where the operation of a step is, with its name."""
        return f"{self.place}, step {step}, {self.operations[step].name}"

    def _channels_of(self, step: int) -> list[Channel]:
        operation = self.operations[step]
        channels = self.channels[operation.channel_type]
        with naming(self.step_place(step)):
            return [entry(channels, number, "channel") for number in operation.channel_ids]

    def _entry(self, rows: Sequence[Row], number: int, kind: str) -> Row:
        return entry(rows, number, f"{self.place}: {kind}")

    def _actions(self, step: int) -> Iterator[LaneMove | EventPost | EventWait]:
        operation, channels = self.operations[step], self.operation_channels[step]
        name = operation.name
        if name in ("wait", "rlxwait"):
            for kind, peer, number in channels:
                yield self._wait((kind, peer, self.rank, number), f"a signal from gpu {peer}")
        elif name in ("signal", "rlxsignal"):
            yield from self._signal(channels)
        elif name == "barrier":
            number = operation.barrier_id
            event = "barrier", self.rank, number, self.barriers[number]
            self.barriers[number] += 1
            yield EventPost(event, arrives=self.written)
            for times in range(1, operation.num_threadblocks + 1):
                yield EventWait(event, times, f"barrier {number}")
        elif name == "sem_acquire":
            for number in operation.semaphore_ids:
                semaphore = entry(self.gpu.semaphores, number, "semaphore")
                wait = self._wait(("semaphore", self.rank, number), f"semaphore {number}")
                yield wait._replace(times=max(0, wait.times - semaphore.init_value))
        elif name == "sem_release":
            for number in operation.semaphore_ids:
                yield EventPost(("semaphore", self.rank, number))
        elif operation.dst_buff:
            yield from self._data(operation)
            if name in ("pws", "pwsf"):
                yield from self._signal(channels)

    def _wait(self, event: object, reason: str) -> EventWait:
        self.waits[event] += 1
        return EventWait(event, self.waits[event], reason)

    def _signal(self, channels: Sequence[Channel]) -> Iterator[EventPost]:
        for kind, peer, number in channels:
            yield EventPost((kind, self.rank, peer, number), arrives=self.written)

    def _cells(self, span: ChunkSpan, operation: PlanOperation) -> Cells:
        """The slots of the part of a span that an operation handles."""
        rank, buffer = self.rank, str(span.type)
        if span.buffer_id is not None:
            remote = self.remote[operation.channel_type]
            far = entry(remote, span.buffer_id, "remote buffer")
            rank, buffer = far.rank, far.type
        chunks = self.lanes.plan.gpus[rank].chunks(buffer)
        if span.index + span.size > chunks:
            last = span.index + span.size - 1
            raise InputError(f"chunk {last} of buffer {buffer} of gpu {rank}: there are {chunks}")
        share = operation.tbg_info
        size = span.size * self.lanes.pieces // share.tbg_size
        first = self.lanes.first(rank, buffer, span.index) + share.tb_id * size
        return Cells(rank, first, size)

    def _data(self, operation: PlanOperation) -> Iterator[LaneMove | EventPost | EventWait]:
        name, packets = operation.name, operation.name.endswith("pkt")
        sources = [self._cells(span, operation) for span in operation.src_buff]
        targets = [self._cells(span, operation) for span in operation.dst_buff]
        if name not in get_args(Copy):
            yield from self._reduce(sources, targets, packets)
            return
        pairs = list(zip(sources, targets, strict=False))
        if len(sources) == 1:
            pairs = [(sources[0], target) for target in targets]
        for source, target in pairs:
            if name in ("rppkt", "upkt"):
                yield from self._packets(source)
            yield from self._move(source, target, packets=packets and name != "upkt")

    def _reduce(
        self, sources: list[Cells], targets: list[Cells], packets: bool
    ) -> Iterator[LaneMove | EventPost | EventWait]:
        """Add all sources into the first target, and copy the sum to the others."""
        first, *rest = sources
        for source in rest if packets else ():
            yield from self._packets(source)
        total = targets[0]
        if total != first:
            if total.rank != self.rank or total in rest:
                place = self.lanes.register + self.number * self.lanes.widest
                total = Cells(self.rank, place, first.size)
            yield from self._move(first, total)
        for source in rest:
            yield from self._move(source, total, reduces=True)
        for place, target in enumerate(targets):
            if target != total:
                yield from self._move(total, target, packets=packets and place > 0)

    def _packets(self, cells: Cells) -> Iterator[EventWait]:
        for slot in range(cells.first, cells.first + cells.size):
            yield EventWait(("packet", cells.rank, slot), 1, f"a packet in slot {slot}")

    def _move(
        self, source: Cells, target: Cells, *, reduces: bool = False, packets: bool = False
    ) -> Iterator[LaneMove | EventPost]:
        if source.size != target.size:
            sizes = (f"{cells.size / self.lanes.pieces:g}" for cells in (source, target))
            raise InputError(f"{' chunks move to '.join(sizes)}: expected as many")
        posted = target.rank != self.rank
        ends = source.rank, target.rank, source.first, target.first, source.size
        yield LaneMove(*ends, reduces=reduces, posted=posted)
        self.written = self.written + 1 if posted else self.written
        if packets:
            for slot in range(target.first, target.first + target.size):
                yield EventPost(("packet", target.rank, slot), arrives=int(posted))


def entry(rows: Sequence[Row], number: int, kind: str) -> Row:
    """The row of this number. Raises InputError if there is none."""
    if number >= len(rows):
        raise InputError(f"{kind} {number}: there are {len(rows)}, numbered from 0")
    return rows[number]


def _check_channels(writers: Sequence[_LaneWriter]) -> None:
    """One thread block waits on a channel: else it is open who takes a signal."""
    waiting: dict[object, str] = {}
    for writer in writers:
        for step, operation in enumerate(writer.operations):
            for channel in writer.operation_channels[step] if "wait" in operation.name else ():
                owner = waiting.setdefault((writer.rank, channel), writer.place)
                if owner != writer.place:
                    place = writer.step_place(step)
                    raise InputError(f"{place}: {owner} waits on the same channel")
