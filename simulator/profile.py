"""What calibration learnt about a machine: what software adds, and α, g and β of each kind of link
by protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import Algorithm
from simulator.crowding import Crowding
from simulator.engines import run
from simulator.schedules.routed import Routed, route
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology


class Cost(NamedTuple):
    """α and g in seconds and β in bytes/s of a link."""

    latency: float
    gap: float
    bandwidth: float


COMMON = ("launch", "copy to merge")
"""What the library does for a collective, whatever the algorithm."""
ALONE = ("shift",)
"""Algorithms in which one rank of a node sends to another, and does not share the node's ports."""


class Memory(NamedTuple):
    """Seconds a byte: to merge (γ) and to touch the buffer once, below and beyond `cache` bytes of
    V; to get `fresh` memory for scratch of V >= `mapped` bytes, which the allocator maps anew in
    each call, or memory that it gave `back` at the heap's end, where an algorithm has several
    blocks of more than `trimmed` bytes; to have such fresh memory `registered` with the network
    again; and seconds for each time that memory is `pinned` for it, however much."""

    reduction: float = 0.0
    reduction_beyond: float = 0.0
    copy: float = 0.0
    copy_beyond: float = 0.0
    fresh: float = 0.0
    cache: float = 2.0**23.5
    back: float = 0.0
    mapped: float = 2.0**25
    trimmed: float = 2.0**19
    registered: float = 0.0
    pinned: float = 0.0

    def beyond(self, nbytes: Floats | float) -> Floats:
        """The share of the work that memory does, and not the cache: half of it at `cache` bytes,
        94% at twice."""
        return np.asarray(1 / (1 + (self.cache / np.asarray(nbytes)) ** 4))

    def merge(self, nbytes: float) -> float:
        """γ of a collective of V bytes."""
        share = float(self.beyond(nbytes))
        return (1 - share) * self.reduction + share * self.reduction_beyond

    def touch(self, nbytes: float) -> float:
        """Seconds a byte of a copy of V bytes."""
        share = float(self.beyond(nbytes))
        return (1 - share) * self.copy + share * self.copy_beyond

    def allocate(
        self, scratch: Floats | float, nbytes: Floats | float, joined: Floats | float = 0.0
    ) -> Floats:
        """Seconds to write `scratch` * V bytes of new memory, to pin it, and to register `joined` *
        V of it again, V/2 at a time; nothing where the allocator keeps them from call to call.

        glibc maps blocks of 32 MiB and more (mallopt(3), M_MMAP_THRESHOLD); above V there are
        several.
        """
        blocks, size = np.asarray(scratch), np.asarray(nbytes)
        trimmed = (blocks > 1) & (size > self.trimmed)
        again = np.asarray(joined)
        mapped = (
            size * (blocks * self.fresh + again * self.registered)
            + ((blocks > 0) + 2 * again) * self.pinned
        )
        given = size * blocks * self.back + self._given * self.pinned
        return np.asarray(np.where(size >= self.mapped, mapped, trimmed * given))

    @property
    def _given(self) -> float:
        """The share of memory given back, by what it costs to get it anew."""
        return min(1.0, self.back / self.fresh) if self.fresh else float(self.back > 0)


class Exchanges(NamedTuple):
    """Messages that two ranks send to each other in one step over several nodes: of each, the bytes
    after the first `beyond` take `slowness` seconds a byte more, as a long exchange does not move
    both ways at full rate."""

    slowness: float = 0.0
    beyond: float = 2.0**22

    def longer(self, messages: Floats) -> float:
        """Seconds by which one such message a step, shape (steps,), makes a schedule longer on a
        quiet network."""
        return self.slowness * float(np.maximum(0.0, messages - self.beyond).sum())


@dataclass(frozen=True)
class Protocol:
    """How a library moves data: what a link of each kind costs, and by how much more its α counts
    in an algorithm, by the algorithm's name and the link's kind."""

    name: str
    links: Mapping[str, Cost]
    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def factor(self, algorithm: str, kind: str) -> float:
        """By how much α of links of `kind` is longer in `algorithm`."""
        return self.factors.get(algorithm, {}).get(kind, 1.0)


class Ineffective(NamedTuple):
    """A label that had no effect: runs of a `collective` that were told to take the algorithm
    `label` took one of `ran` instead. That was on `ranks` ranks and `nodes` nodes, on every number
    that was measured where these are None, with the `library` in words, any where that is empty."""

    label: str
    collective: str
    ran: tuple[str, ...]
    ranks: int | None = None
    nodes: int | None = None
    library: str = ""

    def covers(
        self, label: str, collective: str, ranks: int, nodes: int | None = None, library: str = ""
    ) -> bool:
        """Whether it speaks of runs with such a label; what is not known of them, or not stored,
        agrees."""
        mine, theirs = (
            (self.ranks, self.nodes, self.library or None),
            (ranks, nodes, library or None),
        )
        same = all(
            one is None or other is None or one == other
            for one, other in zip(mine, theirs, strict=True)
        )
        return same and (label.lower(), collective) == (self.label.lower(), self.collective)


class Run(NamedTuple):
    """A collective under a profile: the timeline of the fastest protocol, and seconds of what that
    leaves out, by name: the call, host memory made ready, and what long exchanges take more."""

    protocol: str
    timeline: Timeline
    beside: Mapping[str, float]

    @property
    def launch(self) -> float:
        """Seconds beside the timeline."""
        return sum(self.beside.values())

    @property
    def common(self) -> float:
        """Those of them that are of the collective, whichever algorithm runs it: they are below any
        bound."""
        return sum(self.beside.get(part, 0.0) for part in COMMON)

    @property
    def seconds(self) -> float:
        """From the call to the last finish."""
        return self.launch + self.timeline.makespan


@dataclass(frozen=True)
class Profile:
    """`machine` is the topology that it was fitted on, as `--topology` takes it. `launch` seconds
    precede the first operation of a collective, those of some algorithms in `launches`; algorithms
    write new memory, `scratch` in units of V, and have it registered again, `joined` in units of V
    and ranks; 1/β counts more in some, by how much is in `slower`, by the algorithm's name and the
    link's kind. `paced`: over several nodes, links inside them have the β of those between before
    crowding, where that is less. `ineffective`: labels without effect on its runs."""

    name: str
    machine: str
    launch: float
    protocols: tuple[Protocol, ...]
    crowding: Mapping[str, Crowding] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    scratch: Mapping[str, float] = field(default_factory=dict)
    paced: bool = False
    joined: Mapping[str, float] = field(default_factory=dict)
    slower: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    launches: Mapping[str, float] = field(default_factory=dict)
    exchanges: Exchanges = field(default_factory=Exchanges)
    ineffective: tuple[Ineffective, ...] = ()

    def apply(
        self, topology: Topology, protocol: Protocol, algorithm: str = "", nbytes: float = 1.0
    ) -> Topology:
        """`topology` as `protocol` finds it. Raises InputError if it has a kind of link that is not
        known."""
        kinds = {kind for kind in topology.link_kinds.vocabulary if _has_rate(topology, kind)}
        unknown = sorted(kinds - protocol.links.keys())
        if unknown:
            raise InputError(
                f"{topology.name} has links of kind {unknown[0]}, which {self.name} knows "
                f"nothing of: "
                f"it is of {self.machine}"
            )
        latency, bandwidth, gap = (
            topology.latency.copy(),
            topology.medium_bandwidth.copy(),
            topology.medium_gap.copy(),
        )
        size = used_nodes(topology)
        for kind, cost in protocol.links.items():
            links = np.flatnonzero(topology.link_kinds.are(kind))
            longer, slower = self._crowding(kind, size).slower(size)
            latency[links] = cost.latency * protocol.factor(algorithm, kind) * longer
            slower *= self.slower.get(algorithm, {}).get(kind, 1.0)
            pacer = "network" if self.paced and size > 1 and "network" in protocol.links else kind
            rate = protocol.links[pacer].bandwidth / self._sharing(pacer, topology, algorithm)
            bandwidth[links] = (rate if pacer == kind else min(rate, cost.bandwidth)) / slower
            gap[links] = cost.gap
        reduction = np.full_like(topology.reduction, self.memory.merge(nbytes))
        return replace(
            topology,
            latency=latency,
            medium_bandwidth=bandwidth,
            medium_gap=gap,
            reduction=reduction,
        )

    def simulate(
        self,
        schedule: Schedule,
        topology: Topology,
        algorithm: Algorithm,
        run: Callable[[Routed], Timeline] = run,
    ) -> Run:
        """Simulate every protocol over the routes that the machine has without one, and keep the
        fastest."""
        nbytes, routed = schedule.nbytes_total, route(schedule, topology)
        beside = self.beside(schedule, topology, algorithm)
        machines = {
            one.name: self.apply(topology, one, algorithm.name, nbytes) for one in self.protocols
        }
        runs = (Run(name, run(over(routed, machine)), beside) for name, machine in machines.items())
        return min(runs, key=lambda found: found.seconds)

    def beside(
        self, schedule: Schedule, topology: Topology, algorithm: Algorithm
    ) -> dict[str, float]:
        """Seconds of what no link does: the call, the copy of V to where it is reduced, fresh
        memory, and what long exchanges between nodes take more."""
        nbytes = schedule.nbytes_total
        scratch, joined = (one.get(algorithm.name, 0.0) for one in (self.scratch, self.joined))
        return {
            "launch": self.launches.get(algorithm.name, self.launch),
            "copy to merge": nbytes
            * self.touched(algorithm.collective.name)
            * self.memory.touch(nbytes),
            "fresh memory": float(self.memory.allocate(scratch, nbytes, joined * schedule.ranks)),
            "long exchanges": self._exchanged(schedule, topology)
            if self.exchanges.slowness
            else 0.0,
        }

    def ignored(
        self, label: str, collective: str, ranks: int, nodes: int | None = None, library: str = ""
    ) -> Ineffective | None:
        """What is known of a label without effect; None where it had its effect, or nothing is
        known."""
        found = (
            one for one in self.ineffective if one.covers(label, collective, ranks, nodes, library)
        )
        return next(found, None)

    def _exchanged(self, schedule: Schedule, topology: Topology) -> float:
        """Seconds that long exchanges take more; they slow down with the number of nodes as links
        between them do."""
        size = used_nodes(topology)
        between = next((kind for kind in self.crowding if topology.link_kinds.are(kind).any()), "")
        _, slower = self._crowding(between, size).slower(size)
        return float(
            slower
            * self.exchanges.longer(schedule.exchanged(self.exchanges.beyond, nodes_of(topology)))
        )

    def _crowding(self, kind: str, size: float) -> Crowding:
        return self.crowding.get(kind, Crowding(size))

    def _sharing(self, kind: str, topology: Topology, algorithm: str) -> float:
        """By how much 1/β of links between nodes is longer for so many ranks as a node has."""
        size = used_nodes(topology)
        per_node = 1 if algorithm in ALONE else -(-np.count_nonzero(_works(topology)) // size)
        return self._crowding(kind, size).sharing(per_node) if size > 1 else 1.0

    @staticmethod
    def touched(collective: str) -> float:
        """How often the library touches the whole buffer before it sends: once where it reduces,
        into its own copy."""
        return float("reduce" in collective)


def nodes_of(topology: Topology) -> Ints:
    """The node of every rank, shape (ranks,); a rank outside of any is one."""
    node = topology.node[topology.placement]
    return np.where(node < 0, len(topology.node) + np.arange(len(node)), node).astype(np.int32)


def used_nodes(topology: Topology) -> float:
    """How many nodes the ranks are in, but for switches that reduce."""
    return float(len(np.unique(nodes_of(topology)[_works(topology)])))


def _works(topology: Topology) -> npt.NDArray[np.bool_]:
    """Which ranks are no switches, shape (ranks,)."""
    return np.asarray(~topology.in_network[topology.placement].astype(np.bool_))


def over(routed: Routed, machine: Topology) -> Routed:
    """The same routes on a machine whose links cost something else."""
    return replace(
        routed,
        topology=machine,
        reduction=machine.reduction[machine.placement[: len(routed.reduction)]],
    )


def _has_rate(topology: Topology, kind: str) -> bool:
    """Whether links of a kind take time."""
    return bool(np.isfinite(topology.bandwidth[topology.link_kinds.are(kind)]).any())
