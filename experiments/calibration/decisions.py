"""Which algorithm an MPI library runs if none is forced: its published decision rules.

Sources: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c of Open MPI 4.0.5, and of 4.1.0 to 5.0.7,
which have the same rules; src/mpi/coll/cvars.txt and maint/tuning/coll/mpir/generic.json of
MPICH 4.3. A machine may have rules of its own: a fit then prefers the fastest algorithm. MPICH's
all-reduce changes at 2048 bytes by cvars.txt and at 8 bytes by generic.json. Here it is 2048, as in
Cray MPICH. On several nodes of several ranks, Open MPI 5 runs coll/han, which has levels and no
table (ompi/mca/coll/han/coll_han_module.c).

`open_mpi.csv` is the table of Open MPI from 4.1 on, without segments: the algorithm from so many
ranks and bytes on. Bytes are V, or V / p for the collectives of `PER_RANK`. Where simctl lacks an
algorithm, the table has one with the same messages: recursive halving for butterfly, posted
messages for Open MPI's linear and linear_sync, a tree for nonoverlapping.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from math import ceil
from pathlib import Path

from experiments.shipped_tables import rows_of
from simulator.cost_models import is_power_of_two

Rule = Callable[[float], str]
"""From V in bytes to the algorithm that runs."""
Rules = Mapping[str, Callable[[int, float], str]]
"""By collective: from ranks and V in bytes to the algorithm that runs."""

PER_RANK = ("all_gather", "all_to_all")
LEVELLED = ("all_reduce", "all_gather", "broadcast", "reduce")
"""Collectives of Open MPI's coll/han."""
KIB = 1024


def rules(library: str, *, levels: bool = False) -> Rules | None:
    """The rules of a library by its name and version in words; None if they are not published.
    `levels`: whether there are several nodes of several ranks.

    >>> rules("OpenMPI 4.1.6")["all_reduce"](512, 16384.0)
    'halving_doubling'
    >>> rules("Cray MPICH 8.1.29")["all_reduce"](16, 2048.0)
    'recursive_doubling'
    >>> rules("Intel MPI 2021")
    """
    words = library.lower().replace(" ", "").replace("-", "")
    if "mpich" in words:
        return MPICH
    if "openmpi" not in words:
        return None
    named = re.search(r"openmpi\D{0,2}(\d+)\.(\d+)", words)
    version = (int(named[1]), int(named[2])) if named else (4, 1)
    if version < (4, 1):
        return OPEN_MPI_4_0
    if version < (5, 0) or not levels:
        return OPEN_MPI
    return {name: rule for name, rule in OPEN_MPI.items() if name not in LEVELLED}


@cache
def table() -> dict[str, dict[int, list[tuple[float, str]]]]:
    """The table of Open MPI: by collective and least number of ranks the least bytes and the
    algorithm of each row, the most bytes first."""
    rules_by_ranks: dict[str, dict[int, list[tuple[float, str]]]] = {}
    for row in rows_of(Path(__file__).with_name("open_mpi.csv")):
        by_ranks = rules_by_ranks.setdefault(row["collective"], {})
        entry = float(row["bytes"]), row["algorithm"]
        by_ranks.setdefault(int(row["ranks"]), []).insert(0, entry)
    return rules_by_ranks


def _by_table(collective: str, ranks: int, nbytes: float) -> str:
    by_ranks, size = table()[collective], nbytes / ranks if collective in PER_RANK else nbytes
    entries = by_ranks[max(least for least in by_ranks if least <= max(ranks, 2))]
    name = next(name for least, name in entries if least <= size)
    return "ring_all_gather" if name == "neighbor_exchange" and ranks % 2 else name


OPEN_MPI: Rules = {
    collective: partial(_by_table, collective)
    for collective in (*LEVELLED, "reduce_scatter", "all_to_all")
}
"""Open MPI from 4.1 on, without segments."""


def _pieces(nbytes: float, segment: float) -> int:
    # the most pieces of a simulated pipeline
    return max(1, min(1024, ceil(nbytes / segment)))


def _old_all_reduce(ranks: int, nbytes: float) -> str:
    """A ring from 10,000 bytes on. Its segments of 1 MiB are sent one after the other."""
    return "recursive_doubling" if nbytes < 10_000 else "ring"


def _old_broadcast(ranks: int, nbytes: float) -> str:
    """Lines of the number of ranks over V separate the segments of pipelines."""
    if nbytes < 2048:
        return "tree_broadcast"
    if nbytes < 370_728:
        return f"split_binary_broadcast:segments={_pieces(nbytes / 2, KIB)}"
    if ranks < 1.6134e-6 * nbytes + 2.1102:
        segment = 128 * KIB
    elif ranks < 13:
        return f"split_binary_broadcast:segments={_pieces(nbytes / 2, 8 * KIB)}"
    elif ranks < 2.3679e-6 * nbytes + 1.1787:
        segment = 64 * KIB
    elif ranks < 3.2118e-6 * nbytes + 8.7936:
        segment = 16 * KIB
    else:
        segment = 8 * KIB
    return f"chain_broadcast:segments={_pieces(nbytes, segment)}"


def _old_reduce(ranks: int, nbytes: float) -> str:
    if ranks < 8 and nbytes < 512:
        return "linear_reduce"
    if (ranks < 8 and nbytes < 20_480) or nbytes < 2048:
        return "tree_reduce"
    if ranks > 0.6016 / 1024 * nbytes + 1.3496:
        return "tree_reduce"
    if ranks > 0.0410 / 1024 * nbytes + 9.7128:
        return f"chain_reduce:segments={_pieces(nbytes, KIB)}"
    if ranks > 0.0422 / 1024 * nbytes + 1.1614:
        return f"binary_tree_reduce:segments={_pieces(nbytes, 32 * KIB)}"
    segment = 32 * KIB if ranks > 0.0033 / 1024 * nbytes + 1.6761 else 64 * KIB
    return f"chain_reduce:segments={_pieces(nbytes, segment)}"


def _old_reduce_scatter(ranks: int, nbytes: float) -> str:
    short = 256 * KIB if is_power_of_two(ranks) else 12 * KIB
    halves = nbytes <= short or ranks >= 0.0012 * nbytes + 8
    return "recursive_halving_reduce_scatter" if halves else "ring_reduce_scatter"


def _old_all_gather(ranks: int, nbytes: float) -> str:
    if nbytes < 50_000 or ranks == 2:
        return _doubled(ranks)
    return "ring_all_gather" if ranks % 2 else "neighbor_exchange"


def _doubled(ranks: int) -> str:
    """Recursive doubling, or Bruck's algorithm if the ranks are no power of two."""
    return "recursive_doubling_all_gather" if is_power_of_two(ranks) else "bruck_all_gather"


def _old_all_to_all(ranks: int, nbytes: float) -> str:
    if nbytes / ranks < 200 and ranks > 12:
        return "bruck_all_to_all"
    return "linear_all_to_all" if nbytes / ranks < 3000 and ranks > 2 else "pairwise_sync"


OPEN_MPI_4_0: Rules = {
    "all_reduce": _old_all_reduce,
    "broadcast": _old_broadcast,
    "reduce": _old_reduce,
    "reduce_scatter": _old_reduce_scatter,
    "all_gather": _old_all_gather,
    "all_to_all": _old_all_to_all,
}
"""Open MPI before 4.1."""


def _mpich_all_reduce(ranks: int, nbytes: float) -> str:
    few = nbytes / 4 < 2 ** (ranks.bit_length() - 1)
    return "recursive_doubling" if nbytes <= 2048 or few else "halving_doubling"


def _mpich_all_gather(ranks: int, nbytes: float) -> str:
    if nbytes < (512 * KIB if is_power_of_two(ranks) else 80 * KIB):
        return _doubled(ranks)
    return "ring_all_gather"


def _mpich_broadcast(ranks: int, nbytes: float) -> str:
    if nbytes < 12 * KIB or ranks < 8:
        return "tree_broadcast"
    doubles = nbytes < 512 * KIB and is_power_of_two(ranks)
    return "scatter_allgather_broadcast" if doubles else "scatter_allgather_ring_broadcast"


def _mpich_reduce_scatter(ranks: int, nbytes: float) -> str:
    return "recursive_halving_reduce_scatter" if nbytes < 512 * KIB else "ring_reduce_scatter"


def _mpich_all_to_all(ranks: int, nbytes: float) -> str:
    if nbytes / ranks <= 256 and ranks >= 8:
        return "bruck_all_to_all"
    return "linear_all_to_all" if nbytes / ranks <= 32 * KIB else "pairwise_sync"


MPICH: Rules = {
    "all_reduce": _mpich_all_reduce,
    "all_gather": _mpich_all_gather,
    "broadcast": _mpich_broadcast,
    "reduce_scatter": _mpich_reduce_scatter,
    "all_to_all": _mpich_all_to_all,
}
"""MPICH and libraries that are made of it, with a rank on each node."""
