"""The options of a collective's pattern: who is the root, and who has how much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from topologies.errors import InputError

if TYPE_CHECKING:
    from simulator.collectives import Algorithm
    from simulator.collectives.routers import Router

T = TypeVar("T")
USUAL_SIZE = "64MiB"
Root = Annotated[
    int | None,
    typer.Option(help="The root of a broadcast, reduce, gather, ...  [default: 0]"),
]
Skew = Annotated[
    str | None,
    typer.Option(
        help="Sizes of an uneven collective by a seeded router: zipf:1.2 or zipf:1.2,seed=3."
    ),
]
Matrix = Annotated[
    Path | None,
    typer.Option(help="Sizes of an uneven collective: FILE.csv, bytes from each rank to each."),
]


@dataclass(frozen=True)
class PatternOptions:
    """A collective's pattern as the user writes it."""

    root: Root = None
    skew: Skew = None
    matrix: Matrix = None

    def of(self, algorithm: Algorithm) -> Algorithm:
        """The algorithm with these options. Raises InputError if it does not take one."""
        router = self._router
        if router is not None:
            from simulator.collectives.uneven import skewed

            option = f"--skew {self.skew}" if self.skew else f"--matrix {self.matrix}"
            algorithm = _named(option, partial(skewed, algorithm, router))
        if self.root is not None:
            from simulator.collectives.roots import from_root

            algorithm = _named(f"--root {self.root}", partial(from_root, algorithm, self.root))
        return algorithm

    @property
    def parameters(self) -> dict[str, int | str]:
        """The options, to be stored with a result."""
        values = {"root": self.root, "skew": self.skew, "matrix": self.matrix}
        return {
            name: value if isinstance(value, int) else str(value)
            for name, value in values.items()
            if value is not None
        }

    def size(self, size: str | None) -> str:
        """V as text. The default with a matrix is what a rank sends on average there."""
        if size is not None or self.matrix is None:
            return USUAL_SIZE if size is None else size
        from experiments.size_tables import read_table

        return f"{read_table(self.matrix).nbytes!r}B"

    @property
    def _router(self) -> Router | None:
        if self.skew is not None and self.matrix is not None:
            raise InputError(
                f"--skew {self.skew} and --matrix {self.matrix}: leave one of them out"
            )
        if self.matrix is not None:
            from experiments.size_tables import read_table

            return read_table(self.matrix)
        return None if self.skew is None else parse_skew(self.skew)


def parse_skew(text: str) -> Router:
    """A router from text like "zipf:1.2,seed=3". Raises InputError for another text."""
    from simulator.collectives.routers import Zipf
    from topologies.units import parse_number, parse_whole

    name, _, options = text.partition(":")
    exponent, *further = options.split(",")
    if name != "zipf" or not exponent:
        raise InputError(f"--skew {text[:80]}: expected zipf:EXPONENT, like zipf:1.2")
    seed = 0
    for option in further:
        key, _, value = option.partition("=")
        if key != "seed":
            raise InputError(f"--skew {text[:80]}: no option {key!r}: did you mean 'seed'?")
        seed = _named(f"--skew {text[:80]}", partial(parse_whole, value))
    power = _named(f"--skew {text[:80]}", partial(parse_number, exponent))
    if not 0 <= power <= 10:
        raise InputError(f"--skew {text[:80]}: the exponent is {power:g}, expected 0 to 10")
    return Zipf(power, seed)


def _named(option: str, make: Callable[[], T]) -> T:
    """What is made, or a refusal that names the option."""
    try:
        return make()
    except InputError as error:
        raise InputError(f"{option}: {error}") from None
