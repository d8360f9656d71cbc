"""MSCCL++ plans in JSON, as algorithms: thread blocks that read and write buffers of other GPUs.

A thread block is a serial lane. What it writes to another GPU is there when the next signal on a
channel arrives. A packet is there when its flag is: whoever reads it waits for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import lcm
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import AliasPath, BaseModel, ConfigDict, Field, model_validator

from experiments.algorithm_files import free_name, of_file
from experiments.algorithm_files.lanes import EventPost, EventWait, Lane, LaneMove, LanePlace, run
from simulator.collectives import Algorithm, algorithms, of_collective
from simulator.schedules.schedule import LIMIT, Schedule
from topologies.errors import InputError
from topologies.readers.contents import check_text
from topologies.readers.mistakes import Mistakes, spelling
from topologies.readers.plain_files import load_json

Signal = Literal["nop", "barrier", "signal", "wait", "flush", "rlxsignal", "rlxwait"]
Semaphore = Literal["sem_acquire", "sem_release"]
Copy = Literal["put", "pws", "pwsf", "get", "copy", "ppkt", "rppkt", "cpkt", "upkt"]
Reduction = Literal["re", "res", "rre", "rres", "respkt", "repkt", "recpkt", "recspkt"]
Multimem = Literal["glres", "gstore", "gstorepkt"]
Chunk = Annotated[int, Field(ge=0, le=2**16)]
Number = Annotated[int, Field(ge=0, le=10_000)]
Text = Annotated[str, Field(min_length=1, max_length=80)]
Row = TypeVar("Row")
Cells = tuple[int, int, int]
"""A rank, its first slot and the number of slots."""
Channel = tuple[str, int, int]
"""The kind, the peer and the number of a channel to the peer: its two ends have the same number."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class ChunkSpan(_Part):
    """Chunks of a buffer of the GPU, or of a buffer of another by its number."""

    index: Chunk
    size: Annotated[int, Field(ge=1, le=2**16)]
    type: Literal["i", "o", "s"] = "i"
    buffer_id: Number | None = None


class PlanOperation(_Part):
    """An operation of a thread block."""

    name: Literal[Signal, Semaphore, Copy, Reduction, Multimem, "pipeline"]
    channel_type: Literal["memory", "port", "none"] = "none"
    channel_ids: list[Number] = []
    src_buff: list[ChunkSpan] = []
    dst_buff: list[ChunkSpan] = []
    part: Annotated[Number, Field(validation_alias=AliasPath("tbg_info", "tb_id"))] = 0
    parts: Annotated[
        int, Field(validation_alias=AliasPath("tbg_info", "tbg_size"), ge=1, le=64)
    ] = 1
    """Which of how many equal parts of the chunks it handles."""
    reduce_op: Literal["sum"] = "sum"
    semaphore_ids: list[Number] = []
    barrier_id: Number = 0
    num_threadblocks: Number = 1
    ops: Annotated[list[PlanOperation], Field(max_length=10_000)] = []

    @model_validator(mode="after")
    def _checked(self) -> PlanOperation:
        if self.name in get_args(Multimem):
            raise InputError(f"{self.name}: multimem needs switches that reduce: try nvls")
        if any(each.name == "pipeline" for each in self.ops):
            raise InputError("a pipeline holds no pipeline")
        moves = self.name in get_args(Copy) + get_args(Reduction)
        if moves and not (self.src_buff and self.dst_buff):
            raise InputError(f"{self.name} needs src_buff and dst_buff")
        if self.part >= self.parts:
            raise InputError(f"tb_id is {self.part}: it is below tbg_size")
        return self


class PlanChannels(_Part):
    """Channels of a GPU to peers, or those of them that a thread block uses."""

    channel_type: str
    connected_to: list[Number] = []
    channel_ids: list[Number] = []


class BufferReferences(_Part):
    """Remote buffers of its GPU that a thread block uses, by their numbers."""

    access_channel_type: Literal["memory", "port"]
    remote_buffer_ids: list[Number]


class PlanBlock(_Part):
    """A thread block."""

    id: Number
    ops: Annotated[list[PlanOperation], Field(max_length=10_000)]
    channels: list[PlanChannels] = []
    remote_buffer_refs: list[BufferReferences] = []

    def operations(self) -> list[PlanOperation]:
        """The operations, with those of pipelines."""
        return [
            operation
            for each in self.ops
            for operation in (each.ops if each.name == "pipeline" else [each])
        ]


class RemoteBuffer(_Part):
    """A buffer of another GPU."""

    rank: Number
    type: Literal["i", "o", "s"]


class PlanGpu(_Part):
    """The program of a GPU."""

    id: Number
    input_chunks: Chunk
    output_chunks: Chunk
    scratch_chunks: Chunk
    threadblocks: list[PlanBlock]
    channels: list[PlanChannels] = []
    remote_buffers: list[RemoteBuffer] = []
    semaphores: list[dict[Literal["init_value"], Number]] = []

    def chunks(self, buffer: str) -> int:
        """The chunks of the buffer i, o or s."""
        return {"i": self.input_chunks, "o": self.output_chunks, "s": self.scratch_chunks}[buffer]


class MscclppPlan(_Part):
    """An MSCCL++ plan."""

    name: Text
    collective: Text
    protocol: Literal["Simple", "LL"]
    inplace: bool
    gpus: Annotated[list[PlanGpu], Field(min_length=1, max_length=1024)]

    @model_validator(mode="after")
    def _in_order(self) -> MscclppPlan:
        for rank, gpu in enumerate(self.gpus):
            ids = [block.id for block in gpu.threadblocks]
            if gpu.id != rank or ids != [*range(len(ids))]:
                raise InputError(f"gpus[{rank}]: ids of GPUs and of thread blocks are in order")
        return self


def read_plan(text: str, file: str) -> MscclppPlan:
    """The plan in the JSON file `file`. Raises InputError with place and reason if it is none."""
    content, mistakes = load_json(check_text(text, file), file), Mistakes()
    if not isinstance(content, dict) or "gpus" not in content:
        raise InputError(f"{file} has no gpus: expected an MSCCL++ plan")
    plan: MscclppPlan = mistakes.checked(MscclppPlan, content)
    mistakes.report(lambda location: ": ".join(filter(None, (file, spelling(location)))))
    return plan


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
        operations = [each for writer in self.writers for each in writer.operations]
        self.pieces = lcm(*(each.parts for each in operations))
        inputs, outputs, scratch = (max(gpu.chunks(key) for gpu in plan.gpus) for key in "ios")
        self.chunks = max(inputs, outputs)
        self.scratch = self.chunks + (0 if plan.inplace else outputs)
        self.register = self.pieces * (self.scratch + scratch)
        sizes = (span.size for each in operations for span in each.src_buff)
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
                several.append((kind, peer, sum(each[:2] == (kind, peer) for each in several)))
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
        for step, operation in enumerate(self.operations):
            for action in self._actions(operation):
                yield LanePlace(self.rank, self.number, step), action

    def channels_of(self, operation: PlanOperation) -> list[Channel]:
        channels = self.channels[operation.channel_type]
        return [self._entry(channels, number, "channel") for number in operation.channel_ids]

    def _entry(self, rows: Sequence[Row], number: int, what: str) -> Row:
        return entry(rows, number, f"{self.place}: {what}")

    def _actions(self, operation: PlanOperation) -> Iterator[LaneMove | EventPost | EventWait]:
        name = operation.name
        if name in ("wait", "rlxwait"):
            for kind, peer, number in self.channels_of(operation):
                yield self._wait((kind, peer, self.rank, number), f"a signal from gpu {peer}")
        elif name in ("signal", "rlxsignal"):
            yield from self._signal(operation)
        elif name == "barrier":
            number = operation.barrier_id
            event = "barrier", self.rank, number, self.barriers[number]
            self.barriers[number] += 1
            yield EventPost(event, arrives=self.written)
            for times in range(1, operation.num_threadblocks + 1):
                yield EventWait(event, times, f"barrier {number}")
        elif name == "sem_acquire":
            for number in operation.semaphore_ids:
                semaphore = self._entry(self.gpu.semaphores, number, "semaphore")
                wait = self._wait(("semaphore", self.rank, number), f"semaphore {number}")
                yield wait._replace(times=max(0, wait.times - semaphore["init_value"]))
        elif name == "sem_release":
            for number in operation.semaphore_ids:
                yield EventPost(("semaphore", self.rank, number))
        elif operation.dst_buff:
            yield from self._data(operation)
            if name in ("pws", "pwsf"):
                yield from self._signal(operation)

    def _wait(self, event: object, reason: str) -> EventWait:
        self.waits[event] += 1
        return EventWait(event, self.waits[event], reason)

    def _signal(self, operation: PlanOperation) -> Iterator[EventPost]:
        for kind, peer, number in self.channels_of(operation):
            yield EventPost((kind, self.rank, peer, number), arrives=self.written)

    def _cells(self, span: ChunkSpan, operation: PlanOperation) -> Cells:
        """The slots of the part of a span that an operation handles."""
        rank, buffer = self.rank, str(span.type)
        if span.buffer_id is not None:
            remote = self.remote[operation.channel_type]
            far = self._entry(remote, span.buffer_id, "remote buffer")
            rank, buffer = far.rank, far.type
        chunks = self.lanes.plan.gpus[rank].chunks(buffer)
        if span.index + span.size > chunks:
            raise InputError(f"{self.place}: the buffer {buffer} of gpu {rank} has {chunks} chunks")
        size = span.size * self.lanes.pieces // operation.parts
        return rank, self.lanes.first(rank, buffer, span.index) + operation.part * size, size

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
            raise InputError(f"{self.place}: {source[2]} chunks move to {target[2]}")
        posted = target[0] != self.rank
        ends = source[0], target[0], source[1], target[1], source[2]
        yield LaneMove(*ends, reduces=reduces, posted=posted)
        self.written = self.written + 1 if posted else self.written
        if packets:
            for slot in range(target[1], target[1] + target[2]):
                yield EventPost(("packet", target[0], slot), arrives=int(posted))


def entry(rows: Sequence[Row], number: int, what: str) -> Row:
    """The row of this number. Raises InputError if there is none."""
    if number >= len(rows):
        raise InputError(f"{what} {number}: there are {len(rows)}")
    return rows[number]


def _check_channels(writers: Sequence[_LaneWriter]) -> None:
    """One thread block waits on a channel: else it is open who takes a signal."""
    waiting: dict[object, str] = {}
    for writer in writers:
        for operation in writer.operations:
            for channel in writer.channels_of(operation) if "wait" in operation.name else ():
                owner = waiting.setdefault((writer.rank, channel), writer.place)
                if owner != writer.place:
                    raise InputError(f"{writer.place}: {owner} waits on the same channel")
