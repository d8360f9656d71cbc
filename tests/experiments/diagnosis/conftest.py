"""Curves that are like measured ones, and ways to spoil them."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from experiments.measurements import Curve, Point

SIZES = tuple(8 << k for k in range(28))
"""8 B to 1 GiB, doubling."""
Spoil = Callable[[Curve, Iterable[int], float], Curve]


@pytest.fixture
def healthy() -> Curve:
    """Three protocols as NCCL's on four nodes: 30 us and 1 GB/s, 60 us and 10 GB/s, 150 us and 49
    GB/s, 1% noise."""
    random = np.random.default_rng(1)
    protocols = ((30e-6, 1e9), (60e-6, 10e9), (150e-6, 49e9))
    best = [min(a + size / b for a, b in protocols) for size in SIZES]
    points = tuple(
        Point(s, t * float(random.normal(1, 0.01))) for s, t in zip(SIZES, best, strict=True)
    )
    return Curve(
        "all_reduce", 16, 4, points, (), "healthy_ar_p16.csv", device="NVIDIA H100 80GB HBM3"
    )


@pytest.fixture
def spoil() -> Spoil:
    def slower(curve: Curve, places: Iterable[int], factor: float) -> Curve:
        points = list(curve.points)
        for place in places:
            points[place] = replace(points[place], time_s=points[place].time_s * factor)
        return replace(curve, points=tuple(points))

    return slower
