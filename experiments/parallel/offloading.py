"""Activations that wait in the memory of the host between forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from simulator.parallel.blocks import Block, BlockPart
from topologies.errors import InputError
from topologies.topology import Topology


def host_bandwidth(topology: Topology) -> float:
    """Bytes/s between the device of the first rank and its CPU, if all devices below a PCIe switch
    copy at once. Raises InputError for a machine without a link to a CPU."""
    kinds, device, below = topology.device_kinds, int(topology.placement[0]), 1
    speed = inf
    for above in ("pcie switch", "cpu"):
        up = np.flatnonzero((topology.source == device) & kinds.are(above)[topology.target])
        if len(up):
            speed = min(speed, float(topology.bandwidth[up[0]]) / below)
            device = int(topology.target[up[0]])
            sharing = kinds.are("gpu")[topology.source] & (topology.target == device)
            below = int(np.count_nonzero(sharing))
    if speed == inf:
        raise InputError(f"{topology.name} has no link from a GPU to a CPU: take offload=0")
    return speed


def offload_stages(
    stages: Sequence[Sequence[Block]], layers: int, bandwidth: float
) -> tuple[tuple[Block, ...], ...]:
    """The stages, whose first `layers` layers copy what they keep to the host beside a forward, and
    back beside a backward. Where a copy takes longer than the layer, the layer waits. Layers that
    are alike are the same object."""
    known = dict[int, Block]()

    def copied(block: Block) -> Block:
        if id(block) not in known:
            seconds = block.kept / bandwidth
            forward, backward, inputs = (
                BlockPart(max(0.0, seconds - sum(part.seconds for part in parts)))
                for parts in (block.forward, (*block.again, *block.backward), block.inputs)
            )
            known[id(block)] = replace(
                block,
                forward=(*block.forward, forward),
                backward=(backward, *block.backward),
                inputs=(inputs, *block.inputs),
                kept=0.0,
                working=block.working + block.kept,
            )
        return known[id(block)]

    def first(stage: Sequence[Block]) -> list[int]:
        ends = "embedding", "head"
        return [place for place, block in enumerate(stage) if block.name not in ends][:layers]

    return tuple(
        tuple(copied(each) if place in first(stage) else each for place, each in enumerate(stage))
        for stage in stages
    )
