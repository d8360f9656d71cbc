"""The algorithms by name. A family's file is imported when one of its algorithms is first asked for."""

from difflib import get_close_matches
from functools import cache
from importlib import import_module

from simulator.collectives.collective import Algorithm, Collective
from topologies.errors import InputError

FAMILIES = (
    "ring",
    "rings",
    "gloo",
    "naive",
    "parameter_server",
    "tree",
    "binary_tree",
    "double_tree",
    "chain",
    "recursive_doubling",
    "halving_doubling",
    "neighbor_exchange",
    "all_to_all",
    "shift",
    "in_network",
)
"""Modules of this package, in the order in which `simctl algos` lists what they declare."""


@cache
def algorithms() -> dict[str, Algorithm]:
    """Every algorithm by name."""
    modules = [import_module(f"simulator.collectives.{family}") for family in FAMILIES]
    return {algorithm.name: algorithm for module in modules for algorithm in module.ALGORITHMS}


def find(name: str) -> Algorithm:
    """The algorithm called `name`. Raises InputError with the nearest name if there is none."""
    known = algorithms()
    if name not in known:
        near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"{name!r} is no algorithm: {hint}(simctl algos lists them)")
    return known[name]


__all__ = ["Algorithm", "Collective", "algorithms", "find"]
