"""The options of a collective's pattern: who is the root, and who has how much."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.options.options import Options, option
from topologies.errors import InputError, naming, nearest_name
from topologies.option_text import parse_at_least, parse_pairs

if TYPE_CHECKING:
    from simulator.collectives import Algorithm
    from simulator.collectives.routers import Router, SizeTable

USUAL_SIZE = "64MiB"


@dataclass(frozen=True)
class PatternOptions(Options):
    """A collective's pattern as the user writes it."""

    root: int | None = option(
        "The root rank of a broadcast, reduce, gather, ...  [default: 0]", min=0
    )
    skew: str | None = option(
        "Draw the sizes of an uneven collective: zipf:1.2,seed=3 for shares that "
        "fall, zipf:1.2,top=8,nodes=4 for tokens to 8 experts in at most 4 nodes."
    )
    matrix: Path | None = option(
        "Sizes of an uneven collective: FILE.csv, bytes from each rank to each."
    )

    def patterned(self, algorithm: Algorithm) -> Algorithm:
        """The algorithm with these options. Raises InputError if it does not take one."""
        if self.skew is not None:
            self.refuse(("matrix",), ": leave one of them out", f"--skew {self.skew} and ")
        router = self._table if self.skew is None else parse_skew(self.skew)
        if router is not None:
            from simulator.collectives.uneven import skewed

            with naming(f"--skew {self.skew}" if self.skew else f"--matrix {self.matrix}"):
                algorithm = skewed(algorithm, router)
        if self.root is not None:
            from simulator.collectives.roots import from_root

            with naming(f"--root {self.root}"):
                algorithm = from_root(algorithm, self.root)
        return algorithm

    def size_text(self, size: str | None) -> str:
        """V as text. The default with a matrix is what a rank sends on average there."""
        if size is not None:
            return size
        return USUAL_SIZE if self._table is None else f"{self._table.nbytes!r}B"

    def count_text(self, ranks: str | None, usual: Callable[[], str]) -> str:
        """The numbers of ranks as text. The default with a matrix is the number there."""
        if ranks is not None:
            return ranks
        return usual() if self._table is None else str(len(self._table.rows[0]))

    @cached_property
    def _table(self) -> SizeTable | None:
        return None if self.matrix is None else read_table(self.matrix)


def parse_skew(text: str) -> Router:
    """A router from text like "zipf:1.2,seed=3,top=8,nodes=4". Raises InputError for another
    text."""
    from simulator.collectives.routers import Tokens, Zipf, parse_zipf

    name, _, options = text.partition(",")
    parsers = dict.fromkeys(("top", "nodes", "per_node"), parse_at_least(1))
    parsers["seed"] = parse_at_least(0)

    def unknown(key: str) -> str:
        hint = nearest_name(key, parsers, f"there are {', '.join(parsers)}")
        return f"no option {key[:80]!r}: {hint}"

    with naming(f"--skew {text[:80]}"):
        power = parse_zipf(name)
        values = parse_pairs(options, name, parsers, unknown=unknown, example="seed=3")
        return Tokens(power, **values) if {*values} - {"seed"} else Zipf(power, **values)


MOST_BYTES, MOST_RANKS = 2**25, 2048
"""Of a table of sizes."""


def read_table(path: Path) -> SizeTable:
    """The numbers of a CSV of bytes: p rows of p, or one row of p. Empty lines and lines that begin
    with # count for nothing.

    Raises InputError with file and line of the first mistake.
    """
    from topologies.readers.contents import text_of

    text = text_of(path, MOST_BYTES, "a CSV of numbers", "take fewer ranks")
    return parse_table(text, str(path))


def parse_table(text: str, name: str) -> SizeTable:
    """The same of the text of the file called `name`.

    >>> parse_table("0,6\\n2,0\\n", "m.csv").rows
    ((0.0, 6.0), (2.0, 0.0))
    """
    from simulator.collectives.routers import SizeTable

    rows: list[tuple[float, ...]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"{name} line {number}"
        rows.append(tuple(_number(cell, where) for cell in line.split(",")))
        if len(rows[-1]) != len(rows[0]):
            raise InputError(f"{where}: {len(rows[-1])} numbers, and {len(rows[0])} before")
        if max(len(rows), len(rows[0])) > MOST_RANKS:
            raise InputError(f"{where}: more than {MOST_RANKS} ranks")
    if not rows:
        raise InputError(f"{name} is empty: expected a row of bytes for each rank")
    if len(rows) not in (1, len(rows[0])):
        raise InputError(
            f"{name}: {len(rows)} rows of {len(rows[0])} numbers: expected as many rows as "
            f"columns, or one row"
        )
    if not any(any(row) for row in rows):
        raise InputError(f"{name}: all sizes are 0: expected one above 0")
    return SizeTable(name, tuple(rows))


def _number(cell: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e18:
        raise InputError(f"{where}: {cell.strip()[:40]!r} is no number of bytes from 0 to 1e18")
    return value
