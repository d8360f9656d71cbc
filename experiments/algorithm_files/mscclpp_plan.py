"""MSCCL++ plans in JSON. Every mistake is one line with its place."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from topologies.errors import InputError, spelling
from topologies.readers.contents import check_text
from topologies.readers.mistakes import Mistakes
from topologies.readers.plain_files import load_json

Signal = Literal["nop", "barrier", "signal", "wait", "flush", "rlxsignal", "rlxwait"]
Semaphore = Literal["sem_acquire", "sem_release"]
Copy = Literal["put", "pws", "pwsf", "get", "copy", "ppkt", "rppkt", "cpkt", "upkt"]
Reduction = Literal["re", "res", "rre", "rres", "respkt", "repkt", "recpkt", "recspkt"]
Multimem = Literal["glres", "gstore", "gstorepkt"]
Chunk = Annotated[int, Field(ge=0, le=2**16)]
Number = Annotated[int, Field(ge=0, le=10_000)]
Text = Annotated[str, Field(min_length=1, max_length=80)]


class _PlanObject(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    def need(self, *keys: str) -> None:
        """Raise InputError if one of these keys is missing."""
        for key in keys:
            if key not in self.model_fields_set:
                raise InputError(f"{key} is missing")


class ChunkSpan(_PlanObject):
    """Chunks of a buffer of the GPU, or of a buffer of another by its number."""

    index: Chunk
    size: Annotated[int, Field(ge=1, le=2**16)]
    type: Literal["i", "o", "s"] | None = None
    buffer_id: Number | None = None

    @model_validator(mode="after")
    def _of_a_buffer(self) -> ChunkSpan:
        if self.type is None and self.buffer_id is None:
            raise InputError("type is missing: expected 'i', 'o' or 's', or a buffer_id")
        return self


class BlockShare(_PlanObject):
    """Which of how many equal parts of the chunks a thread block handles."""

    tb_id: Number
    tbg_size: Annotated[int, Field(ge=1, le=64)]

    @model_validator(mode="after")
    def _one_of_the_parts(self) -> BlockShare:
        if self.tb_id >= self.tbg_size:
            raise InputError(
                f"tb_id is {self.tb_id}: expected less than tbg_size, which is {self.tbg_size}"
            )
        return self


class PlanOperation(_PlanObject):
    """An operation of a thread block."""

    name: Literal[Signal, Semaphore, Copy, Reduction, Multimem, "pipeline"]
    channel_type: Literal["memory", "port", "none"] = "none"
    channel_ids: list[Number] = []
    src_buff: list[ChunkSpan] = []
    dst_buff: list[ChunkSpan] = []
    tbg_info: BlockShare = BlockShare(tb_id=0, tbg_size=1)
    reduce_op: Literal["sum"] = "sum"
    semaphore_ids: list[Number] = []
    barrier_id: Number = 0
    num_threadblocks: Annotated[int, Field(ge=1, le=10_000)] = 1
    ops: Annotated[list[PlanOperation], Field(max_length=10_000)] = []

    @model_validator(mode="after")
    def _checked(self) -> PlanOperation:
        if self.name in get_args(Multimem):
            raise InputError(f"{self.name}: multimem needs switches that reduce: try nvls")
        if self.name == "pipeline":
            self.need("ops")
        if any(inner.name == "pipeline" for inner in self.ops):
            raise InputError("a pipeline holds no pipeline")
        if self.name == "barrier":
            self.need("barrier_id", "num_threadblocks")
        moves = self.name in get_args(Copy) + get_args(Reduction)
        if moves and not (self.src_buff and self.dst_buff):
            raise InputError(f"{self.name} needs src_buff and dst_buff")
        return self


class PlanChannels(_PlanObject):
    """Channels of a GPU to peers, or those of them that a thread block uses."""

    channel_type: Literal["memory", "port", "switch", "none"]
    connected_to: list[Number] = []
    channel_ids: list[Number] = []


def _with(key: str) -> AfterValidator:
    """Refuses channels between GPUs without a key."""

    def check(channels: PlanChannels) -> PlanChannels:
        if channels.channel_type in ("memory", "port"):
            channels.need(key)
        return channels

    return AfterValidator(check)


class BufferReferences(_PlanObject):
    """Remote buffers of its GPU that a thread block uses, by their numbers."""

    access_channel_type: Literal["memory", "port"]
    remote_buffer_ids: list[Number]


class PlanBlock(_PlanObject):
    """A thread block."""

    id: Number
    ops: Annotated[list[PlanOperation], Field(max_length=10_000)]
    channels: list[Annotated[PlanChannels, _with("channel_ids")]] = []
    remote_buffer_refs: list[BufferReferences] = []

    def operations(self) -> list[PlanOperation]:
        """The operations, with those of pipelines."""
        return [
            operation
            for outer in self.ops
            for operation in (outer.ops if outer.name == "pipeline" else [outer])
        ]


class RemoteBuffer(_PlanObject):
    """A buffer of another GPU."""

    rank: Number
    type: Literal["i", "o", "s"]


class PlanSemaphore(_PlanObject):
    """A semaphore of a GPU."""

    init_value: Number


class PlanGpu(_PlanObject):
    """The program of a GPU."""

    id: Number
    input_chunks: Chunk
    output_chunks: Chunk
    scratch_chunks: Chunk
    threadblocks: list[PlanBlock]
    channels: list[Annotated[PlanChannels, _with("connected_to")]] = []
    remote_buffers: list[RemoteBuffer] = []
    semaphores: list[PlanSemaphore] = []

    def chunks(self, buffer: str) -> int:
        """The chunks of the buffer i, o or s."""
        return {"i": self.input_chunks, "o": self.output_chunks, "s": self.scratch_chunks}[buffer]


class MscclppPlan(_PlanObject):
    """An MSCCL++ plan."""

    name: Text
    collective: Text
    protocol: Literal["Simple", "LL"]
    inplace: bool
    gpus: Annotated[list[PlanGpu], Field(min_length=1, max_length=1024)]

    @model_validator(mode="after")
    def _in_order(self) -> MscclppPlan:
        for rank, gpu in enumerate(self.gpus):
            _check_number(gpu.id, rank, f"gpus[{rank}]")
            for number, block in enumerate(gpu.threadblocks):
                _check_number(block.id, number, f"gpus[{rank}].threadblocks[{number}]")
        return self


def _check_number(number: int, expected: int, place: str) -> None:
    if number != expected:
        raise InputError(f"{place}.id is {number}: ids are in order, expected {expected}")


def read_plan(text: str, file: str) -> MscclppPlan:
    """The plan in the JSON file `file`. Raises InputError with place and reason if it is none."""
    content, mistakes = load_json(check_text(text, file), file), Mistakes()
    if not isinstance(content, dict) or "gpus" not in content:
        raise InputError(f"{file} has no gpus: expected an MSCCL++ plan")
    plan: MscclppPlan = mistakes.checked(MscclppPlan, content)
    mistakes.report(lambda location: ": ".join(filter(None, (file, spelling(location)))))
    return plan
