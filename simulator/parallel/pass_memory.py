"""What a pass of a stage holds when it holds most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.parallel.blocks import Block
from simulator.parallel.gradients import Gradients
from simulator.parallel.sharding import Sharding, Unit, units
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, WEIGHTS
from topologies.topology import Floats

HEAD = "head"
"""The name of the block whose activations are logits."""


class Moment(NamedTuple):
    """Bytes that a pass holds at a moment, without what other micro-batches keep."""

    activations: float = 0.0
    """What blocks keep for their backward."""
    logits: float = 0.0
    """What the head keeps."""
    again: float = 0.0
    """What is computed again for the block whose backward runs."""
    gathered: float = 0.0
    """Parameters of units that are gathered."""
    unsharded: float = 0.0
    """Gradients that have not been scattered."""
    reducing: float = 0.0
    """Input and output of a reduction of gradients."""


def kept(block: Block, nbytes: float) -> Moment:
    """Bytes that a block keeps."""
    return Moment(logits=nbytes) if block.name == HEAD else Moment(activations=nbytes)


def kept_by(stage: Sequence[Block], *, weights: bool = False) -> Floats:
    """What a stage keeps of a micro-batch for its backward, or for that of the weights alone."""
    return _sum(kept(block, block.kept_for_weights if weights else block.kept) for block in stage)


def fullest(
    stage: Sequence[Block], kind: int, gradients: Gradients, sharding: Sharding, ranks: int
) -> Floats:
    """The moment of a pass of a `kind` at which it holds most. `ranks` share the parameters."""
    units = _Sharded(stage, kind, gradients, sharding, ranks)
    moments = [_activations(stage, kind, layer) + units.at(layer) for layer in range(len(stage))]
    moments += [
        _activations(stage, kind, layer - 1) + units.behind(layer) for layer in units.ending
    ]
    if kind in (BACKWARD, WEIGHTS):
        moments.append(units.end())
    table = np.array(moments or [_sum(())])
    return np.asarray(table[table.sum(axis=1).argmax()])


def _sum(moments: object) -> Floats:
    rows = [np.array(moment) for moment in moments]  # type: ignore[attr-defined]
    return np.asarray(sum(rows, np.zeros(len(Moment._fields))))


def _activations(stage: Sequence[Block], kind: int, layer: int) -> Floats:
    """What a pass keeps of its micro-batch while a block runs, and what that computes again. Blocks
    behind it have not run forward yet, or backward already."""
    until = stage[: layer + 1]
    total = kept_by(until, weights=kind == WEIGHTS)
    if kind == INPUTS:
        total = total + kept_by(stage[layer:], weights=True)
    if kind in (BACKWARD, INPUTS) and layer >= 0:
        total = total + np.array(Moment(again=stage[layer].working))
    return total


class _Sharded:
    """What is gathered and reduced while the blocks of a pass run."""

    def __init__(
        self,
        stage: Sequence[Block],
        kind: int,
        gradients: Gradients,
        sharding: Sharding,
        ranks: int,
    ) -> None:
        self.stage, self.kind, self.gradients, self.sharding = stage, kind, gradients, sharding
        self.ranks = ranks
        shared = units(stage, sharding) if gradients.zero >= 2 and ranks > 1 else []
        self.root = next((unit for unit in shared if unit.root), None)
        self.single = {unit.blocks[0]: unit for unit in shared if not unit.root}
        self.order = sorted(self.single, reverse=kind != FORWARD)
        reduces = kind in (BACKWARD, WEIGHTS)
        self.ending = self.order if reduces else []

    def at(self, layer: int) -> Floats:
        """While a block runs."""
        unsharded = reducing = 0.0
        if self.ending:
            unsharded = self._gradients(self.single.get(layer)) + self._root_gradients(layer)
            behind = self.order[: self.order.index(layer)] if layer in self.single else []
            reducing = self._reduced(self.single[behind[-1]]) if behind else 0.0
        return np.array(
            Moment(gathered=self._gathered(layer), unsharded=unsharded, reducing=reducing)
        )

    def behind(self, layer: int) -> Floats:
        """Behind the backward of a unit: its parameters are free, its gradients in a buffer."""
        unit = self.single[layer]
        free = unit.parameters * self.gradients.parameter if self.gradients.zero == 3 else 0.0
        gathered = max(0.0, self._gathered(layer) - free)
        return np.array(
            Moment(
                gathered=gathered,
                unsharded=self._gradients(unit) + self._root_gradients(layer),
                reducing=self._reduced(unit),
            )
        )

    def end(self) -> Floats:
        """Behind all blocks: the root's gradients are reduced."""
        if not self.root:
            return _sum(())
        return np.array(
            Moment(
                gathered=self._bytes(self.root),
                unsharded=self._gradients(self.root),
                reducing=self._reduced(self.root),
            )
        )

    def _bytes(self, unit: Unit | None) -> float:
        """Bytes of gathered parameters of a unit."""
        if unit is None or self.gradients.zero < 3 or self.kind == WEIGHTS:
            return 0.0
        return unit.parameters * self.gradients.parameter

    def _gathered(self, layer: int) -> float:
        """Bytes of the root, of the unit that runs, and of those that are gathered ahead."""
        sharding = self.sharding
        most = 2 if sharding.fsdp == 2 else sharding.limit or len(self.order)
        coming = [
            each for each in self.order if (each > layer if self.kind == FORWARD else each < layer)
        ]
        live = [layer, *coming[: most - 1]] if layer in self.single else coming[:1]
        if not sharding.reshard:
            live = self.order
        return self._bytes(self.root) + sum(self._bytes(self.single[each]) for each in live)

    def _gradients(self, unit: Unit | None) -> float:
        return unit.parameters * self.gradients.parameter if unit else 0.0

    def _root_gradients(self, layer: int) -> float:
        """Gradients of the blocks of the root whose backward has run."""
        if not self.root:
            return 0.0
        blocks = [self.stage[place] for place in self.root.blocks if place >= layer]
        elements = sum(block.parameters + block.expert_parameters for block in blocks)
        return elements * self.gradients.parameter

    def _reduced(self, unit: Unit) -> float:
        return unit.parameters * self.gradients.nbytes * (1 + 1 / self.ranks)
