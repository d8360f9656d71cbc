"""Algorithms that a library or a tool does not run, although this simulates them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isinf
from typing import TYPE_CHECKING

from simulator.collectives import Algorithm
from topologies.topology import Topology
from topologies.units import format_bytes

if TYPE_CHECKING:
    from simulator.profile import Profile


def ineffective_labels(
    profile: Profile | None,
    algorithms: Sequence[Algorithm],
    ranks: Sequence[int],
    build: Callable[[int], Topology],
) -> Iterator[str]:
    """A line for each algorithm that the library cannot run on the machine that `build` makes, or
    that it did not run although it was told to, by its profile."""
    if profile is None:
        return
    for algorithm in algorithms:
        name, runs = algorithm.listed_name, None if algorithm.origin else profile.runs
        if algorithm.by_library:
            continue
        if outside := [str(p) for p in ranks if runs and not runs(name, build(p))]:
            yield (
                f"{name}: the library does not run it on {_ends(outside)} ranks of this machine: "
                f"this simulates software of your own"
            )
        for p in ranks:
            if entry := profile.ignored(name, algorithm.collective.name, p):
                library = f"with {entry.library} " if entry.library else ""
                yield (
                    f"{profile.name}: told to take {algorithm.name} on {p} ranks, a run {library}"
                    f"took the fastest of {', '.join(entry.ran)}: this simulates {algorithm.name}"
                )


def unmeant_sizes(algorithms: Sequence[Algorithm], sizes: Sequence[float]) -> Iterator[str]:
    """A line for each algorithm of a file whose tool would not run it for some of the sizes."""
    for algorithm in algorithms:
        least, most = algorithm.sizes
        outside = [format_bytes(size) for size in sizes if not least <= size <= most]
        if outside:
            meant = f"{least:.0f} B or more" if isinf(most) else f"{least:.0f} to {most:.0f} B"
            yield (
                f"{algorithm.origin}: {algorithm.name} is made for {meant}, not for "
                f"{_ends(outside)}"
            )


def _ends(words: Sequence[str]) -> str:
    """The first and the last of several words."""
    return ", ".join(words if len(words) <= 2 else [words[0], "...", words[-1]])
