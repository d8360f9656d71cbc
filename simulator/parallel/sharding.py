"""How gradients are reduced, parameters updated, and both shared out among the ranks of a
data-parallel group: the stages of ZeRO, and FSDP (fully sharded data parallel) of PyTorch.

From stage 2 on, the rules are those of torch/distributed/fsdp in PyTorch. A block is a unit: one
collective gathers its parameters, and one reduces its gradients. The root's unit has what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from simulator.parallel.blocks import Block
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
    bucket: float = inf
    """Bytes of gradients that are reduced together, if they overlap."""
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

    def __post_init__(self) -> None:
        if self.zero not in range(4):
            raise InputError(f"zero is {self.zero}: 0, 1, 2 or 3")
        if self.fsdp not in (1, 2):
            raise InputError(f"fsdp is {self.fsdp}: 1 or 2")
        for name in ("shard", "reshard"):
            value = getattr(self, name)
            if int(value) != value or value < 0:
                raise InputError(f"{name} is {value}: a whole number of 0 or more")
        for name in ("nbytes", "parameter", "bucket", "bandwidth"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}: it is above 0")

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


class Unit(NamedTuple):
    """A unit: blocks whose parameters are gathered together."""

    blocks: tuple[int, ...]
    """Their places in the stage."""
    elements: Mapping[str, float]
    """Elements of parameters by the group that shares them: "data", and "experts" if there are."""
    root: bool
    """Whether this is the root's unit: it stays gathered behind the forward."""

    @property
    def parameters(self) -> float:
        """Elements of all groups."""
        return sum(self.elements.values())


def units(stage: Sequence[Block], sharding: Sharding) -> list[Unit]:
    """The units of a stage in the order of the forward. The root's is the first one."""
    root = [place for place, block in enumerate(stage) if block.name in sharding.root]
    single = [(place,) for place in range(len(stage)) if place not in root]
    return [
        Unit(blocks, counts, blocks == tuple(root))
        for blocks in (tuple(root), *single)
        if (counts := elements([stage[place] for place in blocks]))
    ]


def elements(blocks: Sequence[Block]) -> dict[str, float]:
    """Elements of parameters by the group that shares them: "data", and "experts" if there are."""
    counts = {
        "data": sum(block.parameters for block in blocks),
        "experts": sum(block.expert_parameters for block in blocks),
    }
    return {group: count for group, count in counts.items() if count}


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
    for group in ("data", "experts"):
        waiting = 0.0
        for number, block in enumerate(reversed(stage)):
            waiting += elements([block]).get(group, 0.0) * sharding.nbytes
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


def copies_out(stage: Sequence[Block], sharding: Sharding) -> list[float]:
    """Seconds to copy each bucket of DDP back behind the backwards; empty if nothing is copied."""
    return sharding.rules.copies_out(buckets(stage, sharding)) if sharding.rules else []


def gathers(stage: Sequence[Block], sharding: Sharding) -> list[Call]:
    """What gathers the parameters of a stage behind the optimizer."""
    if sharding.zero not in (1, 2):
        return []
    return [
        Call(sharding.sharing(group), "all_gather", count * sharding.parameter)
        for group, count in elements(stage).items()
    ]
