"""Sizes for which a program of another tool is not made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf

from simulator.collectives import Algorithm
from topologies.units import format_bytes


def unmeant_sizes(algorithms: Sequence[Algorithm], sizes: Sequence[float]) -> Iterator[str]:
    """A line for each algorithm whose tool would not run it for some of the sizes."""
    for algorithm in algorithms:
        least, most = algorithm.sizes
        outside = [format_bytes(size) for size in sizes if not least <= size <= most]
        if outside:
            numbers = outside if len(outside) <= 2 else [outside[0], "...", outside[-1]]
            meant = f"{least:.0f} B or more" if isinf(most) else f"{least:.0f} to {most:.0f} B"
            yield (
                f"{algorithm.origin}: {algorithm.name} is made for {meant}, "
                f"not for {', '.join(numbers)}"
            )
