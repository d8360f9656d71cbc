"""Formulas of Bruck's all-gather and all-to-all and of PAT, by rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from simulator.cost_models.cost_model import ASSUMES, CostModel, log2_ceil
from simulator.cost_models.fabric import Fabric

Blocks = Callable[[int, int, int], int]
"""The blocks of V/p in a message, from p, the distance of digit 1 in its round, and its digit."""


def bruck_all_gather(radix: int) -> CostModel:
    """Round k has up to radix - 1 messages of radix^k chunks."""

    def blocks(p: int, step: int, digit: int) -> int:
        return min(step, p - step * digit)

    return _bruck(radix, blocks, "p-1", "", peak=lambda p: 2)


def bruck_all_to_all(radix: int) -> CostModel:
    """In round k a message has the blocks whose distance has a given digit k."""

    def blocks(p: int, step: int, digit: int) -> int:
        cycles, rest = divmod(p, step * radix)
        return cycles * step + min(max(rest - digit * step, 0), step)

    words = f", with B blocks: the digits in base {radix} of 1 to p-1 that are not 0"
    return _bruck(radix, blocks, "B", words, peak=lambda p: 3 - 1 / p)


def _bruck(
    radix: int, blocks: Blocks, number: str, words: str, peak: Callable[[int], float]
) -> CostModel:
    """Rounds of up to radix - 1 messages with so many `blocks`, `number` of them in all."""

    def rounds(p: int) -> Iterator[list[int]]:
        step = 1
        while step < p:
            yield [blocks(p, step, digit) for digit in range(1, min(radix, -(-p // step)))]
            step *= radix

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        total = 0.0
        for messages in rounds(p):
            sends = [fabric.send(count * nbytes / p) for count in messages]
            total += fabric.latency + (max(sends) if fabric.ports == "peer" else sum(sends))
        return total

    return CostModel(
        latex=rf"\lceil\log_{{{radix}}} p\rceil\alpha + Mg"
        rf" + \frac{{{number}}}{{p}}\frac{{V}}{{\beta}}",
        assumes=f"{ASSUMES}; M messages a rank, {radix - 1} a round or fewer{words}",
        source="Bruck et al., IEEE TPDS 8(11), 1997",
        time=time,
        volume=lambda p: sum(map(sum, rounds(p))),
        steps=lambda p: len([*rounds(p)]),
        peak=peak,
        redundant=lambda p: 2 * p - 1,
        memory_ports=(),
    )


def pat_all_gather(chunks: int) -> CostModel:
    """In the round of bit k a rank passes on a chunk for every multiple of 2^(k+1) below p - 2^k,
    in messages of up to `chunks`."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        sizes = [size for level in range(log2_ceil(p)) for size in _sizes(p, level, chunks)]
        port = sum(fabric.send(size * nbytes / p) for size in sizes)
        return log2_ceil(p) * fabric.latency + port

    return CostModel(
        latex=r"\lceil\log_2 p\rceil\alpha + Mg + \frac{p-1}{p}\frac{V}{\beta}",
        assumes=f"{ASSUMES}; M messages of a rank, ⌈log2 p⌉ if rounds are not cut"
        + ("" if chunks >= 2**20 else f" into messages of {chunks} chunks"),
        source="Jeaugey, arXiv 2506.20252",
        time=time,
        steps=log2_ceil,
        peak=lambda p: 2,
        redundant=lambda p: 2 * p - 1,
        memory_ports=(),
    )


def pat_reduce_scatter(chunks: int) -> CostModel:
    """The same, and a rank adds a round's chunks when it has all of its messages."""
    gather = pat_all_gather(chunks)
    return replace(
        gather,
        latex=gather.latex + r" + \frac{p-1}{p}V\gamma",
        time=lambda fabric, p, nbytes: (
            gather.time(fabric, p, nbytes) + (p - 1) / p * nbytes * fabric.reduction
        ),
        redundant=lambda p: p,
        merging=float("inf") if chunks >= 2**20 else 0.0,
    )


def _sizes(p: int, level: int, chunks: int) -> list[int]:
    step = 1 << level
    count = len(range(0, p - step, 2 * step))
    return [min(chunks, count - first) for first in range(0, count, chunks)]
