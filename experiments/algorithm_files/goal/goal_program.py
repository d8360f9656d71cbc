"""What a GOAL file says: operations of ranks, and what each waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Operation(NamedTuple):
    """A send, a receive or a computation of a rank."""

    kind: str
    """send, recv or calc."""
    rank: int
    peer: int
    """The other rank; the rank itself of a calc."""
    size: int
    """Bytes, or nanoseconds of a calc."""
    tag: int
    cpu: int
    nic: int
    line: int


class Wait(NamedTuple):
    """An operation waits for another of its rank; both are numbers of operations."""

    operation: int
    earlier: int
    start: bool
    """Whether it waits for the start of the other (irequires) instead of its end."""


@dataclass(frozen=True)
class GoalProgram:
    """A GOAL file."""

    ranks: int
    operations: tuple[Operation, ...]
    """Rank by rank, in the order of the file."""
    waits: tuple[Wait, ...]
