"""The influence of each parameter, by simulating with a slightly higher value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from simulator.analysis.critical_path import Sensitivities
from simulator.engines import run
from simulator.schedules.routed import Routed
from simulator.schedules.schedule import COMPUTE
from simulator.schedules.timeline import Timeline
from topologies.columns import sums
from topologies.topology import Flags, Floats

STEP = 1e-6


def finite_differences(timeline: Timeline, step: float = STEP) -> Sensitivities:
    """One-sided differences of the makespan on the same routes.

    There is one simulation for each parameter in use: the α of each link, the g and 1/β of each
    medium, and the γ and copy of each rank. A parameter is raised so much that its share of the
    makespan grows by `step` of the makespan, if nothing that it counts for overlaps.
    """
    routed, topology = timeline.routed, timeline.routed.topology

    def slopes(values: Floats, used: Floats, changed: Callable[[Floats], Routed]) -> Floats:
        slope = np.zeros(len(values))
        for k in np.flatnonzero(used):
            higher = values.copy()
            higher[k] += step * timeline.makespan / used[k]
            result = run(
                changed(higher),
                sharing=timeline.sharing,
                store_and_forward=timeline.store_and_forward,
            )
            slope[k] = (result.makespan - timeline.makespan) / (higher[k] - values[k])
        return slope

    def latency(higher: Floats) -> Routed:
        return replace(routed, topology=replace(topology, latency=higher))

    def gap(higher: Floats) -> Routed:
        return replace(routed, topology=replace(topology, medium_gap=higher))

    def inverse_bandwidth(higher: Floats) -> Routed:
        bandwidth, lower = topology.medium_bandwidth.copy(), higher > 1 / topology.medium_bandwidth
        bandwidth[lower] = 1 / higher[lower]
        return replace(routed, topology=replace(topology, medium_bandwidth=bandwidth))

    crossed = np.bincount(timeline.hops[1], minlength=topology.links)
    messages = np.bincount(timeline.occupancy.medium, minlength=len(topology.medium_names))
    merged = _bytes_at(routed, routed.schedule.reduces == 1)
    return Sensitivities(
        slopes(topology.latency, crossed.astype(np.float64), latency),
        slopes(topology.medium_gap, messages.astype(np.float64), gap),
        slopes(1 / topology.medium_bandwidth, timeline.medium_bytes(), inverse_bandwidth),
        slopes(routed.reduction, merged, lambda higher: replace(routed, reduction=higher)),
        slopes(routed.copy, _copied(routed), lambda higher: replace(routed, copy=higher)),
        routed.schedule.nbytes_total,
    )


def _copied(routed: Routed) -> Floats:
    schedule, local = routed.schedule, np.diff(routed.route_indptr)[routed.route] == 0
    return _bytes_at(routed, local & (schedule.kind != COMPUTE) & (schedule.reduces == 0))


def _bytes_at(routed: Routed, chosen: Flags) -> Floats:
    schedule = routed.schedule
    return sums(schedule.peer[chosen], schedule.nbytes[chosen], schedule.ranks)
