"""Which algorithm an MPI library runs if none is forced: its published decision rules.

Sources: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c of Open MPI 4.0.5, and of 4.1.0 to 5.0.7,
which have the same rules; src/mpi/coll/cvars.txt and maint/tuning/coll/mpir/generic.json of
MPICH 4.3. A machine may have rules of its own: a fit then prefers the fastest algorithm. MPICH's
all-reduce changes at 2048 bytes by cvars.txt and at 8 bytes by generic.json. Here it is 2048, as in
Cray MPICH. On several nodes of several ranks, Open MPI 5 runs coll/han, which has levels and no
table (ompi/mca/coll/han/coll_han_module.c).

Where simctl lacks an algorithm, the table has one with the same messages: recursive halving for
butterfly, posted messages for Open MPI's linear and linear_sync, a tree for nonoverlapping.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import ceil

from simulator.cost_models import is_power_of_two

Rule = Callable[[float], str]
"""From V in bytes to the algorithm that runs."""
Rules = Mapping[str, Callable[[int, float], str]]
"""By collective: from ranks and V in bytes to the algorithm that runs."""
Table = Mapping[int, str]
"""From the least number of ranks to algorithms, with the least bytes between two of them."""

ALL_REDUCE: Table = {
    2: "ring 8 rd 4096 ring 8192 rd 16384 ring 262144 hd",
    4: "ring 16 rd 8192 hd",
    8: "rd 8192 hd",
    16: "ring 64 rd 4096 hd",
    32: "ring 128 hd",
    64: "rd 262144 hd",
    128: "tree 131072 rd 262144 hd",
    256: "tree 4096 hd",
    512: "tree 2048 rd 16384 hd",
    2048: "tree 2048 ring 4096 rd 16384 hd",
    4096: "tree 2048 ring 16384 rd 32768 hd",
}
"""By V."""
BROADCAST: Table = {
    2: "chain 32 binary 256 chain 512 knomial 1024 linear 32768 binary 131072 chain 262144 linear "
    "524288 binomial 1048576 binary",
    4: "binary 64 binomial 128 binary 2048 binomial 8192 linear 1048576 chain",
    8: "knomial 8 binary 64 knomial 4096 binary 16384 binomial 32768 linear",
    16: "knomial 4096 binomial 1048576 scatter",
    32: "binomial 2048 knomial",
    64: "knomial",
    128: "binomial 2 binary 16384 linear 32768 binary 65536 knomial",
    256: "knomial 16384 split 32768 knomial",
    1024: "knomial 524288 scatter",
    2048: "knomial 262144 scatter",
    4096: "knomial 8192 binary 16384 knomial 262144 scatter",
}
"""By V."""
REDUCE: Table = {
    2: "linear 8 binary 16 chain 32 linear 262144 chain",
    4: "binary 4096 chain 65536 binomial 262144 linear 524288 binomial 1048576 linear",
    8: "binary 8192 binomial",
    16: "binary 4096 binomial",
    32: "binomial",
    256: "binomial 8192 binary 16384 binomial",
    512: "binomial",
    2048: "binomial 512 binary 1024 binomial 8192 binary 16384 binomial",
    4096: "binomial 16 binary 32 binomial 1024 binary 2048 binomial 8192 binary 16384 binomial",
}
"""By V."""
REDUCE_SCATTER: Table = {
    2: "ring 65536 halving 131072 ring",
    4: "halving 262144 ring",
    32: "halving 524288 ring",
    64: "halving",
}
"""By V."""
ALL_GATHER: Table = {
    2: "rd",
    32: "rd 1024 neighbor 65536 ring",
    64: "rd 512 neighbor 65536 ring",
    128: "rd 512 neighbor 131072 ring 524288 neighbor 1048576 ring",
    256: "rd 32 bruck 128 rd 1024 neighbor 131072 ring 524288 neighbor 1048576 ring",
    512: "rd 64 bruck 256 rd 2048 neighbor",
    1024: "rd 4 bruck 8 rd 16 bruck 32 rd 256 bruck 512 rd 4096 neighbor",
    2048: "bruck 32 rd 128 bruck 512 rd 4096 neighbor",
    4096: "rd 2 bruck 8 rd 16 bruck 512 rd 4096 neighbor",
}
"""By the chunk of a rank, V / p."""
ALL_TO_ALL: Table = {
    2: "pairwise 32768 posted 262144 pairwise",
    3: "posted 524288 pairwise 1048576 posted",
    8: "posted",
    16: "posted 4 bruck 512 posted",
    32: "bruck 512 posted",
    64: "bruck 1024 posted 262144 pairwise",
    128: "bruck 1024 posted 262144 pairwise",
    256: "bruck 1024 posted 32768 pairwise",
    512: "bruck 512 posted 262144 pairwise",
    1024: "bruck 512 posted",
    2048: "bruck 1024 posted",
    4096: "bruck 2048 posted",
}
"""By the block of a pair, V / p."""

NAMES: Mapping[str, Mapping[str, str]] = {
    "all_reduce": {
        "rd": "recursive_doubling",
        "hd": "halving_doubling",
        "ring": "ring",
        "tree": "tree",
    },
    "broadcast": {
        "chain": "chain_broadcast:segments=1",
        "binary": "binary_tree_broadcast:segments=1",
        "split": "split_binary_broadcast:segments=1",
        "binomial": "tree_broadcast",
        "knomial": "k_nomial_broadcast",
        "linear": "linear_broadcast",
        "scatter": "scatter_allgather_broadcast",
    },
    "reduce": {
        "chain": "chain_reduce:segments=1",
        "binary": "binary_tree_reduce:segments=1",
        "binomial": "tree_reduce",
        "linear": "linear_reduce",
    },
    "reduce_scatter": {
        "halving": "recursive_halving_reduce_scatter",
        "ring": "ring_reduce_scatter",
    },
    "all_gather": {
        "rd": "recursive_doubling_all_gather",
        "bruck": "bruck_all_gather",
        "ring": "ring_all_gather",
        "neighbor": "neighbor_exchange",
    },
    "all_to_all": {
        "pairwise": "pairwise_sync",
        "posted": "linear_all_to_all",
        "bruck": "bruck_all_to_all",
    },
}
"""By collective: simctl's names of the words in the tables."""
PER_RANK = ("all_gather", "all_to_all")
"""Collectives whose tables go by V / p."""
LEVELLED = ("all_reduce", "all_gather", "broadcast", "reduce")
"""Collectives of Open MPI's coll/han."""
KIB = 1024
MOST_PIECES = 1024
"""The most pieces of a simulated pipeline."""


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


def _tabled(collective: str, table: Table) -> Callable[[int, float], str]:
    """The rule of a table."""
    rows = {least: _row(words) for least, words in table.items()}

    def algorithm(ranks: int, nbytes: float) -> str:
        size = nbytes / ranks if collective in PER_RANK else nbytes
        row = rows[max(least for least in rows if least <= max(ranks, 2))]
        word = next(word for least, word in reversed(row) if least <= size)
        return NAMES[collective][_possible(word, ranks)]

    return algorithm


def _row(words: str) -> list[tuple[int, str]]:
    first, *rest = words.split()
    return [(0, first), *zip(map(int, rest[::2]), rest[1::2], strict=True)]


def _possible(word: str, ranks: int) -> str:
    """The algorithm that runs instead where one does not exist: a ring for neighbours of an odd
    number of ranks."""
    return "ring" if word == "neighbor" and ranks % 2 else word


OPEN_MPI: Rules = {
    collective: _tabled(collective, table)
    for collective, table in {
        "all_reduce": ALL_REDUCE,
        "broadcast": BROADCAST,
        "reduce": REDUCE,
        "reduce_scatter": REDUCE_SCATTER,
        "all_gather": ALL_GATHER,
        "all_to_all": ALL_TO_ALL,
    }.items()
}
"""Open MPI from 4.1 on, without segments."""


def _pieces(nbytes: float, segment: float) -> int:
    return max(1, min(MOST_PIECES, ceil(nbytes / segment)))


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
    """As :func:`_old_broadcast`."""
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
