"""How gradients are reduced, parameters updated, and both shared out among the ranks of a
data-parallel group: the stages of ZeRO, and FSDP (fully sharded data parallel) of PyTorch.

From stage 2 on, the rules are those of torch/distributed/fsdp in PyTorch. A block is a unit: one
collective gathers its parameters, and one reduces its gradients. The root's unit has what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Self

from simulator.parallel.blocks import Block, Unit, elements, units
from simulator.parallel.passes import (
    COPIES,
    GATHERS,
    HOST,
    REDUCTIONS,
    REPLICAS,
    Pass,
    PassTask,
    Rows,
)
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
from simulator.training.buckets import Bucket, BucketRules, cut
from topologies.errors import InputError


@dataclass(frozen=True)
class Sharding:
    """How gradients are reduced, and parameters updated and shared out. Raises InputError for a
    value that makes no sense."""

    nbytes: float = 4.0
    """Bytes of an element of a gradient."""
    parameter: float = 2.0
    """Bytes of an element of a parameter."""
    zero: int = 0
    """The stage of ZeRO. 1: the ranks of a group share the optimizer. Gradients are reduced and
    scattered, and parameters gathered behind the optimizer. 2: they share the gradients too, which
    are scattered behind each unit of a backward. 3: they share the parameters too, which are
    gathered unit by unit. 0: gradients are all-reduced."""
    overlap: bool = False
    """Whether gradients are reduced beside the last micro-batch's backward."""
    ahead: bool = False
    """With stage 1: whether parameters are gathered beside the first forward of the next step."""
    bucket: float = inf
    """Bytes of gradients that are reduced together, if they overlap. Their parameters are gathered
    together, too, if they are ahead."""
    optimizer: tuple[float, ...] = ()
    """Seconds of the optimizer of each stage; empty for none."""
    tied: float = 0.0
    """Bytes of the embedding's gradients, if the first and the last stage share it."""
    reshard: bool | int = True
    """Whether parameters are freed behind the forward, and gathered again for the backward. False
    keeps them until the backward ends. A number n frees all but a share of them in each run of n
    ranks, so that the backward gathers among n ranks alone."""
    shard: int = 0
    """The ranks that share the parameters: runs of so many ranks of a data-parallel group. The
    gradients are summed across the runs (hybrid sharding). 0: the whole group."""
    sync: bool = True
    """Whether gradients are reduced behind each micro-batch. Otherwise they are added up, and
    reduced behind the last one."""
    fsdp: int = 2
    """The version of FSDP. Version 1 gathers and reduces on one stream, in place. Its CPU waits
    while two units are gathered and not yet freed."""
    bandwidth: float = inf
    """Bytes/s at which FSDP 2 copies parameters and gradients into and out of the buffers of
    collectives: each byte is read once and written once."""
    root: tuple[str, ...] = ("embedding", "head")
    """The names of the blocks whose parameters are in the root's unit."""
    ddp: BucketRules | None = None
    """With stage 0: what buckets cost if DistributedDataParallel of PyTorch reduces the gradients;
    None: another library does."""
    gathered: float = 0.0
    """Bytes of an element of a parameter that is gathered; 0: as many as `parameter`."""

    def __post_init__(self) -> None:
        if self.zero not in range(4):
            raise InputError(f"zero is {self.zero}: 0, 1, 2 or 3")
        if self.ahead and self.zero != 1:
            raise InputError(f"parameters are gathered ahead with zero=1, not {self.zero}")
        if self.fsdp not in (1, 2):
            raise InputError(f"fsdp is {self.fsdp}: 1 or 2")

    @property
    def element(self) -> float:
        """Bytes of an element of a parameter that is gathered."""
        return self.gathered or self.parameter

    @property
    def rules(self) -> BucketRules | None:
        """What the buckets of DDP cost; None if there are none."""
        return None if self.zero else self.ddp

    def seconds_of(self, stage: int) -> float:
        """Seconds of the optimizer of a stage."""
        return self.optimizer[stage] if self.optimizer else 0.0

    def sharing(self, group: str) -> str:
        """The kind of group that shares the parameters: `group`, or runs of it."""
        return f"{group}/{self.shard}" if self.shard else group

    def replicas(self, group: str) -> str:
        """The kind of group of ranks that hold the same share; empty for none."""
        return f"{group}%{self.shard}" if self.shard else ""

    def backward(self, group: str) -> str:
        """The kind of group in which a backward gathers parameters; empty if it gathers none."""
        if self.reshard is True:
            return self.sharing(group)
        return f"{group}/{self.reshard}" if self.reshard else ""

    def gathering(
        self, elements: Mapping[str, float], kind: Callable[[str], str] = str
    ) -> list[Call]:
        """What gathers so many elements of parameters of each group, in its `kind` of groups."""
        return [
            Call(kind(group), "all_gather", count * self.element)
            for group, count in elements.items()
        ]

    def check(self, group: str, size: int) -> None:
        """Raise InputError unless groups of a kind and size can be cut in runs."""
        if self.shard and size % self.shard:
            raise InputError(
                f"shard is {self.shard}: take a divisor of the {size} ranks of a {group} group"
            )
        shared = self.shard or size
        if self.reshard is not True and self.reshard and shared % self.reshard:
            raise InputError(
                f"reshard is {self.reshard}: yes, no, or a divisor of the {shared} ranks that "
                f"share the parameters"
            )


def reductions(stage: Sequence[Block], sharding: Sharding) -> list[tuple[int, Call]]:
    """What reduces the gradients of a stage, unless its backwards have done so: the block, in the
    order of the backward, behind which it starts (-1: behind all), and the collective."""
    if sharding.zero >= 2:
        return []
    if sharding.rules:
        last = len(stage) - 1
        return [
            (
                last - min(each.layers) if sharding.overlap else -1,
                Call("data", "all_reduce", each.nbytes),
            )
            for each in buckets(stage, sharding)
        ]
    collective = "reduce_scatter" if sharding.zero else "all_reduce"
    reduced = []
    for group, name in (("data", "parameters"), ("experts", "expert_parameters")):
        waiting = 0.0
        for number, block in enumerate(reversed(stage)):
            waiting += getattr(block, name) * sharding.nbytes
            if sharding.overlap and waiting and waiting >= sharding.bucket:
                reduced.append((number, Call(group, collective, waiting)))
                waiting = 0.0
        if waiting:
            end = len(stage) - 1 if sharding.overlap else -1
            reduced.append((end, Call(group, collective, waiting)))
    return sorted(reduced, key=lambda each: each[0])


def buckets(stage: Sequence[Block], sharding: Sharding) -> list[Bucket]:
    """The buckets of DDP in the order in which they fill. A layer of a bucket is the place of a
    block in the stage."""
    gradients = (
        (place, elements * sharding.nbytes)
        for place, block in reversed(list(enumerate(stage)))
        for elements in block.tensors or (block.parameters + block.expert_parameters,)
    )
    return cut(gradients, sharding.bucket)


def gathers(stage: Sequence[Block], sharding: Sharding) -> list[Call]:
    """What gathers the parameters of a stage behind the optimizer."""
    if sharding.zero not in (1, 2) or sharding.ahead:
        return []
    return sharding.gathering(elements(stage), sharding.sharing)


@dataclass(eq=False, kw_only=True)
class UnitPass(Pass):
    """A pass that gathers and reduces units."""

    sharding: Sharding
    last: bool = True
    """Whether it is the last pass of its stage."""

    def __post_init__(self) -> None:
        # So far: the rows that gather each unit, those behind which each unit has its parameters,
        # and those with which each unit ended, but for the root's.
        self.gathered, self.ready, self.ended = list[Rows](), list[int](), list[Rows]()
        # The last row of each stream.
        self.latest = dict[int, int]()
        # The rows that scatter the gradients of the last unit, and the last one that reduces
        # gradients; -1 for none.
        self.reduced, self.done = Rows(), -1
        forward, every = self.kind == FORWARD, units(self.stage, self.sharding.root)
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
        gathered = self.order if self.gathers else []
        reduced = [*self.order, *self.root] if self.reduces else []
        calls = [call for unit in gathered for call in self._gathering(unit)]
        return calls + [call for unit in reduced for call in self._reducing(unit)]

    def written(self) -> Self:
        if self.gathers and self.order:
            self._gather(0)
            if self.order[0].root:
                self._enter(0)
        return super().written()

    def begin(self, layer: int) -> None:
        number = self.place.get(layer)
        if not self.gathers or number is None:
            return
        if number == len(self.gathered):
            self._gather(number)
        self._enter(number)
        if self.kind != FORWARD and number + 1 < len(self.order):
            self._gather(number + 1)

    def end(self, layer: int) -> None:
        if layer in self.place:
            self.ended.append(self.tails)
            if self.reduces:
                self._reduce(self.order[self.place[layer]])

    def finish(self) -> None:
        for unit in self.root if self.reduces else ():
            self._reduce(unit)
        if self.done >= 0:
            self.compute(0.0, REDUCE, (*self.tails, self.done))
            self.ends[-1] = self.tails

    def _gathering(self, unit: Unit) -> list[Call]:
        kind = self.sharding.sharing if self.kind == FORWARD else self.sharding.backward
        return self.sharding.gathering(unit.elements, kind)

    def _reducing(self, unit: Unit) -> list[Call]:
        sharding, calls = self.sharding, list[Call]()
        for group, count in unit.trainable.items():
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
            waits, seconds = before, self.times.seconds(*call[:3])
            if share := self._copy(2 * call.nbytes / self.times.degrees.size(call.group)):
                waits = (self._in_order(PassTask(COPIES, share, GATHER, before, layer, launched)),)
            row = PassTask(GATHERS, seconds, GATHER, waits, layer, launched, call)
            rows += (self._in_order(row),)
        self.gathered.append(rows)

    def _enter(self, number: int) -> None:
        """Copy the parameters of a unit out of the buffer; what follows waits for that."""
        unit = self.order[number]
        seconds = self._copy(2 * unit.parameters * self.sharding.element)
        before = (*self.tails, *self.gathered[number])
        self.compute(seconds, GATHER, before, unit.blocks[0], self.launched)
        self.ready += self.tails

    def _reduce(self, unit: Unit) -> None:
        """Reduce the gradients of a unit. Version 2 copies them into a buffer when that of the unit
        before is free."""
        sharding, layer = self.sharding, unit.blocks[0]
        if not unit.trainable:
            return
        moved = unit.gradients * (sharding.parameter + sharding.nbytes)
        cast = sharding.parameter != sharding.nbytes
        seconds = moved / sharding.bandwidth if cast else self._copy(moved)
        before = (*self.tails, *(self.reduced if sharding.fsdp == 2 else ()))
        self.compute(seconds, REDUCE, before, layer, self.launched)
        self.reduced = ()
        for call in self._reducing(unit):
            replicas = call.collective == "all_reduce"
            lane = REPLICAS if replicas else REDUCTIONS if sharding.fsdp == 2 else GATHERS
            before = self.reduced[-1:] if replicas else self.tails
            moved = self.times.seconds(*call[:3])
            row = PassTask(lane, moved, REDUCE, before, layer, self.launched, call)
            self.done = self._in_order(row)
            self.reduced += () if replicas else (self.done,)

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
        if seconds := self.copies.get(layer):
            self.compute(seconds, COPY, self.tails, layer, self.launched)
        self.ends[-1] = self.tails
        if seconds := self.hooks[layer]:
            self.launched = self.row(PassTask(HOST, seconds, HOOKS, (), layer, self.launched))
            self.ends[-1] += (self.launched,)

    def finish(self) -> None:
        if self.launched >= 0:
            self.compute(0.0, HOOKS, (*self.tails, self.launched))
            self.ends[-1] = self.tails
