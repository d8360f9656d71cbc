"""Formulas of switches that reduce and multicast."""

from __future__ import annotations

from dataclasses import replace

from simulator.cost_models.cost_model import CostModel, log2_ceil

BUFFERS = 2
"""A worker of NVLS has room for so many pieces. With one, its port idles while a sum is on its
way."""


def sharp(segments: int, leaves: int = 1) -> CostModel:
    """All workers push pieces into a switch, which multicasts the sum. With several `leaves`, these
    pass the pieces to one switch above them."""
    below = leaves if leaves > 1 else 0
    return CostModel(
        latex=r"2\alpha + (m+1)\left(g + \frac{V}{m\beta}\right)",
        assumes=f"switches reduce and multicast at full rate; V in m = {segments} pieces; "
        "one switch",
        source="Graham et al., Scalable hierarchical aggregation protocol (SHARP), COMHPC 2016",
        time=lambda fabric, p, nbytes: (
            2 * fabric.latency + (segments + 1) * fabric.send(nbytes / segments)
        ),
        volume=lambda p: 2 * (p + below),
        steps=lambda p: 4 if below else 2,
        ports=("peer",),
        memory_ports=(),
        unclaimed="two levels of switches" if below else "",
    )


def _rounds(segments: int) -> int:
    """How often a worker waits for room for more pieces of NVLS."""
    return -(-segments // BUFFERS)


def nvls(segments: int, groups: int = 1, *, in_network: bool = False) -> CostModel:
    """The switch reduces every chunk on its way to the owner. The owners of all groups all-reduce
    it. The switch then multicasts it. All of this is done in `segments`."""
    across = 2 * groups if in_network else 2 * (groups - 1)
    return CostModel(
        latex=r"6\alpha + \left(1 + \frac{1}{p}\right)\frac{V}{\beta}",
        assumes="switches reduce and multicast; a port carries V and one chunk; "
        f"{segments} pieces, no start-up",
        source="multimem.ld_reduce and multimem.st of NVLink SHARP (NVIDIA Hopper architecture "
        "whitepaper)",
        time=lambda fabric, p, nbytes: (
            6 * fabric.latency + (1 + groups / p) * nbytes / fabric.bandwidth
        ),
        volume=lambda p: 2 * p + groups + across,
        steps=lambda p: (
            2 * _rounds(segments)
            + (2 if in_network else 2 * (groups - 1))
            + (2 if p > groups else 1)
        ),
        memory_ports=(),
        unclaimed="pipelined in pieces",
    )


def nvls_tree(segments: int, groups: int = 1) -> CostModel:
    """:func:`nvls` with a reduce up and a broadcast down a binary tree of the groups."""
    plain = nvls(segments, groups)
    return replace(
        plain,
        source="NVLSTree of NVIDIA/nccl since 2.18",
        steps=lambda p: 2 * _rounds(segments) + 2 * log2_ceil(groups) + (2 if p > groups else 1),
    )


MULTIMEM = CostModel(
    latex=r"2\alpha + (p+1)\left(g + \frac{V}{\beta}\right)",
    assumes="one switch reduces at full rate; a port carries V for each reader",
    source="multimem.ld_reduce, one shot: contrib/custom_algos/allreduce of NVIDIA/nccl",
    time=lambda fabric, p, nbytes: 2 * fabric.latency + (p + 1) * fabric.send(nbytes),
    volume=lambda p: p * p + p,
    steps=lambda p: 2,
    peak=lambda p: 2,
    redundant=lambda p: p,
    ports=("peer",),
    memory_ports=(),
)
