"""Passes whose gradients and parameters are shared: one gathers units before they run and reduces
their gradients behind them, another fills the buckets of DDP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from simulator.parallel.passes import (
    COMPUTE,
    COPIES,
    GATHERS,
    HOST,
    REDUCTIONS,
    REPLICAS,
    Pass,
    PassTask,
    Rows,
)
from simulator.parallel.sharding import Sharding, Unit, units
from simulator.steps.kinds import (
    BACKWARD,
    COPY,
    FORWARD,
    GATHER,
    HOOKS,
    INPUTS,
    LAUNCH,
    REDUCE,
    WEIGHTS,
)
from simulator.steps.step_graph import Call
from simulator.training.buckets import Bucket, BucketRules


@dataclass(eq=False, kw_only=True)
class UnitPass(Pass):
    """A pass that gathers and reduces units."""

    sharding: Sharding
    last: bool = True
    """Whether it is the last pass of its stage."""
    gathered: list[Rows] = field(default_factory=list)
    """The rows that gather each unit so far."""
    ready: list[int] = field(default_factory=list)
    """The rows behind which each unit has its parameters."""
    ended: list[Rows] = field(default_factory=list)
    """The rows with which each unit ended, but for the root's."""
    latest: dict[int, int] = field(default_factory=dict)
    """The last row of each stream."""
    reduced: Rows = ()
    """The rows that scatter the gradients of the last unit."""
    done: int = -1
    """The last row that reduces gradients so far; -1 for none."""

    def __post_init__(self) -> None:
        forward, every = self.kind == FORWARD, units(self.stage, self.sharding)
        self.root = [unit for unit in every if unit.root]
        single = [unit for unit in every if not unit.root]
        self.order = every if forward else single[::-1]
        """The units that are gathered. The root's stays gathered behind the forward."""
        self.place = {unit.blocks[0]: n for n, unit in enumerate(self.order) if not unit.root}
        again = self.kind in (BACKWARD, INPUTS) and bool(self.sharding.reshard)
        self.gathers = self.sharding.zero == 3 and (forward or again)
        self.reduces = self.kind in (BACKWARD, WEIGHTS) and (self.sharding.sync or self.last)

    @property
    def calls(self) -> list[Call]:
        """The collectives of shared parameters."""
        gathered = self.order if self.gathers else []
        reduced = [*self.order, *self.root] if self.reduces else []
        calls = [call for unit in gathered for call in self._gathering(unit)]
        return calls + [call for unit in reduced for call in self._reducing(unit)]

    def written(self) -> Self:
        """The pass with its rows."""
        if self.gathers and self.order:
            self._gather(0)
            if self.order[0].root:
                self._enter(0)
        return super().written()

    def begin(self, layer: int) -> None:
        """Write what comes before a block."""
        number = self.place.get(layer)
        if not self.gathers or number is None:
            return
        if number == len(self.gathered):
            self._gather(number)
        self._enter(number)
        if self.kind != FORWARD and number + 1 < len(self.order):
            self._gather(number + 1)

    def end(self, layer: int) -> None:
        """Write what comes behind a block."""
        if layer in self.place:
            self.ended.append(self.tails)
            if self.reduces:
                self._reduce(self.order[self.place[layer]])

    def finish(self) -> None:
        """Write what comes behind all blocks. A pass that reduces gradients ends with that."""
        for unit in self.root if self.reduces else ():
            self._reduce(unit)
        if self.done >= 0:
            before = (*self.tails, self.done)
            self.tails = (self.row(PassTask(COMPUTE, 0.0, REDUCE, before)),)
            self.ends[-1] = self.tails

    def _gathering(self, unit: Unit) -> list[Call]:
        """The collectives that gather a unit."""
        kind = self.sharding.sharing if self.kind == FORWARD else self.sharding.backward
        return [
            Call(kind(group), "all_gather", count * self.sharding.parameter)
            for group, count in unit.elements.items()
        ]

    def _reducing(self, unit: Unit) -> list[Call]:
        """The collectives that reduce the gradients of a unit."""
        sharding, calls = self.sharding, list[Call]()
        for group, count in unit.elements.items():
            nbytes = count * self.sharding.nbytes
            calls.append(Call(sharding.sharing(group), "reduce_scatter", nbytes))
            if replicas := sharding.replicas(group):
                calls.append(Call(replicas, "all_reduce", nbytes / sharding.shard))
        return calls

    def _gather(self, number: int) -> None:
        """Gather a unit. The CPU issues it behind what it has launched."""
        sharding, unit = self.sharding, self.order[number]
        before, layer, launched = Rows(), unit.blocks[0], self.launched
        if sharding.fsdp == 2:
            # Version 2 keeps the buffer of a unit until the unit behind it has been copied out. A
            # backward frees it at once.
            lag = 2 if self.kind == FORWARD else 1
            before = (self.ready[number - lag],) if number >= lag else ()
        elif not unit.root:
            single = number - bool(self.order[0].root)
            freed = min(single - 2, len(self.ended) - 1)
            before = self.ended[freed] if freed >= 0 else ()
            if before and launched >= 0:
                row = PassTask(HOST, 0.0, LAUNCH, before, layer, launched)
                launched = self.launched = self.row(row)
        rows = Rows()
        for call in self._gathering(unit):
            waits = before
            if share := self._copy(2 * call.nbytes / self.times.degrees.size(call.group)):
                waits = (self._in_order(PassTask(COPIES, share, GATHER, before, layer, launched)),)
            rows += (self._collective(GATHERS, GATHER, waits, layer, launched, call),)
        self.gathered.append(rows)

    def _enter(self, number: int) -> None:
        """Copy the parameters of a unit out of the buffer; what follows waits for that."""
        unit = self.order[number]
        seconds = self._copy(2 * unit.parameters * self.sharding.parameter)
        before = (*self.tails, *self.gathered[number])
        row = PassTask(COMPUTE, seconds, GATHER, before, unit.blocks[0], self.launched)
        self.tails = (self.row(row),)
        self.ready += self.tails

    def _reduce(self, unit: Unit) -> None:
        """Reduce the gradients of a unit. Version 2 copies them into a buffer when that of the unit
        before is free."""
        sharding, layer = self.sharding, unit.blocks[0]
        moved = unit.parameters * (sharding.parameter + sharding.nbytes)
        cast = sharding.parameter != sharding.nbytes
        seconds = moved / sharding.bandwidth if cast else self._copy(moved)
        before = (*self.tails, *(self.reduced if sharding.fsdp == 2 else ()))
        self.tails = (self.row(PassTask(COMPUTE, seconds, REDUCE, before, layer, self.launched)),)
        self.reduced = ()
        for call in self._reducing(unit):
            replicas = call.collective == "all_reduce"
            lane = REPLICAS if replicas else REDUCTIONS if sharding.fsdp == 2 else GATHERS
            before = self.reduced[-1:] if replicas else self.tails
            self.done = self._collective(lane, REDUCE, before, layer, self.launched, call)
            self.reduced += () if replicas else (self.done,)

    def _collective(
        self, lane: int, kind: int, before: Rows, layer: int, launched: int, call: Call
    ) -> int:
        """Write a collective; returns its row."""
        seconds = self.times.seconds(*call[:3])
        return self._in_order(PassTask(lane, seconds, kind, before, layer, launched, call))

    def _in_order(self, row: PassTask) -> int:
        """Write a row that waits for the row before on its stream; returns its number."""
        latest = self.latest.get(row.lane)
        if latest is not None and latest not in row.before:
            row = row._replace(before=(*row.before, latest))
        self.latest[row.lane] = self.row(row)
        return self.latest[row.lane]

    def _copy(self, nbytes: float) -> float:
        """Seconds in which so many bytes are read and written; version 1 copies nothing."""
        return nbytes / self.sharding.bandwidth if self.sharding.fsdp == 2 else 0.0


@dataclass(eq=False, kw_only=True)
class BucketPass(Pass):
    """A last backward that copies gradients into the buckets of DDP, while the CPU calls hooks
    between its launches. An all-reduce waits for both."""

    buckets: Sequence[Bucket]
    rules: BucketRules

    def __post_init__(self) -> None:
        self.copies = self.rules.copies_in(self.buckets)
        self.hooks = dict.fromkeys(range(len(self.stage)), 0.0)
        for bucket in self.buckets:
            self.hooks[min(bucket.layers)] += self.rules.hooks(bucket)

    def end(self, layer: int) -> None:
        """Write the copies and the hooks of the buckets that are full behind a block."""
        if seconds := self.copies.get(layer):
            self.tails = (
                self.row(PassTask(COMPUTE, seconds, COPY, self.tails, layer, self.launched)),
            )
        self.ends[-1] = self.tails
        if seconds := self.hooks[layer]:
            self.launched = self.row(PassTask(HOST, seconds, HOOKS, (), layer, self.launched))
            self.ends[-1] += (self.launched,)

    def finish(self) -> None:
        """Let the pass end behind its last hook."""
        if self.launched >= 0:
            before = (*self.tails, self.launched)
            self.tails = self.ends[-1] = (self.row(PassTask(COMPUTE, 0.0, HOOKS, before)),)
