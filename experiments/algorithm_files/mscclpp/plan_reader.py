"""Read an MSCCL++ plan. Every mistake is one line with the place in the JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from experiments.algorithm_files.mscclpp.json_nodes import Node
from topologies.errors import InputError
from topologies.readers import json_files
from topologies.readers.file_checks import check_text

MOST_GPUS = 1024
MOST_CHUNKS = 2**16
MOST_OPERATIONS = 10_000
MOST_SLICES = 64
MULTIMEM = ("glres", "gstore", "gstorepkt")
SYNCS = (
    *("nop", "barrier", "signal", "wait", "flush"),
    *("rlxsignal", "rlxwait", "sem_acquire", "sem_release"),
)
MOVES = ("put", "pws", "pwsf", "get", "copy")
REDUCTIONS = ("re", "res", "rre", "rres")
PACKETS = ("ppkt", "rppkt", "respkt", "cpkt", "upkt", "repkt", "recpkt", "recspkt")
NAMES = (*SYNCS, *MOVES, *REDUCTIONS, *PACKETS, *MULTIMEM, "pipeline")


class Span(NamedTuple):
    """Chunks of a buffer of a GPU."""

    rank: int
    buffer: str
    """i, o or s."""
    first: int
    size: int


class Channel(NamedTuple):
    """One of the channels from a GPU to a peer: the two ends have the same number."""

    kind: str
    peer: int
    number: int


@dataclass(frozen=True)
class Operation:
    """An operation of a thread block."""

    name: str
    sources: tuple[Span, ...] = ()
    targets: tuple[Span, ...] = ()
    channels: tuple[Channel, ...] = ()
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
    blocks: tuple[tuple[Operation, ...], ...]


@dataclass(frozen=True)
class Plan:
    """An MSCCL++ plan."""

    name: str
    collective: str
    protocol: str
    in_place: bool
    gpus: tuple[PlanGpu, ...]


def read_plan(text: str, file: str) -> Plan:
    """The plan in the JSON file `file`. Raises InputError with place and reason if it is none."""
    root = Node(file, json_files.load(check_text(text, file), file))
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
    return Plan(
        root.at("name").text(),
        root.at("collective").text(),
        root.at("protocol").word(("Simple", "LL")),
        in_place.value,
        tuple(_Gpu(gpu, rank, gpus).read() for rank, gpu in enumerate(gpus)),
    )


def _chunks(gpu: Node) -> dict[str, int]:
    names = {"i": "input_chunks", "o": "output_chunks", "s": "scratch_chunks"}
    return {buffer: gpu.at(name).whole(0, MOST_CHUNKS) for buffer, name in names.items()}


class _Gpu:
    def __init__(self, gpu: Node, rank: int, gpus: list[Node]) -> None:
        self.gpu, self.rank, self.ranks = gpu, rank, len(gpus)
        self.chunks = [_chunks(each) for each in gpus]
        self.channels: dict[str, list[Channel]] = {"memory": [], "port": []}
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

    def _connect(self, kind: str, channel: Node) -> None:
        several = self.channels[kind]
        for node in channel.items("connected_to"):
            peer = node.whole(0, self.ranks - 1)
            number = sum(each.peer == peer for each in several)
            several.append(Channel(kind, peer, number))

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
    def __init__(self, gpu: _Gpu, block: Node) -> None:
        self.gpu = gpu
        self.channels: dict[str, list[Channel]] = {"memory": [], "port": []}
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

    def operations(self, parent: Node) -> list[Operation]:
        """The operations of a thread block, or of a pipeline: those of one round."""
        nodes = parent.items("ops")
        if len(nodes) > MOST_OPERATIONS:
            raise InputError(f"{parent.place} has {len(nodes)} ops: at most {MOST_OPERATIONS}")
        read: list[Operation] = []
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

    def _operation(self, node: Node, name: str) -> Operation:
        kind = node.value.get("channel_type", "none")
        if kind not in ("memory", "port", "none"):
            raise node.at("channel_type").mistake("expected memory, port or none")
        known = self.channels.get(kind, [])
        channels = tuple(known[number] for number in _numbers(node, "channel_ids", len(known)))
        part, parts = 0, 1
        if node.has("tbg_info"):
            parts = node.at("tbg_info").at("tbg_size").whole(1, MOST_SLICES)
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
        return Operation(name, sources, targets, channels, part, parts, tuple(ids), blocks)

    def _span(self, node: Node, kind: str) -> Span:
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
        return Span(rank, buffer, index, size)


def _numbers(node: Node, key: str, count: int) -> list[int]:
    """The numbers in an optional list, each below `count`."""
    return [each.whole(0, count - 1) for each in node.items(key, optional=True)]
