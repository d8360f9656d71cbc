"""Blocks whose parameters are gathered together, and the elements that ranks share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from simulator.parallel.blocks import Block


class Unit(NamedTuple):
    """A unit: blocks whose parameters are gathered together."""

    blocks: tuple[int, ...]
    """Their places in the stage."""
    elements: Mapping[str, float]
    """Elements of parameters by the group that shares them: "data", and "experts" if there are."""
    root: bool
    """Whether this is the root's unit: it stays gathered behind the forward."""
    trainable: Mapping[str, float]
    """Those of the elements that have gradients."""

    @property
    def parameters(self) -> float:
        """Elements of all groups."""
        return sum(self.elements.values())

    @property
    def gradients(self) -> float:
        """Elements of all groups that have gradients."""
        return sum(self.trainable.values())


def units(stage: Sequence[Block], names: Sequence[str]) -> list[Unit]:
    """The units of a stage in the order of the forward. The first one is the root's, which has the
    blocks with `names`."""
    root = [place for place, block in enumerate(stage) if block.name in names]
    single = [(place,) for place in range(len(stage)) if place not in root]
    made, known = list[Unit](), dict[tuple[int, ...], Unit]()
    for places in (tuple(root), *single):
        blocks = [stage[place] for place in places]
        key = tuple(map(id, blocks))
        if key not in known:
            every = elements(blocks, frozen=True)
            known[key] = Unit(places, every, places == tuple(root), elements(blocks))
        if known[key].elements:
            made.append(known[key]._replace(blocks=places))
    return made


def elements(blocks: Sequence[Block], *, frozen: bool = False) -> dict[str, float]:
    """Elements of trained parameters, and of `frozen` ones if asked, by the group that shares them:
    "data", and "experts" if there are."""
    # Most blocks of a stage are one object.
    numbers, counts = Counter(map(id, blocks)), {"data": 0.0, "experts": 0.0}
    for place, block in {id(block): block for block in blocks}.items():
        counts["data"] += numbers[place] * (block.parameters + frozen * block.frozen)
        experts = block.expert_parameters + frozen * block.frozen_experts
        counts["experts"] += numbers[place] * experts
    return {group: count for group, count in counts.items() if count}
