"""From the text of an option to its value: algorithms and numbers of ranks.

Imported when a command runs, since algorithms take a while to load.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.collectives import Algorithm, find, of_collective
from simulator.collectives.algorithm_options import names_in
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.units import parse_counts, parse_number

MOST_RANKS = 2**20
USUAL_RANKS = "2..64"
USUAL = "ring"
"""The algorithm that a sweep takes by default."""


def parse_algorithms(text: str | None, collective: str | None = None) -> list[Algorithm]:
    """Algorithms by name, each with its options, or all of a collective. The default is ring."""
    if collective is None:
        return [find(name) for name in names_in(text or USUAL)]
    if text is not None:
        raise InputError(
            f"--algo {text[:80]} and --collective {collective[:80]}: leave one of them out"
        )
    return of_collective(collective)


def parse_algorithm(text: str) -> Algorithm:
    """An algorithm by name."""
    if len(names_in(text)) > 1:
        raise InputError(f"--algo {text}: one algorithm here, simctl sweep takes several")
    return find(text)


def parse_ranks(text: str) -> list[int]:
    """Numbers of ranks, each at least 2."""
    ranks = parse_counts(text)
    if min(ranks) < 2:
        raise InputError(f"--p {text}: ranks must be at least 2, got {min(ranks)}")
    if max(ranks) > MOST_RANKS:
        raise InputError(f"--p {text}: at most {MOST_RANKS} ranks, got {max(ranks)}")
    return ranks


def parse_rank_count(text: str) -> int:
    """One number of ranks, at least 2."""
    ranks = parse_ranks(text)
    if len(ranks) != 1:
        raise InputError(f"--p {text}: one number of ranks here, simctl sweep takes several")
    return ranks[0]


def parse_tolerance(text: str) -> float:
    """A share of the time."""
    try:
        return parse_number(text)
    except InputError:
        raise InputError(
            f"--tolerance {text[:40]}: expected a share of the time, like 0.15"
        ) from None


def usual_ranks(machine: Blueprint, algorithms: Sequence[Algorithm]) -> str:
    """All ranks of a machine of known size, where the servers of a shape are devices like the
    others."""
    if machine.size is None:
        return USUAL_RANKS
    servers = min(algorithm.servers for algorithm in algorithms) if machine.kind == "shape" else 0
    return str(machine.size - servers)
