"""A critical path as counts: its time on another machine, without simulating again."""

from __future__ import annotations

from typing import NamedTuple

from simulator.analysis.critical_path import sensitivities
from simulator.schedules.routed import Routed
from simulator.schedules.timeline import Timeline
from topologies.topology import Floats


class PathCounts(NamedTuple):
    """A critical path. Bytes are in units of V."""

    latency: Floats
    """How often the path has α of each link."""
    gap: Floats
    """How often the path has g of each medium."""
    crossed: Floats
    """The bytes over each medium."""
    merged: Floats
    """The bytes that each rank merges."""
    copied: Floats
    """The bytes that each rank copies."""

    def seconds(self, routed: Routed, nbytes: float) -> float:
        """How long it takes with V = `nbytes` on a machine."""
        apiece = self.merged @ routed.reduction + self.copied @ routed.copy
        return sum(self.on_links(routed, nbytes)) + nbytes * float(apiece)

    def on_links(self, routed: Routed, nbytes: float) -> tuple[float, float]:
        """Seconds of α and g, and of bytes on links."""
        machine = routed.topology
        before = self.latency @ machine.latency + self.gap @ machine.medium_gap
        return float(before), nbytes * float(self.crossed @ (1 / machine.medium_bandwidth))


def path_counts(timeline: Timeline, nbytes: float) -> PathCounts:
    """The critical path of a run with V = `nbytes`."""
    counted = sensitivities(timeline)
    crossed, merged, copied = (
        column / nbytes for column in (counted.inverse_bandwidth, counted.reduction, counted.copy)
    )
    return PathCounts(counted.latency, counted.gap, crossed, merged, copied)
