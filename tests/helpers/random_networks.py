"""`optimal` on random networks, beside bounds and all other algorithms.

Links have no latencies and gaps, so the size V does not matter. Times are multiples of the best
lower bound. An all-reduce is compared with the sum of its two phases.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np

from simulator.analysis.bounds import best_bound
from simulator.collectives import find, of_collective
from simulator.collectives.collective import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, Algorithm
from simulator.collectives.optimal import SEGMENTS, plan
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.errors import InputError
from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

NAMES = ("optimal_all_gather", "optimal_reduce_scatter", "optimal_broadcast", "optimal")
V = 64 * 2.0**20
SEEDS = 200
FINE = 2048
"""Segments of which the fill of the pipeline hardly counts."""
MARGIN = 0.02
"""The share of the cut by which a time may be longer, besides the fill."""
EQUAL = 1e-9
"""The relative difference of times that are equal."""
COARSE, MORE = f"{SEGMENTS} segments", f"{FINE} segments"


def random_network(seed: int, *, both_ways_alike: bool = True) -> Topology:
    """The network of a seed: 2 to 16 ranks and up to two switches, with links of 1 to 8 bytes/s
    without latencies and gaps."""
    random = Random(seed)
    builder = TopologyBuilder(f"random network {seed}")
    ranks = [builder.device(f"gpu{rank}") for rank in range(random.randint(2, 16))]
    switches = [builder.device(f"switch{k}", "switch") for k in range(random.choice((0, 0, 1, 2)))]
    devices = random.sample(ranks + switches, len(ranks) + len(switches))
    wires = {
        frozenset((device, devices[random.randrange(k)])) for k, device in enumerate(devices) if k
    }
    for _ in range(random.randint(0, 2 * len(devices))):
        wires.add(frozenset(random.sample(devices, 2)))
    for first, second in sorted(sorted(wire) for wire in wires):
        there, back = (Link(float(random.randint(1, 8))) for _ in range(2))
        builder.link(first, second, there)
        builder.link(second, first, there if both_ways_alike else back)
    return builder.build(ranks)


def seconds(algorithm: Algorithm, topology: Topology) -> float:
    """The simulated time of V, proven."""
    fitted = algorithm.on(topology, topology.ranks, V)
    semantics.check(fitted.schedule, algorithm.collective)
    return simulate(fitted.schedule, fitted.topology, "compiled").makespan


def bound(algorithm: Algorithm, topology: Topology) -> float:
    """The best bound; of an all-reduce the sum of those of its two phases."""
    whole = algorithm.collective
    phases = (REDUCE_SCATTER, ALL_GATHER) if whole == ALL_REDUCE else (whole,)
    return sum(best_bound(phase, topology, topology.ranks, V).seconds for phase in phases)


def study(seed: int, name: str, *, fine: bool = False) -> dict[str, Any]:
    """The times of an algorithm on the network of a seed, over the tightest cut: with more segments
    if those are wanted, or another algorithm is faster."""
    network, algorithm = random_network(seed), find(name)
    least = bound(algorithm, network)
    fastest, rival = min(others(algorithm, network), default=(np.inf, ""))
    coarse, more = seconds(algorithm, network), np.nan
    if fine or coarse > fastest * (1 + EQUAL):
        more = seconds(find(f"{name}:segments={FINE}"), network)
    depth = plan(algorithm.collective.name, network, network.ranks).depth
    times = coarse / least, more / least, fastest / least
    return {"seed": seed, "algorithm": name, "ranks": network.ranks} | judged(depth, *times, rival)


def judged(depth: int, coarse: float, more: float, fastest: float, rival: str) -> dict[str, Any]:
    """The times with fewer and more segments, and the goals that they miss. Of an algorithm that
    has no fill, like a ring on a ring, the fill of many segments may miss no more than its
    share."""
    share = (coarse - 1) / ((depth - 1) / SEGMENTS + MARGIN)
    behind = np.fmin(coarse, more) / fastest - 1
    missed = {
        f"{COARSE} are slow": share > 1,
        f"{MORE} are slow": more > 1 + MARGIN,
        f"{rival} is faster": behind > (depth - 1) / FINE + EQUAL,
    }
    failures = ", ".join(name for name, is_missed in missed.items() if is_missed)
    by = behind if behind > EQUAL else 0.0
    return {COARSE: coarse, MORE: more, "share": share, "by": by, "failures": failures}


def others(algorithm: Algorithm, topology: Topology) -> Iterator[tuple[float, str]]:
    """The times of all other algorithms of the same collective that run on a machine."""
    for other in of_collective(algorithm.collective.name):
        if other.name not in NAMES and other.defined(topology.ranks) and not other.servers:
            with suppress(InputError):  # not for this machine
                fitted = other.on(topology, topology.ranks, V)
                if not fitted.schedule.switches:
                    took = simulate(fitted.schedule, fitted.topology, "compiled").makespan
                    yield took, other.name
