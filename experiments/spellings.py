"""How logs, indexes and libraries spell algorithms and protocols: every such word stands here.

A curve keeps the canonical name of what was forced: simctl's name of the algorithm if the word is
known, else the word. The tables by library say what may have run under that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from topologies.errors import InputError

if TYPE_CHECKING:
    from simulator.collectives import Algorithm

LIBRARIES = ("NCCL", "MPI", "Fujitsu", "gloo")
"""The libraries that can be calibrated."""
UNFORCED = (
    "",
    "default",
    "auto",
    "none",
    "point-to-point",
    "osu_latency",
    "mpi default",
    "not stated",
)
"""Words for: nothing was forced, the library chose."""
SYNONYMS = {
    "rabenseifner": "halving_doubling",
    "halvingdoubling": "halving_doubling",
    "recursivedoubling": "recursive_doubling",
    "ring_segmented": "segmented_ring",
    "binary": "binary_tree",
    "split_binary_tree": "split_binary",
    "split_bintree": "split_binary",
    "binomial": "tree",
    "binomial_tree": "tree",
    "neighbor": "neighbor_exchange",
    "neighbour": "neighbor_exchange",
    "knomial": "k_nomial",
    "pipeline": "chain",
    "modified_bruck": "bruck",
    "linear_sync": "pairwise_sync",
    "spread_out": "pairwise",
    "scattered": "pairwise",
}
"""Other words for an algorithm, in lower case and with underscores."""
PROTOCOLS = {name.lower(): name for name in ("LL", "LL128", "Simple", "eager", "rendezvous")}
"""The protocols' names, by their lower-case spelling."""
NCCL_WITHOUT_CHOICE = ("all_to_all", "send_recv", "gather", "scatter", "hypercube")
"""Collectives on which NCCL_ALGO has no effect."""
NCCL_TREES = ("tree", "nvlstree")
"""Values of NCCL_ALGO that have no effect on the collectives of `NCCL_TREELESS`."""
NCCL_TREELESS = ("all_gather", "reduce_scatter", "broadcast", "reduce")
NCCL_NEEDS_HARDWARE = ("nvls", "nvlstree", "collnetdirect", "collnetchain", "pat")
"""Values of NCCL_ALGO that NCCL replaces without a message if the machine lacks what they need."""
NCCL_MODEL = {
    "ring": "ring",
    "ring_all_gather": "ring",
    "ring_reduce_scatter": "ring",
    "rings": "ring",
    "rings_all_gather": "ring",
    "rings_reduce_scatter": "ring",
    "chain_broadcast": "ring",
    "chain_reduce": "ring",
    "chains_broadcast": "ring",
    "chains_reduce": "ring",
    "double_tree": "tree",
}
"""What NCCL's own cost model calls our algorithms."""
NCCL_TUNER = {
    **NCCL_MODEL,
    "nvls": "nvls",
    "nvls_tree": "nvls_tree",
    "sharp": "collnet_direct",
    "pat_all_gather": "pat",
    "pat_reduce_scatter": "pat",
}
"""What NCCL's tuner calls our algorithms."""
NCCL_RUNS = {"tree": ("double_tree",)}
"""What NCCL runs under a name that is not that of our algorithm."""
MPI_RUNS = {
    "allgather_reduce": ("halving_doubling",),
    "nonoverlapping": ("tree", "binary_tree"),
    "pairwise": ("pairwise_sync",),
    "segmented_ring": ("ring",),
}
"""What MPI libraries may run under a name that is not that of our algorithm. `allgather_reduce` is
one data set's name for Rabenseifner's algorithm."""
GLOO_LAB = {
    "ring": "ring",
    "naive_conc": "naive",
    "ps": "parameter_server",
    "tree": "tree",
    "recdouble": "recursive_doubling",
    "halvdouble": "halving_doubling",
}
"""All-reduces over isend and irecv in the older sweeps of the gloo lab."""

_SUFFIX = re.compile(r"_(ompi|mpich|over|impi)$")


def library_name(text: str) -> str:
    """The name of a library in any spelling. Raises InputError with the names if there is none.

    >>> library_name("nccl")
    'NCCL'
    """
    names = {name.lower(): name for name in LIBRARIES}
    if text.lower() not in names:
        raise InputError(f"{text!r} is no library that is known: there are {', '.join(names)}")
    return names[text.lower()]


def _algorithms() -> dict[str, Algorithm]:
    """Imported when a word is looked up: a file without such words is read without numpy."""
    from simulator.collectives import algorithms

    return algorithms()


def named(words: Iterable[str], collective: str) -> tuple[str, ...]:
    """Our algorithms of `collective` whose name is one of `words`, alone or before the collective.

    >>> named(("ring", "tree", "foo"), "all_reduce"), named(("ring", "tree"), "reduce")
    (('ring', 'tree'), ('tree_reduce',))
    """
    known = _algorithms()
    names = (name for word in words for name in (word, f"{word}_{collective}"))
    return tuple(
        name for name in names if name in known and known[name].collective.name == collective
    )


def canonical_algorithm(word: str, collective: str | None) -> str:
    """Our name of an algorithm, or the word itself if it is unknown; empty if nothing was forced.

    >>> canonical_algorithm("Ring", "all_reduce"), canonical_algorithm("ring_ompi", "all_gather")
    ('ring', 'ring_all_gather')
    >>> canonical_algorithm("rabenseifner_over", "all_reduce")
    'halving_doubling'
    >>> canonical_algorithm("trix6", "all_reduce")
    'trix6'
    >>> canonical_algorithm("default_ompi", "all_reduce")
    ''
    """
    plain = _SUFFIX.sub("", word.strip())
    if plain.lower() in UNFORCED:
        return ""
    name = plain.lower().replace("-", "_").replace(" ", "_")
    name = SYNONYMS.get(name, name)
    ours = named((name,), collective or "")
    if ours:
        return ours[0]
    return name if name in SYNONYMS.values() or name in _algorithms() else plain


def canonical_protocol(word: str) -> str:
    """The usual spelling of a protocol's name, or the word itself if it is unknown.

    >>> canonical_protocol("ll128"), canonical_protocol("SIMPLE"), canonical_protocol("zcopy")
    ('LL128', 'Simple', 'zcopy')
    """
    return PROTOCOLS.get(word.strip().lower(), word.strip())
