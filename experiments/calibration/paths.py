"""Critical paths as counts: the simulated time of a schedule as a function of α, β and γ, without
simulating again.

The length of a path is linear in every α, 1/β and γ. While no queue changes its order, the makespan
is the length of the longest path. So known paths tell the time at similar parameters. A fit works
with known paths and then simulates at its result. It drops the paths that are longer there than the
simulation, because their order no longer exists. It keeps the paths of the simulation, and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import isinf

import numpy as np

from simulator.analysis.critical_path import sensitivities
from simulator.collectives import Algorithm
from simulator.effects.jobs import nodes_of
from simulator.effects.link_slowdowns import Exchanges
from simulator.engines import run
from simulator.schedules.routed import Routed, route
from topologies.topology import Flags, Floats, Longs, Topology

LARGE_SCHEDULE = 100_000
"""A schedule of at least so many operations is simulated for two points at a time only."""
NEAR_FASTEST = 1.5
"""A protocol is simulated if it seems to take at most so many times as long as the fastest."""

Costs = Callable[[int, float], Floats]
"""From the number of a protocol and a size in bytes to the costs of a path, see :class:`Paths`."""


class Paths:
    """The paths found in an algorithm on a machine. A row counts α by kind, bytes by kind, g by
    kind and bytes merged, the bytes in units of V: shape (3 * kinds + 1,). Costs have the same
    shape: α in seconds, 1/β in seconds a byte and g in seconds by kind, and γ in seconds a byte.
    `wrong` is by how much, relatively and at most, those known were when points were last
    simulated. `sizes` are the measured ones in bytes."""

    def __init__(
        self, algorithm: Algorithm, topology: Topology, ranks: int, kinds: Sequence[str]
    ) -> None:
        self.kinds = tuple(kind for kind in kinds if topology.link_kinds.are(kind).any())
        self.algorithm, self.topology, self.ranks = algorithm, topology, ranks
        self.long: dict[tuple[float, float], float] = {}
        self.found: dict[tuple[int, float], dict[bytes, Floats]] = {}
        self.wrong, self.sizes = 1.0, set[float]()

    @cached_property
    def routed(self) -> Routed:
        """The schedule of V = 1 byte with its routes. Models of parameters alone need none."""
        schedule, topology, _, _ = self.algorithm.on(self.topology, self.ranks, 1.0)
        return route(schedule, topology)

    @cached_property
    def links(self) -> list[Longs]:
        """The links of each of `kinds`."""
        of_links = self.routed.topology.link_kinds
        return [np.flatnonzero(of_links.are(kind)) for kind in self.kinds]

    def rows(self, protocol: int, nbytes: float) -> list[Floats]:
        """The paths found with a protocol at a size; those of large schedules are of all protocols
        and sizes."""
        return list(self.found.get(self._place(protocol, nbytes), {}).values())

    def _place(self, protocol: int, nbytes: float) -> tuple[int, float]:
        return (0, 0.0) if self.large else (protocol, nbytes)

    @property
    def messages(self) -> tuple[Floats, Floats]:
        """The sizes of messages in units of V, and how many there are of each."""
        return self.routed.schedule.message_sizes

    @property
    def large(self) -> bool:
        """Whether a simulation takes long."""
        return len(self.routed.schedule) > LARGE_SCHEDULE

    def explore(self, costs: Costs, longest: Sequence[float]) -> float:
        """Simulate the measured sizes. Of each, the protocols count that come near the fastest by
        the known paths and carry the messages. `longest` are the longest messages of each. Returns
        `wrong`."""
        sizes = sorted(self.sizes)
        if self.large:
            points = [(0, sizes[0]), (len(longest) - 1, sizes[-1])]
            self.wrong = max(self._wrong(costs, *point) for point in points)
        else:
            self.wrong = max(self._settle(costs, size, longest) for size in sizes)
        return self.wrong

    def _settle(self, costs: Costs, size: float, longest: Sequence[float]) -> float:
        numbers = np.flatnonzero(self.carried(size, longest)).tolist()
        known = {q: self.longest(costs(q, size), size, q) for q in numbers}
        near = NEAR_FASTEST * min(known.values())
        return max(self._wrong(costs, q, size) for q in numbers if known[q] <= near)

    def _wrong(self, costs: Costs, protocol: int, size: float) -> float:
        of_size = costs(protocol, size)
        longest = self.longest(of_size, size, protocol)
        return abs(1 - longest / self.simulate(of_size, size, protocol))

    def simulate(self, costs: Floats, nbytes: float, protocol: int = 0) -> float:
        """The simulated seconds of V = `nbytes`; the path that explains them is kept."""
        topology = self.routed.topology
        latency, bandwidth = topology.latency.copy(), topology.medium_bandwidth.copy()
        gap = topology.medium_gap.copy()
        for links, alpha, slowness, each in zip(self.links, *np.split(costs[:-1], 3), strict=True):
            latency[links], bandwidth[links], gap[links] = alpha, 1 / slowness, each
        gamma = np.full_like(topology.reduction, costs[-1])
        changed = replace(
            topology, latency=latency, medium_bandwidth=bandwidth, medium_gap=gap, reduction=gamma
        )
        routed = replace(
            self.routed,
            topology=changed,
            schedule=self.routed.schedule.scaled(nbytes),
            reduction=np.full_like(self.routed.reduction, costs[-1]),
        )
        timeline = run(routed)
        counted = sensitivities(timeline)
        row = np.array(
            [
                *(counted.latency[links].sum() for links in self.links),
                *(counted.inverse_bandwidth[links].sum() / nbytes for links in self.links),
                *(counted.gap[links].sum() for links in self.links),
                counted.reduction.sum() / nbytes,
            ]
        )
        self._keep(row, costs, nbytes, protocol, timeline.makespan)
        return timeline.makespan

    def exchanged(self, nbytes: float, beyond: float) -> float:
        """The bytes of V = `nbytes` after the first `beyond` of messages that ranks on two nodes
        exchange."""
        if isinf(beyond):
            return 0.0
        if (nbytes, beyond) not in self.long:
            schedule = self.routed.schedule.scaled(nbytes)
            messages = schedule.exchanged(beyond, nodes_of(self.routed.topology))
            self.long[nbytes, beyond] = Exchanges(beyond=beyond).excess(messages)
        return self.long[nbytes, beyond]

    def carried(self, nbytes: float, most: Sequence[float]) -> Flags:
        """Which protocols carry all messages of V = `nbytes`, by the longest message of each."""
        if all(map(isinf, most)):
            return np.ones(len(most), dtype=np.bool_)
        return np.asarray(self.routed.schedule.scaled(nbytes).longest_message <= np.array(most))

    def _keep(
        self, row: Floats, costs: Floats, nbytes: float, protocol: int, makespan: float
    ) -> None:
        rows = self.found.setdefault(self._place(protocol, nbytes), {})
        for key, known in list(rows.items()):
            # a path may be longer than the time that it explains by this share
            if float(known @ _each(costs, nbytes)) > makespan * (1 + 1e-9):
                del rows[key]
        rows[np.round(row, 9).tobytes()] = row

    def longest(self, costs: Floats, nbytes: float, protocol: int = 0) -> float:
        """Seconds of the longest known path; 0 without any."""
        return max(
            (float(row @ _each(costs, nbytes)) for row in self.rows(protocol, nbytes)), default=0.0
        )


def _each(costs: Floats, nbytes: float) -> Floats:
    kinds = len(costs) // 3
    return np.repeat((1.0, nbytes, 1.0, nbytes), (kinds, kinds, kinds, 1)) * costs
