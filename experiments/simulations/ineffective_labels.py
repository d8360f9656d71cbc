"""Algorithms that a library does not run although it is told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

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
        name, runs = algorithm.listed_name, None if algorithm.origin else profile.runs
        if algorithm.by_library:
            continue
        if outside := [str(p) for p in ranks if runs and not runs(name, build(p))]:
            numbers = outside if len(outside) <= 2 else [outside[0], "...", outside[-1]]
            text = f"{name}: the library does not run it on {', '.join(numbers)} ranks of this"
            yield f"{text} machine: this simulates software of your own"
        for p in ranks:
            if entry := profile.ignored(name, algorithm.collective.name, p):
                library = f"with {entry.library} " if entry.library else ""
                text = (
                    f"{profile.name}: told to take {algorithm.name} on {p} ranks, a run {library}"
                )
                yield (
                    f"{text}took the fastest of {', '.join(entry.ran)}: this simulates "
                    f"{algorithm.name}"
                )
