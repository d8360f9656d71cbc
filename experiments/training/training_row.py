"""A training run as a row of a table, and what of it has been simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class TrainingRow:
    """A run in a table. Seconds are means over the workers, for a step."""

    model: str
    device: str
    strategy: str
    ranks: int
    """The number of workers."""
    batch: int
    """Samples of a worker in a step."""
    step_s: float
    samples_per_s: float
    """Samples per second of all workers together."""
    efficiency: float
    """`samples_per_s` as a share of what as many workers without communication would reach."""
    computing_s: float
    restarting_s: float
    """Time lost to restarts after a failure."""
    exposed_s: float
    """Communication while the worker does not compute."""
    hidden_s: float
    """Communication while the worker computes."""
    transfer_s: float
    """Bubbles in which the worker waits for messages."""
    contention_s: float
    """Bubbles in which such a message waits behind messages of other ranks."""
    slower_peer_s: float
    """Bubbles in which the worker waits for a computation of another rank."""
    drain_s: float
    """Bubbles at the end of the run, in which the worker has nothing left to do."""
    volume_B: float
    """Bytes that all ranks send in a step."""
    peak_B: float
    """Peak memory of the fullest rank; without messages on their way if there are too many
    operations to trace it."""
    redundant_B: float | None
    """The peak amount of duplicate data over all ranks, None if it is not traced."""
    staleness: float
    """Mean number of updates between reading parameters and updating them."""
    staleness_max: int
    fits: bool | None = None
    """Whether the fullest worker fits into the memory of its device, None if that is not known."""
    expected_s: float | None = None
    """The step with calls of the expected time; None without a library that says how sure it is."""
    low_s: float | None = None
    high_s: float | None = None
    level: float | None = None
    """The share of runs that an interval holds."""
    unsure: str | None = None
    """In what calls are outside the measured runs, in words; None without an interval."""


class Simulated(NamedTuple):
    """What of a run has been simulated."""

    ranks: int
    """The workers that stand for all."""
    collectives: int
    """The collectives that are timed as a whole; 0: all transfers are simulated at their time."""
    replayed: int
    """Those of them that have the times of an earlier simulation."""
    rounds: int
    """How often collectives were simulated again, together."""

    def words(self, ranks: int) -> tuple[str, str]:
        """The same for people, of a run of `ranks` workers."""
        who = "all ranks" if ranks == self.ranks else f"{self.ranks} of {ranks} ranks"
        if not self.collectives:
            return who, "all transfers"
        rounds = f", {self.rounds} rounds" if self.rounds else ""
        simulated = self.collectives - self.replayed
        return who, (
            f"{self.collectives} collectives: {simulated} simulated, {self.replayed} "
            f"replayed{rounds}"
        )
