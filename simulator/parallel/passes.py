"""What a device does for an action of a pipeline: operations on its streams, for a micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.parallel.blocks import Block, Part
from simulator.parallel.group_times import GroupTimes
from simulator.steps.kinds import AGAIN, BACKWARD, FORWARD, INPUTS, LAUNCH, WEIGHTS
from simulator.steps.step_graph import Call, padded
from topologies.topology import Floats, Ints

if TYPE_CHECKING:
    from simulator.parallel.shard_passes import UnitRows

STREAMS = (
    *("compute", "tp", "cp", "ep", "data", "experts", "send", "tied"),
    *("gather", "reduce", "replica", "copy", "host"),
)
"""The streams of a device; a lane is a place in it. Shared parameters are copied into the buffer of
a collective, gathered, reduced, and summed over replicas on streams of their own. "host" is the CPU
that launches."""
COMPUTE, TP, CP, EP, DATA, EXPERTS, SEND, TIED = range(8)
GATHERS, REDUCTIONS, REPLICAS, COPIES, HOST = range(8, len(STREAMS))
WIDTH = 7
"""Operations that an operation of a pass waits for, at most."""


class Row(NamedTuple):
    """An operation of a pass."""

    lane: int
    seconds: float
    before: tuple[int, ...]
    """The rows of the pass that it waits for, but for its launch. A row of the device without any
    waits for what the pass waits for."""
    launched: int
    """The row of the CPU that launches it; -1 for none."""
    kind: int
    """A place in `KINDS`."""
    layer: int
    """The block within its stage."""
    call: Call | None = None
    """The collective; None for a computation."""


@dataclass(frozen=True, eq=False)
class Pass:
    """The operations for an action, and what they amount to."""

    rows: tuple[Row, ...]
    tails: tuple[int, ...]
    """The rows with which the pass ends."""
    ends: tuple[tuple[int, ...], ...]
    """The rows with which each block ends, in the order in which the blocks run."""
    busy: Floats
    """Seconds of operations on each stream."""
    exposed: Floats
    """Seconds of communication beside which nothing is computed, by stream."""
    launch: float
    """Seconds of the CPU."""

    @property
    def seconds(self) -> float:
        """From the first operation to the last one, if the CPU runs ahead."""
        return float(self.busy[COMPUTE] + self.exposed.sum())

    def collapsed(self, kind: int) -> Pass:
        """The pass as a single operation. Where launches take longer than the device, it takes as
        long as they do."""
        row = Row(COMPUTE, max(self.seconds, self.launch), (), -1, kind, -1)
        return Pass((row,), (0,), (), self.busy, self.exposed, self.launch)

    @cached_property
    def columns(self) -> dict[str, Floats | Ints]:
        """The columns of rows but for their calls, by name."""
        names = ("lane", "seconds", "kind", "layer")
        return {name: np.array([getattr(row, name) for row in self.rows]) for name in names}

    @cached_property
    def before(self) -> Ints:
        """The rows that each row waits for, shape (rows, 7); -1 is none. The last column has the
        rows of the CPU."""
        before = padded([row.before for row in self.rows], WIDTH)
        before[:, -1] = [row.launched for row in self.rows]
        return before

    @cached_property
    def enters(self) -> Ints:
        """The rows that wait for what the pass waits for."""
        rows = [n for n, row in enumerate(self.rows) if not row.before and row.lane != HOST]
        return np.array(rows, dtype=np.int32)

    @cached_property
    def launches(self) -> tuple[int, int]:
        """The first and the last row of the CPU; -1 if there is none."""
        rows = [number for number, row in enumerate(self.rows) if row.lane == HOST]
        return (rows[0], rows[-1]) if rows else (-1, -1)


def pass_of(
    stage: Sequence[Block], kind: int, times: GroupTimes, units: UnitRows | None = None
) -> Pass:
    """What a device does for an action of a `kind` of a pipeline: for a forward all blocks of its
    stage, for a backward all blocks from the last one on, and what `units` of shared parameters
    do."""
    writer = Writer(times)
    numbers = range(len(stage)) if kind == FORWARD else reversed(range(len(stage)))
    for layer in numbers:
        block = stage[layer]
        if units:
            units.begin(writer, layer)
        if kind in (BACKWARD, INPUTS):
            writer.add(block.again, AGAIN, layer)
        writer.add(_parts(block, kind), kind, layer)
        writer.ends.append(writer.tails)
        if units:
            units.end(writer, layer)
    if not writer.tails:
        writer.add((Part(),), kind, -1)
    if units:
        units.finish(writer)
        writer.ends[-1] = writer.tails
    return Pass(
        tuple(writer.rows),
        writer.tails,
        tuple(end or writer.tails for end in writer.ends),
        writer.busy,
        writer.exposed,
        float(writer.busy[HOST]),
    )


def _parts(block: Block, kind: int) -> tuple[Part, ...]:
    return {
        FORWARD: block.forward,
        BACKWARD: block.backward,
        INPUTS: block.inputs,
        WEIGHTS: block.weights,
    }[kind]


class Writer:
    """Writes the rows of a pass."""

    def __init__(self, times: GroupTimes) -> None:
        self.times = times
        self.rows: list[Row] = []
        self.tails: tuple[int, ...] = ()
        self.launches: tuple[int, ...] = ()
        """The last row of the CPU."""
        self.ends: list[tuple[int, ...]] = []
        self.busy, self.exposed = np.zeros(len(STREAMS)), np.zeros(len(STREAMS))

    def add(self, parts: Sequence[Part], kind: int, layer: int) -> None:
        """The parts, each behind the one before."""
        for part in parts:
            self._part(part, kind, layer)

    def _part(self, part: Part, kind: int, layer: int) -> None:
        before, moved, launched = self.tails, 0.0, -1
        if part.group:
            moved = self.times.seconds(part.group, part.collective, part.nbytes)
        if part.launch:
            launched = self.row(Row(HOST, part.launch, self.launches, -1, LAUNCH, layer))
            self.launches = (launched,)
        computed: tuple[int, ...] = ()
        if part.seconds or layer < 0:
            row = Row(COMPUTE, part.seconds, before, launched, kind, layer)
            computed = self.tails = (self.row(row),)
        if moved:
            lane, call = STREAMS.index(part.group), Call(part.group, part.collective, part.nbytes)
            waits = before if part.overlaps or not computed else computed
            row = Row(lane, moved, waits, launched, kind, layer, call)
            self.tails = (*(computed if part.overlaps else ()), self.row(row))
            self.exposed[lane] += moved - (min(moved, part.seconds) if part.overlaps else 0.0)

    @property
    def launched(self) -> int:
        """The last row of the CPU; -1 for none."""
        return self.launches[0] if self.launches else -1

    def row(self, row: Row) -> int:
        """Add a row; returns its number."""
        self.rows.append(row)
        self.busy[row.lane] += row.seconds
        return len(self.rows) - 1
