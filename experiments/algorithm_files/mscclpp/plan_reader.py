"""Read an MSCCL++ plan. Every mistake is one line with the place in the JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from topologies.errors import InputError, shown
from topologies.readers import json_files
from topologies.readers.file_checks import check_text

MOST_GPUS = 1024
MOST_CHUNKS = 2**16
MOST_OPERATIONS = 10_000
MULTIMEM = ("glres", "gstore", "gstorepkt")
SYNCS = (
    *("nop", "barrier", "signal", "wait", "flush"),
    *("rlxsignal", "rlxwait", "sem_acquire", "sem_release"),
)
MOVES = ("put", "pws", "pwsf", "get", "copy")
REDUCTIONS = ("re", "res", "rre", "rres")
PACKETS = ("ppkt", "rppkt", "respkt", "cpkt", "upkt", "repkt", "recpkt", "recspkt")
NAMES = (*SYNCS, *MOVES, *REDUCTIONS, *PACKETS, *MULTIMEM, "pipeline")


class JsonNode(NamedTuple):
    """A value and its place, like plan.json: gpus[0].id."""

    place: str
    value: Any

    def mistake(self, right: str) -> InputError:
        """The error for the value, with what would be right."""
        return InputError(f"{self.place} is {shown(self.value)}: {right}")

    def has(self, key: str) -> bool:
        """Whether the value is a mapping with this key."""
        return isinstance(self.value, dict) and key in self.value

    def at(self, key: str) -> JsonNode:
        """The value of a key of a mapping."""
        if not isinstance(self.value, dict):
            raise self.mistake("expected a mapping")
        if key not in self.value:
            raise InputError(f"{self.place} has no {key}")
        return JsonNode(f"{self.place}.{key}", self.value[key])

    def items(self, key: str, *, optional: bool = False) -> list[JsonNode]:
        """The values of a list; none if the list is optional and missing."""
        if optional and not self.has(key):
            return []
        node = self.at(key)
        if not isinstance(node.value, list):
            raise node.mistake("expected a list")
        return [JsonNode(f"{node.place}[{place}]", value) for place, value in enumerate(node.value)]

    def whole(self, least: int, most: int) -> int:
        """A whole number from `least` to `most`."""
        value = self.value
        if most < least:
            raise self.mistake("there is none of these")
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.mistake(f"expected a whole number from {least} to {most}")
        return value

    def word(self, words: Sequence[str]) -> str:
        """One of some words."""
        if not isinstance(self.value, str) or self.value not in words:
            raise self.mistake(f"expected one of {', '.join(words)}")
        return str(self.value)

    def text(self) -> str:
        """A text of 1 to 80 printable characters."""
        if not isinstance(self.value, str) or not 0 < len(self.value) <= 80:
            raise self.mistake("expected a name of at most 80 characters")
        return str(self.value)


class ChunkSpan(NamedTuple):
    """Chunks of a buffer of a GPU."""

    rank: int
    buffer: str
    """i, o or s."""
    first: int
    size: int


class PlanChannel(NamedTuple):
    """One of the channels from a GPU to a peer: the two ends have the same number."""

    kind: str
    peer: int
    number: int


@dataclass(frozen=True)
class PlanOperation:
    """An operation of a thread block."""

    name: str
    sources: tuple[ChunkSpan, ...] = ()
    targets: tuple[ChunkSpan, ...] = ()
    channels: tuple[PlanChannel, ...] = ()
    part: int = 0
    parts: int = 1
    """Which of how many equal parts of the chunks it handles."""
    ids: tuple[int, ...] = ()
    """Semaphores, or the barrier."""
    blocks: int = 0
    """The thread blocks of a barrier."""


@dataclass(frozen=True)
class PlanGpu:
    """The program of a GPU."""

    chunks: dict[str, int]
    """The chunks of each buffer."""
    semaphores: tuple[int, ...]
    """The values of the semaphores at first."""
    blocks: tuple[tuple[PlanOperation, ...], ...]


@dataclass(frozen=True)
class MscclppPlan:
    """An MSCCL++ plan."""

    name: str
    collective: str
    protocol: str
    in_place: bool
    gpus: tuple[PlanGpu, ...]


def read_plan(text: str, file: str) -> MscclppPlan:
    """The plan in the JSON file `file`. Raises InputError with place and reason if it is none."""
    root = JsonNode(file, json_files.load(check_text(text, file), file))
    if not root.has("gpus"):
        raise InputError(f"{file} has no gpus: expected an MSCCL++ plan")
    gpus = root.items("gpus")
    if not 1 <= len(gpus) <= MOST_GPUS:
        raise InputError(f"{file}: gpus has {len(gpus)}: 1 to {MOST_GPUS}")
    for rank, gpu in enumerate(gpus):
        if gpu.at("id").whole(0, len(gpus) - 1) != rank:
            raise gpu.at("id").mistake(f"ids are in order, here {rank}")
    in_place = root.at("inplace")
    if not isinstance(in_place.value, bool):
        raise in_place.mistake("expected true or false")
    return MscclppPlan(
        root.at("name").text(),
        root.at("collective").text(),
        root.at("protocol").word(("Simple", "LL")),
        in_place.value,
        tuple(_Gpu(gpu, rank, gpus).read() for rank, gpu in enumerate(gpus)),
    )


def _chunks(gpu: JsonNode) -> dict[str, int]:
    names = {"i": "input_chunks", "o": "output_chunks", "s": "scratch_chunks"}
    return {buffer: gpu.at(name).whole(0, MOST_CHUNKS) for buffer, name in names.items()}


class _Gpu:
    def __init__(self, gpu: JsonNode, rank: int, gpus: list[JsonNode]) -> None:
        self.gpu, self.rank, self.ranks = gpu, rank, len(gpus)
        self.chunks = [_chunks(each) for each in gpus]
        self.channels: dict[str, list[PlanChannel]] = {"memory": [], "port": []}
        for channel in gpu.items("channels", optional=True):
            kind = channel.at("channel_type").word(("memory", "port", "switch", "none"))
            if kind in self.channels:
                self._connect(kind, channel)
        self.remote = [
            (
                buffer.at("rank").whole(0, self.ranks - 1),
                buffer.at("type").word(("i", "o", "s")),
            )
            for buffer in gpu.items("remote_buffers", optional=True)
        ]

    def _connect(self, kind: str, channel: JsonNode) -> None:
        several = self.channels[kind]
        for node in channel.items("connected_to"):
            peer = node.whole(0, self.ranks - 1)
            number = sum(each.peer == peer for each in several)
            several.append(PlanChannel(kind, peer, number))

    def read(self) -> PlanGpu:
        """The program of the GPU."""
        blocks = []
        for place, block in enumerate(self.gpu.items("threadblocks")):
            if block.at("id").whole(0, MOST_OPERATIONS) != place:
                raise block.at("id").mistake(f"ids are in order, here {place}")
            blocks.append(tuple(_Block(self, block).operations(block)))
        semaphores = self.gpu.items("semaphores", optional=True)
        return PlanGpu(
            self.chunks[self.rank],
            tuple(each.at("init_value").whole(0, MOST_OPERATIONS) for each in semaphores),
            tuple(blocks),
        )


class _Block:
    def __init__(self, gpu: _Gpu, block: JsonNode) -> None:
        self.gpu = gpu
        self.channels: dict[str, list[PlanChannel]] = {"memory": [], "port": []}
        self.remote: dict[str, list[tuple[int, str]]] = {"memory": [], "port": []}
        for each in block.items("channels", optional=True):
            kind = each.at("channel_type").value
            for node in each.items("channel_ids") if kind in ("memory", "port") else ():
                known = gpu.channels[kind]
                self.channels[kind].append(known[node.whole(0, len(known) - 1)])
        for each in block.items("remote_buffer_refs", optional=True):
            kind = each.at("access_channel_type").word(("memory", "port"))
            for node in each.items("remote_buffer_ids"):
                self.remote[kind].append(gpu.remote[node.whole(0, len(gpu.remote) - 1)])

    def operations(self, parent: JsonNode) -> list[PlanOperation]:
        """The operations of a thread block, or of a pipeline: those of one round."""
        nodes = parent.items("ops")
        if len(nodes) > MOST_OPERATIONS:
            raise InputError(f"{parent.place} has {len(nodes)} ops: at most {MOST_OPERATIONS}")
        read: list[PlanOperation] = []
        for node in nodes:
            name = node.at("name").word(NAMES)
            if name in MULTIMEM:
                raise node.at("name").mistake("multimem needs switches that reduce: try nvls")
            if name != "pipeline":
                read.append(self._operation(node, name))
            elif parent.has("iter_context"):
                raise node.at("name").mistake("a pipeline holds no pipeline")
            else:
                read += self.operations(node)
        return read

    def _operation(self, node: JsonNode, name: str) -> PlanOperation:
        kind = node.value.get("channel_type", "none")
        if kind not in ("memory", "port", "none"):
            raise node.at("channel_type").mistake("expected memory, port or none")
        known = self.channels.get(kind, [])
        channels = tuple(known[number] for number in _numbers(node, "channel_ids", len(known)))
        part, parts = 0, 1
        if node.has("tbg_info"):
            parts = node.at("tbg_info").at("tbg_size").whole(1, 64)
            part = node.at("tbg_info").at("tb_id").whole(0, parts - 1)
        if node.has("reduce_op"):
            node.at("reduce_op").word(("sum",))
        ids = _numbers(node, "semaphore_ids", MOST_OPERATIONS)
        blocks = 0
        if name == "barrier":
            ids = [node.at("barrier_id").whole(0, MOST_OPERATIONS)]
            blocks = node.at("num_threadblocks").whole(1, MOST_OPERATIONS)
        sources, targets = (
            tuple(self._span(each, kind) for each in node.items(key, optional=True))
            for key in ("src_buff", "dst_buff")
        )
        if name not in SYNCS and not (sources and targets):
            raise node.mistake(f"{name} needs src_buff and dst_buff")
        return PlanOperation(name, sources, targets, channels, part, parts, tuple(ids), blocks)

    def _span(self, node: JsonNode, kind: str) -> ChunkSpan:
        gpu = self.gpu
        if node.has("buffer_id"):
            known = self.remote.get(kind, [])
            rank, buffer = known[node.at("buffer_id").whole(0, len(known) - 1)]
        else:
            rank, buffer = gpu.rank, node.at("type").word(("i", "o", "s"))
        index = node.at("index").whole(0, MOST_CHUNKS)
        size = node.at("size").whole(1, MOST_CHUNKS)
        chunks = gpu.chunks[rank][buffer]
        if index + size > chunks:
            raise node.mistake(f"the buffer {buffer} of gpu {rank} has {chunks} chunks")
        return ChunkSpan(rank, buffer, index, size)


def _numbers(node: JsonNode, key: str, count: int) -> list[int]:
    """The numbers in an optional list, each below `count`."""
    return [each.whole(0, count - 1) for each in node.items(key, optional=True)]
