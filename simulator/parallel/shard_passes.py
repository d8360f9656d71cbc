"""What a pass does for shared parameters: it gathers units before they run, and reduces their
gradients behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simulator.parallel.blocks import Block
from simulator.parallel.gradients import Gradients
from simulator.parallel.passes import (
    COMPUTE,
    COPIES,
    GATHERS,
    HOST,
    REDUCTIONS,
    REPLICAS,
    Row,
)
from simulator.parallel.sharding import Sharding, Unit, units
from simulator.steps.kinds import BACKWARD, FORWARD, GATHER, INPUTS, LAUNCH, REDUCE, WEIGHTS
from simulator.steps.step_graph import Call

if TYPE_CHECKING:
    from simulator.parallel.passes import Writer

Rows = tuple[int, ...]


class UnitRows:
    """Writes the rows of units into a pass."""

    def __init__(
        self,
        stage: Sequence[Block],
        kind: int,
        sharding: Sharding,
        gradients: Gradients,
        *,
        last: bool = True,
    ) -> None:
        self.sharding, self.gradients, self.forward = sharding, gradients, kind == FORWARD
        order = units(stage, sharding)
        self.root = next((unit for unit in order if unit.root), None)
        if not self.forward:
            order = [unit for unit in reversed(order) if not unit.root]
        self.begins = {unit.blocks[0]: number for number, unit in enumerate(order)}
        self.ends = {unit.blocks[0]: unit for unit in order if not unit.root}
        again = kind in (BACKWARD, INPUTS) and bool(sharding.reshard)
        gathers = gradients.zero == 3 and (self.forward or again)
        self.gathers = order if gathers else []
        self.reduces = bool(order or self.root) and kind in (BACKWARD, WEIGHTS)
        self.reduces &= sharding.sync or last
        self.gathered: list[Rows] = []
        """The rows that gather each unit so far."""
        self.ready: list[int] = []
        """The rows behind which each unit has its parameters."""
        self.ended: list[Rows] = []
        """The rows with which each unit ended, but for the root's."""
        self.latest: dict[int, int] = {}
        """The last row of each stream."""
        self.reduced: Rows = ()
        """The reductions of the last unit."""
        self.last = -1
        """The row behind which all gradients are reduced."""

    def begin(self, writer: Writer, layer: int) -> None:
        """Write what comes before a block."""
        if not self.gathers:
            return
        if not self.gathered:
            self._gather(writer, 0)
            if self.gathers[0].root:
                self._enter(writer, 0)
        number = self.begins.get(layer)
        if number is None or number < len(self.ready):
            return
        if number == len(self.gathered):
            self._gather(writer, number)
        self._enter(writer, number)
        ahead = not self.forward and (self.sharding.prefetch or self.sharding.fsdp == 2)
        if ahead and number + 1 < len(self.gathers):
            self._gather(writer, number + 1)

    def end(self, writer: Writer, layer: int) -> None:
        """Write what comes behind a block."""
        if layer in self.ends:
            self.ended.append(writer.tails)
            if self.reduces:
                self._reduce(writer, self.ends[layer])

    def finish(self, writer: Writer) -> None:
        """Write what comes behind all blocks. A pass that reduces gradients ends with that."""
        if self.reduces and self.root:
            self._reduce(writer, self.root)
        if self.last >= 0:
            before = (*writer.tails, self.last)
            writer.tails = (writer.row(Row(COMPUTE, 0.0, before, -1, REDUCE, -1)),)

    @property
    def calls(self) -> list[Call]:
        """All collectives of the pass."""
        gathered = [call for unit in self.gathers for call in self._gathering(unit)]
        reduced = [*self.ends.values(), *filter(None, [self.root])] if self.reduces else []
        return gathered + [call for unit in reduced for call in self._reducing(unit)]

    def _gathering(self, unit: Unit) -> list[Call]:
        """The collectives that gather a unit."""
        kind = self.sharding.sharing if self.forward else self.sharding.backward
        return [
            Call(kind(group), "all_gather", count * self.gradients.parameter)
            for group, count in unit.elements
        ]

    def _reducing(self, unit: Unit) -> list[Call]:
        """The collectives that reduce the gradients of a unit."""
        sharding, calls = self.sharding, list[Call]()
        for group, count in unit.elements:
            nbytes = count * self.gradients.nbytes
            calls.append(Call(sharding.sharing(group), "reduce_scatter", nbytes))
            if replicas := sharding.replicas(group):
                calls.append(Call(replicas, "all_reduce", nbytes / sharding.shard))
        return calls

    def _lane(self, call: Call) -> int:
        """The stream of a collective."""
        if call.collective == "reduce_scatter" and self.sharding.fsdp == 2:
            return REDUCTIONS
        return REPLICAS if call.collective == "all_reduce" else GATHERS

    def _gather(self, writer: Writer, number: int) -> None:
        """Gather a unit. The CPU issues it behind what it has launched."""
        sharding, unit = self.sharding, self.gathers[number]
        # Version 2 keeps the buffer of a unit until the unit behind it has been copied out. A
        # backward frees it at once.
        lag = 2 if self.forward else 1
        before: Rows = ()
        launched = writer.launched
        if sharding.fsdp == 2:
            before = (self.ready[number - lag],) if number >= lag else ()
        elif sharding.limit and not unit.root:
            single = number - bool(self.gathers[0].root)
            freed = min(single - sharding.limit, len(self.ended) - 1)
            before = self.ended[freed] if freed >= 0 else ()
            if before and writer.launches:
                waits = (*before, *writer.launches)
                launched = writer.row(Row(HOST, 0.0, waits, -1, LAUNCH, unit.blocks[0]))
                writer.launches = (launched,)
        rows: Rows = ()
        for call in self._gathering(unit):
            waits = before
            if share := self._copy(2 * call.nbytes / writer.times.degrees.size(call.group)):
                row = Row(COPIES, share, before, launched, GATHER, unit.blocks[0])
                waits = (self._in_order(writer, row),)
            rows += (self._collective(writer, unit, call, waits, launched),)
        self.gathered.append(rows)

    def _enter(self, writer: Writer, number: int) -> None:
        """Copy the parameters of a unit out of the buffer; what follows waits for that."""
        unit = self.gathers[number]
        seconds = self._copy(2 * unit.parameters * self.gradients.parameter)
        before = (*writer.tails, *self.gathered[number])
        row = Row(COMPUTE, seconds, before, writer.launched, GATHER, unit.blocks[0])
        writer.tails = (writer.row(row),)
        self.ready += writer.tails

    def _reduce(self, writer: Writer, unit: Unit) -> None:
        """Reduce the gradients of a unit. Version 2 copies them into a buffer when that of the unit
        before is free."""
        gradients, sharding = self.gradients, self.sharding
        moved = unit.parameters * (gradients.parameter + gradients.nbytes)
        cast = gradients.parameter != gradients.nbytes
        seconds = moved / sharding.bandwidth if cast else self._copy(moved)
        waits = self.reduced if sharding.fsdp == 2 else ()
        before = (*writer.tails, *waits)
        row = Row(COMPUTE, seconds, before, writer.launched, REDUCE, unit.blocks[0])
        writer.tails = (writer.row(row),)
        self.reduced = ()
        for call in self._reducing(unit):
            replicas = call.collective == "all_reduce"
            before = self.reduced[-1:] if replicas else writer.tails
            self.last = self._collective(writer, unit, call, before, writer.launched)
            if not replicas:
                self.reduced += (self.last,)

    def _collective(
        self, writer: Writer, unit: Unit, call: Call, before: Rows, launched: int
    ) -> int:
        """Write a collective; returns its row."""
        seconds = writer.times.seconds(call.group, call.collective, call.nbytes)
        kind = GATHER if call.collective == "all_gather" else REDUCE
        row = Row(self._lane(call), seconds, before, launched, kind, unit.blocks[0], call)
        return self._in_order(writer, row)

    def _in_order(self, writer: Writer, row: Row) -> int:
        """Write a row that waits for the row before on its stream; returns it."""
        latest = self.latest.get(row.lane)
        if latest is not None and latest not in row.before:
            row = row._replace(before=(*row.before, latest))
        self.latest[row.lane] = writer.row(row)
        return self.latest[row.lane]

    def _copy(self, nbytes: float) -> float:
        """Seconds in which so many bytes are read and written; version 1 copies nothing."""
        return nbytes / self.sharding.bandwidth if self.sharding.fsdp == 2 else 0.0
