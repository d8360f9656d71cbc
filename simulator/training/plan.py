"""A training run laid out as a schedule, and what its operations mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from simulator.schedules.schedule import Schedule
from simulator.training.conditions import Conditions
from simulator.training.model import Model
from simulator.training.size import Size, check_size
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology

COMPUTE, COMMUNICATION = 0, 1
"""Lanes of a worker: its main stream, its first communication stream. More may follow."""

RESTART = "restart"
"""The phase in which a worker that has failed, or waits for one, computes nothing."""


@dataclass(frozen=True, eq=False)
class Setting:
    """Where and how long to train: `ranks` workers (and the servers behind them) on a machine, for
    `steps` steps."""

    topology: Topology
    ranks: int
    steps: int = 1
    conditions: Conditions = field(default_factory=Conditions)

    def __post_init__(self) -> None:
        if self.ranks < 1:
            raise InputError(f"ranks must be at least 1, got {self.ranks}")
        if self.steps < 1:
            raise InputError(f"steps must be at least 1, got {self.steps}")
        failure = self.conditions.failure
        if failure and failure.rank >= self.ranks:
            raise InputError(f"rank {failure.rank} fails: ranks run from 0 to {self.ranks - 1}")
        if failure and failure.step >= self.steps:
            raise InputError(
                f"a worker fails in step {failure.step}: the steps are 0 to {self.steps - 1}"
            )

    def check_size(self, size: Size, *, exact: bool = True, repeats: bool = True) -> None:
        """Raise InputError if the steps have more operations than a run may have.

        A `size` that is not `exact` is a lower bound: then only a single step is checked. A
        strategy that `repeats` runs the steps since the checkpoint again after a failure.
        """
        repeated = self.conditions.repeated(self.steps) if repeats else 0
        check_size(size, *(self.steps, repeated) if exact else (1,))


class Spans(NamedTuple):
    """Communications as a rank sees them, one row each: from the start of operation `first` to the
    finish of `last`, on `lane` of `rank`, called as the phase of `first`."""

    rank: Ints
    lane: Ints
    first: Ints
    last: Ints


class Held(NamedTuple):
    """Bytes that each rank holds all the time and that are in no slot, and how many of all these
    are distinct."""

    ranks: Floats
    distinct: float


class Stored(NamedTuple):
    """Bytes in no slot that appear (or, negative, vanish) at a rank when an operation finishes. All
    are distinct."""

    operation: Ints
    rank: Ints
    nbytes: Floats


class Updates(NamedTuple):
    """Updates of shared parameters, one row each: computed by `worker` from what it read when
    operation `pulled` started (-1: from the initial parameters), and applied when operation
    `served` finished."""

    worker: Ints
    pulled: Ints
    served: Ints


@dataclass(frozen=True, eq=False)
class Plan:
    """`ends[k, r]` is the last operation of the k-th step that rank r runs; `useful[k]` is false
    where the step is lost to a failure. `numbers[k]` is its number from 0 on: a step that is
    repeated after a failure keeps its number. Step k handles `samples[k]` samples, all ranks
    together. `lanes` names the lanes of a rank; `words` says what was chosen. `held` is in no slot:
    by default parameters, buffers and optimizer state of every worker; neither is what is `stored`
    for a while. While a rank communicates, its computations take `slowdown` of their time longer.
    """

    model: Model
    schedule: Schedule
    topology: Topology
    workers: int
    lanes: tuple[str, ...]
    ends: Ints
    numbers: Ints
    useful: Ints
    samples: Ints
    spans: Spans
    updates: Updates | None = None
    held: Held | None = None
    stored: Stored | None = None
    words: tuple[str, ...] = ()
    slowdown: float = 0.0

    @property
    def steps(self) -> int:
        """Steps that are run, lost ones included."""
        return len(self.ends)


def no_spans() -> Spans:
    """No communication at all."""
    none = np.zeros(0, dtype=np.int32)
    return Spans(none, none, none, none)
