"""The rules of a simulation."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from simulator.engines import Engine, Routed, run, simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.topology import Topology


class Rules(NamedTuple):
    """How to simulate."""

    engine: Engine = "auto"
    sharing: Literal["fifo", "fair"] = "fifo"
    """Whether the messages on a link take turns, or share it fairly."""
    store_and_forward: bool = False
    """Whether switches forward whole messages."""
    symmetry: Literal["auto", "off"] = "auto"
    """Whether one rank may stand for all that do the same: the results are the same."""
    force: bool = False
    """Whether to go on where the memory is likely too small, or where it takes hours."""
    fair_tolerance: float = 0.0
    """Under fair sharing: the share of the busiest medium's time to whose multiples the ends of
    messages are rounded."""

    @property
    def unassumed(self) -> str:
        """The rule that no formula assumes, or nothing."""
        if self.sharing == "fair":
            return "fair sharing"
        return "store-and-forward" if self.store_and_forward else ""

    def run_exactly(self, routed: Routed) -> Timeline:
        """As :meth:`run`, for a training run, which is simulated exactly."""
        if self.fair_tolerance:
            raise InputError(
                f"--sharing fair:tolerance={self.fair_tolerance:g}: training is simulated exactly: "
                f"write --sharing fair"
            )
        return self.run(routed)

    def run(self, routed: Routed) -> Timeline:
        """Simulate a schedule whose routes are known."""
        return run(routed, **self._options)

    def simulate(self, schedule: Schedule, topology: Topology) -> Timeline:
        """Simulate by these rules."""
        return simulate(schedule, topology, **self._options)

    @property
    def _options(self) -> dict[str, Any]:
        names = "engine", "sharing", "store_and_forward", "fair_tolerance"
        return {name: getattr(self, name) for name in names}


DEFAULT = Rules()
