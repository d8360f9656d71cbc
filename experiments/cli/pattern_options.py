"""The options of a collective's pattern: who is the root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from topologies.errors import InputError

if TYPE_CHECKING:
    from simulator.collectives import Algorithm

Root = Annotated[
    int | None,
    typer.Option(help="The root of a broadcast, reduce, gather, ...  [default: 0]"),
]


@dataclass(frozen=True)
class PatternOptions:
    """A collective's pattern as the user writes it."""

    root: Root = None

    def of(self, algorithm: Algorithm) -> Algorithm:
        """The algorithm with these options. Raises InputError if it does not take one."""
        if self.root is None:
            return algorithm
        from simulator.collectives.roots import from_root

        try:
            return from_root(algorithm, self.root)
        except InputError as error:
            raise InputError(f"--root {self.root}: {error}") from None

    @property
    def parameters(self) -> dict[str, int]:
        """The options, to be stored with a result."""
        return {} if self.root is None else {"root": self.root}
