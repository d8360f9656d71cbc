"""Changes of a machine or of its devices, of which a report says what they would save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from simulator.schedules.schedule import COMPUTE as COMPUTATION
from simulator.steps.step_graph import RESTART
from simulator.training.plan import Plan
from topologies.topology import Floats, Topology

TWICE_BANDWIDTH, HALF_LATENCY, TWICE_COMPUTE = (
    "twice the bandwidth",
    "half the latency",
    "twice the compute",
)


class Change(NamedTuple):
    """A change of the machine or of its devices. Routes stay."""

    machine: Callable[[Topology], Topology] = lambda topology: topology
    seconds: Callable[[Plan], Floats] = lambda plan: plan.schedule.seconds
    """What computations take."""


def _wider(topology: Topology) -> Topology:
    return replace(topology, medium_bandwidth=topology.medium_bandwidth * 2)


def _sooner(topology: Topology) -> Topology:
    return replace(topology, latency=topology.latency / 2, medium_gap=topology.medium_gap / 2)


def _faster(plan: Plan) -> Floats:
    schedule = plan.schedule
    computed = (schedule.kind == COMPUTATION) & (plan.column("kind") != RESTART)
    return np.where(computed, schedule.seconds / 2, schedule.seconds)


CHANGES = {
    TWICE_BANDWIDTH: Change(_wider),
    HALF_LATENCY: Change(_sooner),
    TWICE_COMPUTE: Change(seconds=_faster),
}
