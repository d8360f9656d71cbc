"""Ports of a node that its ranks share."""

from dataclasses import replace
from math import e, log

from experiments.calibration.effects.crowding import crowded
from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter, Values
from simulator.profile import Profile

ON_TWO_NODES = Parameter("node β on two nodes", log(2.0), "power", LIKELY)
"""NCCL's search (src/graph/tuning.cc) takes the bandwidth inside nodes for jobs on up to two nodes,
and that between nodes for larger jobs."""
SHARED_PORTS = Parameter(
    "network 1/β by ranks a node", -1.0, "power", LIKELY, "network", specified=True
)


def ports(data: Data) -> Effect:
    """A library opens as many channels as its network feeds, so links inside nodes have the β of
    those between nodes. That changes with the ranks a node by a power, which data show where jobs
    over several nodes had different numbers of ranks there.

    On two nodes there are more channels: trees, whose chains inside nodes carry twice what crosses
    the network, may then be faster than rings. Data show it where jobs had two nodes and more.
    """
    several = [curve for curve in data.curves if curve.nodes > 1]
    has_two = len({curve.nodes > 2 for curve in several}) > 1
    has_widths = len({curve.per_node for curve in several}) > 1

    def write(profile: Profile, values: Values) -> Profile:
        on_two = values.get(ON_TWO_NODES.name, ON_TWO_NODES.start)
        profile = replace(profile, paced=True, pace_on_two=e**on_two)
        if not has_widths:
            return profile
        width, power = data.points.width, values[SHARED_PORTS.name]
        return crowded(profile, data, per_node=width, shared=power)

    shown = ((ON_TWO_NODES, has_two), (SHARED_PORTS, has_widths))
    return Effect(tuple(parameter for parameter, is_shown in shown if is_shown), write)
