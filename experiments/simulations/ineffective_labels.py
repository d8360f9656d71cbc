"""Algorithms that a library does not run although it is told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from simulator.collectives import Algorithm
from simulator.profile import Profile
from topologies.topology import Topology


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
        if algorithm.by_library or algorithm.origin or not (runs := profile.runs):
            continue
        if outside := [str(p) for p in ranks if not runs(algorithm.listed_name, build(p))]:
            numbers = outside if len(outside) <= 2 else [outside[0], "...", outside[-1]]
            text = f"{algorithm.name}: the library does not run it on {', '.join(numbers)} ranks"
            yield f"{text} of this machine: this simulates software of your own"
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
