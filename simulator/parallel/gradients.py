"""How the gradients of a stage are reduced, and its parameters updated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from simulator.parallel.blocks import Block
from simulator.parallel.sharding import Sharding, elements
from simulator.steps.step_graph import Call
from topologies.errors import InputError


@dataclass(frozen=True)
class Gradients:
    """What follows the backwards of a step. Raises InputError for a value that makes no sense."""

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

    def __post_init__(self) -> None:
        if self.zero not in range(4):
            raise InputError(f"zero is {self.zero}: 0, 1, 2 or 3")
        for name in ("nbytes", "parameter", "bucket"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}: it is above 0")

    def seconds_of(self, stage: int) -> float:
        """Seconds of the optimizer of a stage."""
        return self.optimizer[stage] if self.optimizer else 0.0


def reductions(stage: Sequence[Block], gradients: Gradients) -> list[tuple[int, Call]]:
    """What reduces the gradients of a stage, unless its backwards have done so: the block, in the
    order of the backward, behind which it starts (-1: behind all), and the collective."""
    if gradients.zero >= 2:
        return []
    collective = "reduce_scatter" if gradients.zero else "all_reduce"
    reduced = []
    for group in ("data", "experts"):
        waiting = 0.0
        for number, block in enumerate(reversed(stage)):
            waiting += elements([block]).get(group, 0.0) * gradients.nbytes
            if gradients.overlap and waiting and waiting >= gradients.bucket:
                reduced.append((number, Call(group, collective, waiting)))
                waiting = 0.0
        if waiting:
            end = len(stage) - 1 if gradients.overlap else -1
            reduced.append((end, Call(group, collective, waiting)))
    return sorted(reduced, key=lambda each: each[0])


def gathers(stage: Sequence[Block], gradients: Gradients, sharding: Sharding) -> list[Call]:
    """What gathers the parameters of a stage behind the optimizer."""
    if gradients.zero not in (1, 2):
        return []
    return [
        Call(sharding.sharing(group), "all_gather", count * gradients.parameter)
        for group, count in elements(stage).items()
    ]
