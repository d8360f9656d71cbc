"""What an MSCCL file says: thread blocks of GPUs, and their steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

RECEIVES = ("r", "rcs", "rrs", "rrc", "rrcs")
"""Steps that receive."""
SENDS = ("s", "rcs", "rrs", "rrcs")
"""Steps that send."""
REDUCES = ("rrs", "rrc", "rrcs", "re")
"""Steps that add."""
KINDS = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop")
"""The types of a step."""
MOST_STEPS = 256
"""Steps of a thread block."""
MOST_COUNT = 71
"""Chunks of a step."""
MOST_BLOCKS = 216
"""Thread blocks of a GPU."""
MOST_CHANNELS = 32
"""Channels of a program."""
BLOCKS_OF_CHANNEL = 32
"""Thread blocks of a channel that send, or that receive."""


class Chunks(NamedTuple):
    """The first of some chunks in a buffer."""

    buffer: str
    """i, o or s: input, output or scratch."""
    offset: int


@dataclass(frozen=True)
class BlockStep:
    """A step of a thread block; nops are parts of the step after them."""

    kind: str
    source: Chunks
    target: Chunks
    count: int
    waits: tuple[tuple[int, int], ...] = ()
    """The steps that it waits for: thread blocks of its GPU, and numbers of steps."""
    flag: bool = False
    """Whether it raises a flag for others."""
    number: int = 0
    """Its number in the file, nops included."""
    line: int = 0
    """Its line in the file."""


@dataclass(frozen=True)
class ThreadBlock:
    """A thread block: its steps run in order."""

    send: int
    """The peer to which it sends; -1 for none."""
    receive: int
    """The peer from which it receives; -1 for none."""
    channel: int
    steps: tuple[BlockStep, ...]


@dataclass(frozen=True)
class Gpu:
    """The program of a GPU."""

    inputs: int
    """Chunks of its input."""
    outputs: int
    """Chunks of its output."""
    scratch: int
    """Chunks of its scratch."""
    blocks: tuple[ThreadBlock, ...]


@dataclass(frozen=True)
class MscclProgram:
    """An MSCCL file."""

    name: str
    collective: str
    """As MSCCL spells it, like allreduce."""
    protocol: str
    chunks: int
    """The chunks of V."""
    channels: int
    in_place: bool
    gpus: tuple[Gpu, ...]
    least: int = 0
    most: int = 0
    """The bytes for which it is made."""

    @property
    def steps(self) -> int:
        """The steps of all GPUs."""
        return sum(len(block.steps) for gpu in self.gpus for block in gpu.blocks)
