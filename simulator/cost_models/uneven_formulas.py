"""Formulas of collectives whose chunks differ in size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from simulator.cost_models.cost_model import ASSUMES, RING_ASSUMES, CostModel
from simulator.cost_models.fabric import Fabric
from topologies.topology import Floats

Chunks = Callable[[int], Floats]
"""From p to the shares of V of all chunks, or of all blocks."""
Stages = tuple[Floats, Floats]
"""Shares of V from each rank to each: across nodes, and inside nodes."""


def _largest(chunks: Chunks, p: int) -> float:
    return float(chunks(p).max())


def _posted(fabric: Fabric, blocks: Floats, sent: Floats, nbytes: float) -> float:
    """All blocks that are `sent` at once, as shares of V from each rank to each: the busiest port
    never waits."""
    if fabric.ports == "peer":
        return fabric.latency + fabric.send(float(blocks.max()) * nbytes)
    busy = [
        fabric.gap * sent.sum(axis=axis) + blocks.sum(axis=axis) * nbytes / fabric.bandwidth
        for axis in (0, 1)
    ]
    return fabric.latency + float(np.max(busy))


def ring_all_gatherv(chunks: Chunks) -> CostModel:
    """The largest chunk sets the pace of all steps."""
    return CostModel(
        latex=r"(p-1)\left(\alpha + g + \frac{wV}{\beta}\right)",
        assumes=f"{RING_ASSUMES}; w: share of the largest chunk",
        source="Träff, Relationships between regular and irregular collectives, IPDPS 2009",
        time=lambda fabric, p, nbytes: (
            (p - 1) * (fabric.latency + fabric.send(_largest(chunks, p) * nbytes))
        ),
        steps=lambda p: p - 1,
    )


def ring_reduce_scatterv(chunks: Chunks) -> CostModel:
    """The same, and every rank adds."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        chunk = _largest(chunks, p) * nbytes
        return (p - 1) * (fabric.latency + fabric.send(chunk) + chunk * fabric.reduction)

    return replace(
        ring_all_gatherv(chunks),
        latex=r"(p-1)\left(\alpha + g + \frac{wV}{\beta} + wV\gamma\right)",
        time=time,
        peak=lambda p: 1 + _largest(chunks, p),
        memory_ports=(),
    )


def linear(chunks: Chunks) -> CostModel:
    """All chunks but the root's pass its port, one after the other."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        sends = [fabric.send(float(share) * nbytes) for share in chunks(p)[1:]]
        return fabric.latency + (max(sends) if fabric.ports == "peer" else sum(sends))

    def moved(p: int) -> float:
        return float(1 - chunks(p)[0])

    return CostModel(
        latex=r"\alpha + \sum_{r>0}\left(g + \frac{w_rV}{\beta}\right)",
        assumes=f"{ASSUMES}; w_r: share of rank r; with a port for each peer the largest alone",
        source="MPI_Gatherv and MPI_Scatterv, linear",
        time=time,
        volume=moved,
        redundant=moved,
    )


def linear_all_gatherv(chunks: Chunks) -> CostModel:
    """The rank with the smallest chunk receives most, the one with the largest sends most."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        sent = 1 - np.eye(p)
        return _posted(fabric, chunks(p)[:, None] * sent, sent, nbytes)

    return CostModel(
        latex=r"\alpha + (p-1)g + \max(1 - w_{min}, (p-1)w_{max})\frac{V}{\beta}",
        assumes=f"{ASSUMES}; w: share of a chunk; no port that is busiest ever waits",
        source="by definition: the busiest port",
        time=time,
        unclaimed="chunks differ in size",
    )


def linear_reduce_scatterv(chunks: Chunks) -> CostModel:
    """The same in the other direction, and each owner adds p - 1 times."""
    gather = linear_all_gatherv(chunks)

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        return gather.time(fabric, p, nbytes) + _largest(chunks, p) * nbytes * fabric.reduction

    return replace(
        gather,
        latex=rf"{gather.latex} + w_{{max}}V\gamma",
        assumes=f"{gather.assumes}; γβ ≤ 1",
        time=time,
        peak=lambda p: 1 + (p - 1) * _largest(chunks, p),
        memory_ports=(),
    )


def line(chunks: Chunks) -> CostModel:
    """The chunk of rank r takes r steps."""

    def moved(p: int) -> float:
        return float(chunks(p) @ np.arange(p))

    return replace(
        ring_all_gatherv(chunks),
        volume=moved,
        redundant=moved,
        unclaimed="chunks differ in size",
    )


def all_to_allv(matrix: Chunks) -> CostModel:
    """The busiest port is busy all the time."""

    def sent(p: int) -> Floats:
        blocks = matrix(p).copy()
        np.fill_diagonal(blocks, 0.0)
        return blocks

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        blocks = sent(p)
        return _posted(fabric, blocks, np.sign(blocks), nbytes)

    return CostModel(
        latex=r"\alpha + \max_r\left(m_r g + \frac{w_r V}{\beta}\right)",
        assumes="one port a rank; m_r, w_r: messages and share of V out of r, or into r; no port "
        "that is busiest ever waits",
        source="by definition: the busiest port",
        time=time,
        volume=lambda p: float(sent(p).sum()),
        peak=lambda p: float((sent(p).sum(axis=0) + sent(p).sum(axis=1)).max()),
        redundant=lambda p: float(sent(p).sum()),
        unclaimed="blocks differ in size",
    )


def forwarded(traffic: Callable[[int], Stages]) -> CostModel:
    """The busiest port of the first stage, and then the busiest port of the second."""

    def sent(p: int) -> Stages:
        across, inside = traffic(p)
        return across, inside * (1 - np.eye(p))

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        total = 0.0
        for blocks in sent(p):
            if blocks.any():
                busy = max(
                    float(blocks.sum(axis=axis).max()) * nbytes / fabric.bandwidth
                    + int(np.count_nonzero(blocks, axis=axis).max()) * fabric.gap
                    for axis in (0, 1)
                )
                total += fabric.latency + busy
        return total

    def moved(p: int) -> float:
        return float(sum(blocks.sum() for blocks in sent(p)))

    def buffered(p: int) -> float:
        across, inside = traffic(p)
        arrived = across.sum(axis=0) + inside.sum(axis=0)
        return float((across.sum(axis=1) + arrived).max())

    return CostModel(
        latex=r"2\alpha + \sum_{i \le 2} \max_r\left(m_{ir} g + \frac{w_{ir} V}{\beta}\right)",
        assumes="one port a rank; m_ir, w_ir: messages and share of V out of r, or into r, in "
        "stage i; stages do not overlap",
        source="Zhao et al., DeepEP, 2025; DeepSeek-V3, arXiv 2412.19437",
        time=time,
        volume=moved,
        steps=lambda p: sum(int(blocks.any()) for blocks in sent(p)),
        peak=buffered,
        redundant=moved,
        memory_ports=(),
        unclaimed="blocks differ in size",
    )
