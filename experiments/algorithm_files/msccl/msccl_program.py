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


class Flag(NamedTuple):
    """A step of another thread block of the same GPU."""

    block: int
    step: int


@dataclass(frozen=True)
class Step:
    """A step of a thread block; nops are parts of the step after them."""

    kind: str
    source: Chunks
    target: Chunks
    count: int
    waits: tuple[Flag, ...] = ()
    """The steps that it waits for."""
    flag: bool = False
    """Whether it raises a flag for others."""
    number: int = 0
    """Its number in the file, nops included."""
    line: int = 0
    """Its line in the file."""


@dataclass(frozen=True)
class Block:
    """A thread block: its steps run in order."""

    send: int
    """The peer to which it sends; -1 for none."""
    receive: int
    """The peer from which it receives; -1 for none."""
    channel: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Gpu:
    """The program of a GPU."""

    inputs: int
    """Chunks of its input."""
    outputs: int
    """Chunks of its output."""
    scratch: int
    """Chunks of its scratch."""
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Program:
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

    def canonical(self) -> tuple[object, ...]:
        """The same for all files that say the same: without names, sizes, lines, nops, and the
        numbers of thread blocks and steps.

        Thread blocks are numbered by channel, peers and steps.
        """
        return (
            self.collective,
            self.chunks,
            self.in_place,
            tuple(_canonical(gpu) for gpu in self.gpus),
        )


def _canonical(gpu: Gpu) -> tuple[object, ...]:
    order = sorted(range(len(gpu.blocks)), key=lambda number: _key(gpu.blocks[number]))
    rank = {number: place for place, number in enumerate(order)}
    places = [
        {step.number: place for place, step in enumerate(block.steps)} for block in gpu.blocks
    ]
    blocks = tuple(
        (
            gpu.blocks[number].send,
            gpu.blocks[number].receive,
            gpu.blocks[number].channel,
            tuple(
                (
                    step.kind,
                    step.source if step.kind in ("s", "cpy", *REDUCES) else None,
                    None if step.kind in ("s", "rrs") else step.target,
                    step.count,
                    tuple(
                        sorted(
                            (rank[flag.block], places[flag.block][flag.step]) for flag in step.waits
                        )
                    ),
                    step.flag,
                )
                for step in gpu.blocks[number].steps
            ),
        )
        for number in order
    )
    return gpu.inputs, gpu.outputs, gpu.scratch, blocks


def _key(block: Block) -> tuple[object, ...]:
    steps = tuple((step.kind, step.source, step.target, step.count) for step in block.steps)
    return block.channel, block.send, block.receive, steps
