"""From the text of an option to its value: algorithms and numbers of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from topologies.errors import InputError
from topologies.option_text import Parser, parse_pairs
from topologies.units import parse_counts, parse_number, parse_seconds, parse_whole, parse_yes

if TYPE_CHECKING:
    from simulator.collectives import Algorithm
    from simulator.parallel.pipeline_times import StageTimes
    from topologies.catalogue import Blueprint

MOST_RANKS = 2**20
USUAL = "ring"
"""The algorithm that a sweep takes by default."""


def parse_algorithms(
    text: str | None,
    collective: str | None = None,
    files: Sequence[str] | None = None,
    usual: Sequence[str] = (),
) -> list[Algorithm]:
    """Algorithms by name, each with its options, or all of a collective, and then those of files.
    The default is that of :func:`parse_algorithm`."""
    from experiments.algorithm_files import read_algorithm
    from simulator.collectives import of_collective
    from simulator.collectives.algorithm_options import names_in

    if collective is not None and text is not None:
        raise InputError(
            f"--algo {text[:80]} and --collective {collective[:80]}: leave one of them out"
        )
    if text is None and collective is None and not files:
        return [_usual(usual)]
    chosen = [] if collective is None else of_collective(collective)
    chosen += [] if text is None else [_find(name) for name in names_in(text)]
    for file in files or ():
        algorithm = read_algorithm(file)
        if algorithm.name in [each.name for each in chosen]:
            raise InputError(f"--algo-file {file}: two algorithms are called {algorithm.name}")
        chosen.append(algorithm)
    return chosen


def parse_algorithm(
    text: str | None, file: str | None = None, usual: Sequence[str] = ()
) -> Algorithm:
    """An algorithm by name, or that of a file. The default is what a library takes of its `usual`
    algorithms; without a library ring."""
    from experiments.algorithm_files import read_algorithm
    from simulator.collectives.algorithm_options import names_in

    if text is not None and file is not None:
        raise InputError(f"--algo {text} and --algo-file {file}: leave one of them out")
    if file is not None:
        return read_algorithm(file)
    if text is not None and len(names_in(text)) > 1:
        raise InputError(f"--algo {text}: one algorithm here, simctl sweep takes several")
    return _usual(usual) if text is None else _find(text)


def _usual(names: Sequence[str]) -> Algorithm:
    """The algorithm without --algo: what a library takes of these, or ring."""
    return _by_library(*names) if names else _find(USUAL)


def _by_library(*names: str) -> Algorithm:
    """Stands for what a library takes for each size."""
    return replace(_find(names[0]), by_library=names, recipe=(_by_library, names))


def names_of(*algorithms: Algorithm) -> str:
    """The names of algorithms as --algo takes them, without those in files and what a library
    takes."""
    return ",".join(each.name for each in algorithms if not (each.origin or each.by_library))


def _find(name: str) -> Algorithm:
    from experiments.algorithm_files import SUFFIXES
    from simulator.collectives import find

    if name.partition(":")[0].endswith(SUFFIXES):
        raise InputError(f"{name[:80]!r} is a file: write --algo-file {name[:80]}")
    return find(name)


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


def usual_ranks(machine: Blueprint, algorithms: Sequence[Algorithm], of_a_shape: str) -> str:
    """All ranks of a machine, or of a shape with `dims`, whose servers are devices like the others;
    those of an algorithm's file if it is for one number of ranks alone."""
    fixed = {ranks for each in algorithms if each.origin and (ranks := only_rank_count(each))}
    if len(fixed) == 1:
        return str(fixed.pop())
    if machine.kind == "shape" and machine.size is None:
        return of_a_shape
    servers = min(algorithm.servers for algorithm in algorithms) if machine.kind == "shape" else 0
    return str(machine.whole().ranks - servers)


def only_rank_count(algorithm: Algorithm) -> int | None:
    """The number of ranks of an algorithm that exists for one number alone."""
    from simulator.collectives.collective import FARTHEST

    several = list(islice(filter(algorithm.defined, range(2, FARTHEST)), 2))
    return several[0] if len(several) == 1 else None


def parse_stage_times(text: str | None) -> tuple[StageTimes, int]:
    """What a device's whole share of the model takes, like "weights=500us,transfer=10us"; what it
    leaves out takes 1ms, a transfer 0s. And the percentage of activations that the backward for
    weights needs."""
    from simulator.parallel.pipeline_times import StageTimes

    example = "forward=1ms,inputs=1ms,weights=1ms,transfer=0s,blocking=no,kept=50"
    parsers: dict[str, Parser] = dict.fromkeys(
        ("forward", "inputs", "weights", "transfer"), parse_seconds
    )
    parsers |= {"blocking": parse_yes, "kept": parse_whole}
    expected = f"--times {text!r:.60}: write some of {example}"
    values = parse_pairs(
        text or "", "--times", parsers, unknown=lambda _: expected, example=example
    )
    if not 0 <= (kept := values.pop("kept", 50)) <= 100:
        raise InputError(f"--times: kept={kept}: expected 0 to 100 percent")
    return StageTimes(**{**dict.fromkeys(("forward", "inputs", "weights"), 1e-3), **values}), kept
