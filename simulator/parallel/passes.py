"""What a device does for an action of a pipeline: tasks on its streams, for a micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from simulator.parallel.blocks import Block, BlockPart
from simulator.parallel.group_times import GroupTimes
from simulator.steps.kinds import AGAIN, BACKWARD, FORWARD, INPUTS, LAUNCH
from simulator.steps.step_graph import Call

STREAMS = (
    *("compute", "tp", "cp", "ep", "data", "experts", "send", "tied"),
    *("gather", "reduce", "replica", "copy", "host"),
)
"""The streams of a device; a lane is a place in it. Shared parameters are copied into the buffer of
a collective, gathered, reduced, and summed over replicas on streams of their own. "host" is the CPU
that launches."""
COMPUTE, TP, CP, EP, DATA, EXPERTS, SEND, TIED = range(8)
GATHERS, REDUCTIONS, REPLICAS, COPIES, HOST = range(8, len(STREAMS))
Rows = tuple[int, ...]


class PassTask(NamedTuple):
    """A task of a device."""

    lane: int
    seconds: float
    kind: int
    """A place in `KINDS`."""
    before: Rows = ()
    """The rows that it waits for, but for its launch. A row of a pass without any waits for what
    the pass waits for."""
    layer: int = -1
    """The block within its stage; -1 for none."""
    launched: int = -1
    """The row of the CPU that launches it, or comes before it on the CPU; -1 for none."""
    call: Call | None = None
    """The collective; None for a computation."""


@dataclass(eq=False)
class Pass:
    """What a device does for an action, row by row: for a forward all blocks of its stage, for a
    backward all blocks from the last one on."""

    stage: Sequence[Block]
    kind: int
    times: GroupTimes
    rows: list[PassTask] = field(default_factory=list)
    tails: Rows = ()
    """The rows with which the pass ends so far."""
    ends: list[Rows] = field(default_factory=list)
    """The rows with which each block ends, in the order in which the blocks run."""
    launched: int = -1
    """The last row of the CPU so far; -1 for none."""
    busy: list[float] = field(default_factory=lambda: [0.0] * len(STREAMS))
    exposed: list[float] = field(default_factory=lambda: [0.0] * len(STREAMS))
    """Seconds of communication beside which nothing is computed, by stream."""
    inside: tuple[Call, ...] = ()
    """The collectives within a single row."""
    stops: bool = False
    """Whether the CPU waits for the device within the pass."""
    late: dict[int, Rows] = field(default_factory=dict)
    """The last hidden collective of each stream, which the pass waits for at its end."""
    excess: float = 0.0
    """Seconds by which hidden collectives take longer than all else of the pass."""

    @property
    def seconds(self) -> float:
        """From the first row to the last one, if the CPU runs ahead."""
        return self.busy[COMPUTE] + sum(self.exposed)

    @property
    def launch(self) -> float:
        """Seconds of the CPU."""
        return self.busy[HOST]

    @property
    def whole(self) -> float:
        """Seconds of the pass if the device and the CPU begin together."""
        if not self.stops:
            return max(self.seconds, self.launch)
        ends, latest = list[float](), dict[int, float]()
        for row in self.rows:
            before = row.before if row.launched < 0 else (*row.before, row.launched)
            begin = max((ends[each] for each in before), default=0.0)
            latest[row.lane] = max(begin, latest.get(row.lane, 0.0)) + row.seconds
            ends.append(latest[row.lane])
        return max(ends)

    @property
    def calls(self) -> list[Call]:
        """The collectives of shared parameters."""
        return []

    def collapsed(self) -> Pass:
        """The pass as a single row, which takes as long as device and CPU need together."""
        row = PassTask(COMPUTE, self.whole, self.kind)
        inside = tuple(row.call for row in self.rows if row.call)
        return replace(self, rows=[row], tails=(0,), ends=[], launched=-1, inside=inside)

    def joined(self) -> Pass:
        """The pass of the second action of a pair: a further row waits for both."""
        row = PassTask(COMPUTE, 0.0, self.rows[0].kind, self.tails)
        return replace(self, rows=[*self.rows, row], tails=(len(self.rows),))

    def written(self) -> Self:
        """The pass with its rows."""
        layers = range(len(self.stage))
        for layer in layers if self.kind == FORWARD else reversed(layers):
            block = self.stage[layer]
            self.begin(layer)
            if self.kind in (BACKWARD, INPUTS):
                self._add(block.again, AGAIN, layer)
            parts = block.forward, block.backward, block.inputs, block.weights
            self._add(parts[self.kind], self.kind, layer)
            self.ends.append(self.tails)
            self.end(layer)
        if not self.tails:
            self.compute(0.0, self.kind, ())
        for lane, rows in self.late.items():
            excess = max(0.0, self.busy[lane] - self.seconds)
            self.exposed[lane] += excess
            self.excess += excess
            self.compute(0.0, self.kind, (*self.tails, *rows))
        self.finish()
        self.ends = [end or self.tails for end in self.ends]
        return self

    def begin(self, layer: int) -> None:
        """Write what comes before a block."""

    def end(self, layer: int) -> None:
        """Write what comes behind a block."""

    def finish(self) -> None:
        """Write what comes behind all blocks."""

    def row(self, row: PassTask) -> int:
        """Add a row; returns its number."""
        self.rows.append(row)
        self.busy[row.lane] += row.seconds
        return len(self.rows) - 1

    def compute(
        self, seconds: float, kind: int, before: Rows, layer: int = -1, launched: int = -1
    ) -> None:
        """Add a computation, with which the pass ends so far."""
        self.tails = (self.row(PassTask(COMPUTE, seconds, kind, before, layer, launched)),)

    def _add(self, parts: Sequence[BlockPart], kind: int, layer: int) -> None:
        stops = any(part.waits for part in parts)
        if stops and self.launched < 0:
            self.launched = self.row(PassTask(HOST, 0.0, LAUNCH, (), layer))
        self.stops |= stops
        for part in parts:
            before, computed, launched, ahead = self.tails, Rows(), -1, self.launched
            if part.launch:
                inputs = before if part.waits else ()
                row = PassTask(HOST, part.launch, LAUNCH, inputs, layer, ahead)
                launched = self.launched = self.row(row)
            if part.seconds:
                launch = ahead if stops else launched
                computes = kind if part.kind < 0 else part.kind
                self.compute(part.seconds, computes, before, layer, launch)
                computed = self.tails
            if not part.group:
                continue
            call = Call(part.group, part.collective, part.nbytes)
            if moved := self.times.seconds(*call[:3]):
                lane = TP if part.group == "etp" else STREAMS.index(part.group)
                waits = before if part.overlaps or not computed else computed
                number = self.row(PassTask(lane, moved, kind, waits, layer, launched, call))
                if part.hidden:
                    self.late[lane] = (number,)
                    continue
                self.tails = (*(computed if part.overlaps else ()), number)
                self.exposed[lane] += moved - (min(moved, part.seconds) if part.overlaps else 0.0)
        if stops:
            self.compute(0.0, kind, self.tails, layer, self.launched)
