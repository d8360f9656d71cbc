"""Formulas of Swing, and how much its messages crowd the links of a torus."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from simulator.cost_models import trees
from simulator.cost_models.cost_model import CostModel, log2_floor
from simulator.cost_models.fabric import Fabric

SOURCE = "De Sensi et al., Swing, NSDI 2024, arXiv 2401.09356"
PLAIN = replace(trees.HALVING_DOUBLING, source=SOURCE)


def on_torus(dims: tuple[int, ...]) -> CostModel:
    """Every part of V/(2D) goes over distances of 1, 1, 3, 5, ... along its dimensions. In a step
    as many messages share a link as the distance says."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        total = 0.0
        for number, step in enumerate(_steps(dims)):
            share = nbytes / 2 ** (number + 1)
            send = fabric.latency + fabric.send(share / (2 * len(dims)))
            total += 2 * distance(step) * send + share * fabric.reduction
        return total

    return replace(
        PLAIN,
        latex=r"2\sum_s \delta_s\left(\alpha + g + \frac{V}{2^{s+2}D\beta}\right)"
        r" + \frac{p-1}{p}V\gamma",
        assumes=f"a torus of {'x'.join(map(str, dims))}, D = {len(dims)}; δ_s = 1, 1, 3, 5, ...: "
        "the distance in step s; every link both ways",
        time=time,
        unclaimed="messages share links",
    )


def congestion(dims: tuple[int, ...]) -> float:
    """The time of long messages over the least that the ports of a torus of equal `dims` allow.

    Its limits on large tori of 2, 3 and 4 dimensions are 6/5, 28/27 and 1.0084.

    >>> [round(congestion((2**9,) * d), 4) for d in (2, 3, 4)]
    [1.1981, 1.037, 1.0084]
    """
    crowded = sum(distance(step) / (2 << number) for number, step in enumerate(_steps(dims)))
    return crowded / (1 - 1 / prod(dims))


def distance(step: int) -> int:
    """The links between peers in a step along one dimension: 1, 1, 3, 5, 11, ..."""
    return ((2 << step) + 1 - 2 * (step % 2)) // 3


def _steps(dims: tuple[int, ...]) -> list[int]:
    """The step along its dimension of every step."""
    last = max(map(log2_floor, dims))
    return [step for step in range(last) for dim in dims if step < log2_floor(dim)]
