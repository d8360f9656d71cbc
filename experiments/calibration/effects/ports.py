"""Ports of a node that its ranks share."""

from collections.abc import Mapping
from dataclasses import replace
from math import e, log

from experiments.calibration.effects.crowding import crowded
from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from simulator.profile import Profile

ON_TWO = log(2.0)
"""NCCL's search (src/graph/tuning.cc) takes the bandwidth inside nodes for jobs on up to two nodes,
and that between nodes for larger jobs."""


class Ports(Effect):
    """A library opens as many channels as its network feeds, so links inside nodes have the β of
    those between nodes. That changes with the ranks a node by a power, which data show where jobs
    over several nodes had different numbers of ranks there.

    On two nodes there are more channels: trees, whose chains inside nodes carry twice what crosses
    the network, may then be faster than rings. Data show it where jobs had two nodes and more.
    """

    def __init__(self, data: Data) -> None:
        self.data = data
        several = [curve for curve in data.points.curves if curve.nodes > 1]
        self.two = len({curve.nodes > 2 for curve in several}) > 1
        self.widths = len({curve.per_node for curve in several}) > 1
        if self.two:
            self.parameters += (Parameter("node β on two nodes", ON_TWO, "power", LIKELY),)
        if self.widths:
            name = "network 1/β by ranks a node"
            self.parameters += (Parameter(name, -1.0, "power", LIKELY, "network", specified=True),)

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """Links inside nodes that are paced, and the power."""
        on_two = values["node β on two nodes"] if self.two else ON_TWO
        profile = replace(profile, paced=True, pace_on_two=e**on_two)
        if not self.widths:
            return profile
        shared = values["network 1/β by ranks a node"]
        return crowded(profile, self.data, per_node=self.data.points.width, shared=shared)
