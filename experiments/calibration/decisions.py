"""Which algorithm an MPI library runs if none is forced: its published decision rules.

Sources: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c of Open MPI 4.0.5, and of 4.1.0 to 5.0.7,
which have the same rules; src/mpi/coll/cvars.txt and maint/tuning/coll/mpir/generic.json of
MPICH 4.3. A machine may have rules of its own: a fit then prefers the fastest algorithm. MPICH's
all-reduce changes at 2048 bytes by cvars.txt and at 8 bytes by generic.json. Here it is 2048, as in
Cray MPICH. On several nodes of several ranks, Open MPI 5 runs coll/han, which has levels and no
table (ompi/mca/coll/han/coll_han_module.c).

`mpi_rules.csv` has the rules: of the rows of a library and a collective the first one counts whose
conditions hold. A condition like >=8 is on ranks, on V, or on V / p in bytes. Ranks are also
compared with a line, like <2e-6V+8. `segment` has the bytes of a pipeline's pieces. The rows of
Open MPI are for 4.1 and later, without segments. Where simctl lacks an algorithm, the table has one
with the same messages: recursive halving for butterfly, posted messages for Open MPI's linear and
linear_sync, a tree for nonoverlapping. The segments of 1 MiB of Open MPI 4.0's ring are sent one
after the other.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from math import ceil
from pathlib import Path

from experiments.shipped_tables import rows_of
from simulator.cost_models import is_power_of_two

Rule = Callable[[float], str]
"""From V in bytes to the algorithm that runs."""
Rules = Mapping[str, Callable[[int, float], str]]
"""By collective: from ranks and V in bytes to the algorithm that runs."""
Row = Mapping[str, str]

LEVELLED = ("all_reduce", "all_gather", "broadcast", "reduce")
"""Collectives of Open MPI's coll/han."""


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
        return _rules("MPICH")
    if "openmpi" not in words:
        return None
    named = re.search(r"openmpi\D{0,2}(\d+)\.(\d+)", words)
    version = (int(named[1]), int(named[2])) if named else (4, 1)
    if version < (4, 1):
        return _rules("Open MPI 4.0")
    known = _rules("Open MPI")
    if version < (5, 0) or not levels:
        return known
    return {name: rule for name, rule in known.items() if name not in LEVELLED}


@cache
def rows(library: str) -> dict[str, list[Row]]:
    """The rows of a library's rules, by collective."""
    by_collective: dict[str, list[Row]] = {}
    for row in rows_of(Path(__file__).with_name("mpi_rules.csv")):
        if row["library"] == library:
            by_collective.setdefault(row["collective"], []).append(row)
    return by_collective


@cache
def _rules(library: str) -> Rules:
    return {collective: partial(_algorithm, library, collective) for collective in rows(library)}


_SIGNS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
_KINDS: Mapping[str, Callable[[int, float], bool]] = {
    "": lambda ranks, nbytes: True,
    "odd": lambda ranks, nbytes: ranks % 2 == 1,
    "power of two": lambda ranks, nbytes: is_power_of_two(ranks),
    # Elements of 4 bytes, beside the ranks that are left as a power of two.
    "few elements": lambda ranks, nbytes: nbytes / 4 < 2 ** (ranks.bit_length() - 1),
}


@lru_cache(maxsize=65536)
def _algorithm(library: str, collective: str, ranks: int, nbytes: float) -> str:
    """The algorithm of the first row whose conditions hold. A simulated pipeline has at most 1024
    pieces."""
    values = {"ranks": ranks, "bytes": nbytes, "bytes_per_rank": nbytes / ranks}
    row = next(
        row
        for row in rows(library)[collective]
        if _KINDS[row["kind"]](ranks, nbytes)
        and all(_holds(value, row[name], nbytes) for name, value in values.items())
    )
    if not row["segment"]:
        return row["algorithm"]
    return f"{row['algorithm']}:segments={max(1, min(1024, ceil(nbytes / float(row['segment']))))}"


def _holds(value: float, condition: str, nbytes: float) -> bool:
    """Whether a value meets a condition, if there is one."""
    if not condition:
        return True
    sign, slope, constant = _line(condition)
    return bool(_SIGNS[sign](value, slope * nbytes + constant))


@cache
def _line(condition: str) -> tuple[str, float, float]:
    """The sign of a condition, and the slope and the constant of what it compares with."""
    match = re.fullmatch(r"([<>]?=?)(?:([\d.e-]+)V\+)?([\d.]+)", condition)
    assert match is not None, condition
    return match[1], float(match[2] or 0), float(match[3])
