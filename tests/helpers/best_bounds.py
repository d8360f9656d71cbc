"""Seconds of bounds on a collective of 12 bytes among four workers, or as asked for."""

from dataclasses import replace

from simulator.analysis.bounds import best_bound, bounds
from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    REDUCE,
    REDUCE_SCATTER,
    SEND_RECV,
    Collective,
)
from topologies.topology import Topology

COLLECTIVES = (ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, REDUCE, BROADCAST, ALL_TO_ALL, SEND_RECV)
PORTS = ["latency", "injection port", "ejection port", "all ports"]


def ports(
    collective: Collective, topology: Topology, workers: int = 4, nbytes: float = 12.0
) -> list[float]:
    """Seconds of the bounds that there always are: latency, injection port, ejection port, all
    ports."""
    limits = bounds(collective, topology, workers, nbytes)
    assert [bound.name for bound in limits[:4]] == PORTS
    assert [bound.seconds for bound in limits[4:]] == sorted(bound.seconds for bound in limits[4:])
    return [bound.seconds for bound in limits[:4]]


def best(
    collective: Collective, topology: Topology, workers: int = 4, nbytes: float = 12.0
) -> tuple[object, object]:
    """Name and seconds of the best bound, without latency."""
    return best_bound(collective, replace(topology, latency=0 * topology.latency), workers, nbytes)
