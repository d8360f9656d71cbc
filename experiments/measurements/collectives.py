"""The collectives that benchmarks measure: their names, and how nccl-tests counts bandwidth."""

from __future__ import annotations

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "send_recv",
    "gather",
    "scatter",
    "hypercube",
    "barrier",
)
UNKNOWN = "unknown"
"""The collective of a curve whose file does not tell it."""

PARTS = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter", "hypercube")
"""Collectives in which a rank keeps its own part of the data: busbw counts (n-1)/n of it."""

_SHORT = {"ar": "all_reduce", "ag": "all_gather", "rs": "reduce_scatter", "a2a": "all_to_all"}
_SHORT |= {"bc": "broadcast", "bcast": "broadcast", "sr": "send_recv", "p2p": "send_recv"}
_NAMES = _SHORT | {name.replace("_", ""): name for name in COLLECTIVES}


def canonical(name: str) -> str | None:
    """simctl's name of a collective, or None for an unknown name.

    >>> canonical("alltoall"), canonical("All-Reduce"), canonical("bc"), canonical("allmost")
    ('all_to_all', 'all_reduce', 'broadcast', None)
    """
    return _NAMES.get(name.strip().lower().replace("_", "").replace("-", ""))


def bus_factor(collective: str, ranks: int) -> float:
    """busbw over size / time, as nccl-tests defines it.

    >>> bus_factor("all_reduce", 4), bus_factor("all_gather", 4), bus_factor("broadcast", 4)
    (1.5, 0.75, 1.0)
    """
    part = (ranks - 1) / ranks
    if collective == "all_reduce":
        return 2 * part
    return part if collective in PARTS else 1.0
