"""Algorithms that a library does not run although it is told to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from simulator.collectives import Algorithm
from simulator.profile import Profile


def ineffective_labels(
    profile: Profile | None, algorithms: Iterable[Algorithm], ranks: Iterable[int]
) -> Iterator[str]:
    """A line for each algorithm that the machine's library did not run although it was told to, by
    its profile."""
    if profile is None or not profile.ineffective:
        return
    for algorithm, p in product(algorithms, ranks):
        if algorithm.by_library:
            continue
        if entry := profile.ignored(algorithm.listed_name, algorithm.collective.name, p):
            library = f"with {entry.library} " if entry.library else ""
            text = (
                f"{profile.name}: told to take {algorithm.name} on {p} ranks, a run {library}took "
                f"the fastest of"
            )
            yield f"{text} {', '.join(entry.ran)}: this simulates {algorithm.name}"
