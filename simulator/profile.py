"""What calibration learnt about a machine: what software adds, and α, g and β of each kind of link
by protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import inf
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Algorithm
from simulator.effects.jobs import Jobs, job, nodes_of
from simulator.effects.labels import Ineffective
from simulator.effects.link_slowdowns import Crowding, Exchanges, PeerChannels
from simulator.effects.software_costs import HostMemory, KernelCosts, PieceCounts
from simulator.engines import run
from simulator.schedules.routed import Routed
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import ProfileRun, Timeline
from simulator.stacked_records import stacked
from simulator.uncertainty.interval import LEVEL, quantile
from simulator.uncertainty.residuals import Residuals
from topologies.errors import InputError
from topologies.html_tables import facts, table
from topologies.link import Link
from topologies.topology import Floats, Topology
from topologies.units import format_bandwidth, format_seconds


class LinkCosts(NamedTuple):
    """What links cost in some jobs, shape (protocols, kinds, ...). The jobs' shape comes last."""

    latency: Floats
    """α in seconds."""
    bandwidth: Floats
    """β in bytes/s."""
    gap: Floats
    """g in seconds."""


@dataclass(frozen=True)
class Protocol:
    """How a library moves data."""

    name: str
    """The name of the protocol."""
    links: Mapping[str, Link]
    """What a link costs, by its kind."""
    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The factors on α in single algorithms, by the algorithm's name and the link's kind."""
    most: float = inf
    """The bytes of the longest message that the protocol carries."""

    def factor(self, algorithm: str, kind: str) -> float:
        """The factor by which α of links of `kind` is longer in `algorithm`."""
        return self.factors.get(algorithm, {}).get(kind, 1.0)

    def slowed(self, algorithms: Sequence[str], factor: float) -> Protocol:
        """The protocol with α of all links longer by a factor in some algorithms."""
        slowed = {
            name: {kind: self.factor(name, kind) * factor for kind in self.links}
            for name in algorithms
        }
        return replace(self, factors={**self.factors, **slowed})


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How sure a profile is of its predictions."""

    residuals: Residuals
    """The part of the measured times that the profile does not explain."""
    variants: tuple[Profile, ...] = ()
    """The profile with its parameters moved by one standard deviation, along each of several
    independent directions."""
    level: float = LEVEL
    """The share of runs that an interval holds."""
    software: float = 0.0
    """The standard deviation of log(measured / predicted) of what is no bytes on links."""
    between: float = 0.0
    """The same in jobs over several nodes besides. Its variance grows with that share of the time,
    and not with the square of the share."""

    @cached_property
    def together(self) -> Profile:
        """The variants as one profile: see :func:`stacked`."""
        return stacked(self.variants)


@dataclass(frozen=True)
class Profile:
    """What calibration learnt about a machine and a library."""

    name: str
    """The name of the profile."""
    machine: str
    """The topology that the profile was fitted on, as `--topology` takes it."""
    launch: float
    """Seconds before the first operation of a collective."""
    protocols: tuple[Protocol, ...]
    """The protocols. A collective takes the fastest."""
    crowding: Mapping[str, Crowding] = field(default_factory=dict)
    """How links slow down as a job grows, by their kind."""
    memory: HostMemory = field(default_factory=HostMemory)
    """What memory of the host costs."""
    scratch: Mapping[str, float] = field(default_factory=dict)
    """The new memory that an algorithm writes, in units of V."""
    paced: bool = False
    """Whether links inside nodes have at most the β of those between nodes, before crowding, in a
    job over several nodes."""
    pace_on_two: float = 1.0
    """The factor on that β in a job over two nodes."""
    joined: Mapping[str, float] = field(default_factory=dict)
    """The memory that an algorithm has registered again, in units of V and ranks."""
    slower: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The factors on 1/β in single algorithms, by the algorithm's name and the link's kind."""
    launches: Mapping[str, float] = field(default_factory=dict)
    """The launch of single algorithms, instead of `launch`."""
    exchanges: Exchanges = field(default_factory=Exchanges)
    """What long exchanges cost."""
    pieces: Mapping[str, PieceCounts] = field(default_factory=dict)
    """Into how many pieces the library divides V in single algorithms, by the algorithm's name."""
    channels: Mapping[str, PeerChannels] = field(default_factory=dict)
    """The channels of a message to one peer, by the algorithm's name."""
    kernels: KernelCosts = field(default_factory=KernelCosts)
    """What kernels on GPUs cost."""
    ineffective: tuple[Ineffective, ...] = ()
    """Labels without effect on the runs of the profile."""
    uncertainty: Uncertainty | None = field(default=None, compare=False)
    """None if the profile has none: an old file, or a profile that was written by hand."""
    choices: Callable[[str, Topology, float], tuple[str, ...]] | None = field(
        default=None, compare=False
    )
    """From a collective, the machine of a job and V in bytes to the algorithms of which the library
    runs the fastest; None if they are not known."""
    runs: Callable[[str, Topology], bool] | None = field(default=None, compare=False)
    """Whether the library can run an algorithm in a job on a machine; None if it is not known."""
    specified: bool = field(default=False, compare=False)
    """Whether the links of machines without the profile are as specified."""

    def _repr_html_(self) -> str:
        values = [("fitted on", self.machine), ("launch", format_seconds(self.launch))]
        header = ("protocol", "links of kind", "bandwidth β", "latency α", "gap g")
        links = [
            (
                protocol.name,
                kind,
                format_bandwidth(link.bandwidth),
                format_seconds(link.latency),
                format_seconds(link.gap),
            )
            for protocol in self.protocols
            for kind, link in protocol.links.items()
        ]
        return facts(f"Profile {self.name}", values) + table(header, links)

    def at_level(self, level: float | None) -> Profile:
        """The profile with intervals that hold the share `level` of runs; None is its own.

        Raises InputError if it has no intervals, or if `level` is no share.
        """
        if level is None:
            return self
        if self.uncertainty is None:
            raise InputError(
                f"--level {level:g}: the profile {self.name} does not say how sure it is: "
                f"calibrate it again"
            )
        quantile(level)
        return replace(self, uncertainty=replace(self.uncertainty, level=level))

    def divided(self, algorithm: str, nbytes: float) -> str:
        """The name of an algorithm with the pieces into which the library divides V."""
        pieces = self.pieces.get(algorithm)
        return algorithm if pieces is None else pieces.name(algorithm, nbytes)

    def apply(
        self,
        topology: Topology,
        protocol: Protocol,
        algorithm: str = "",
        nbytes: float = 1.0,
        jobs: Jobs | None = None,
    ) -> Topology:
        """`topology` as `protocol` finds it in `jobs`, by default in one of all its ranks. Raises
        InputError if it has a kind of link that is not known."""
        jobs = job(algorithm, topology) if jobs is None else jobs
        return self._applied(topology, (protocol,), jobs, nbytes)[0]

    def _applied(
        self, topology: Topology, protocols: Sequence[Protocol], jobs: Jobs, nbytes: float
    ) -> list[Topology]:
        """`topology` as each of `protocols` finds it, with the links that all of them know."""
        kinds = [
            kind
            for kind in protocols[0].links
            if all(kind in protocol.links for protocol in protocols)
        ]
        timed = np.isfinite(topology.bandwidth)
        rated = {
            kind
            for kind in topology.link_kinds.vocabulary
            if timed[topology.link_kinds.are(kind)].any()
        }
        if unknown := sorted(rated.difference(kinds)):
            raise InputError(
                f"{topology.name} has links of kind {unknown[0]}, which {self.name} knows "
                f"nothing of: it is of {self.machine}"
            )
        costs = self.link_costs(jobs, protocols, kinds)
        links = [np.flatnonzero(topology.link_kinds.are(kind)) for kind in kinds]
        reduction = np.full_like(topology.reduction, self.memory.merge(nbytes))
        machines = []
        for number in range(len(protocols)):
            latency, bandwidth, gap = (
                column.copy()
                for column in (topology.latency, topology.medium_bandwidth, topology.medium_gap)
            )
            for k, chosen in enumerate(links):
                latency[chosen], bandwidth[chosen], gap[chosen] = (
                    column[number, k] for column in costs
                )
            machines.append(
                replace(
                    topology,
                    latency=latency,
                    medium_bandwidth=bandwidth,
                    medium_gap=gap,
                    reduction=reduction,
                )
            )
        return machines

    def link_costs(
        self, jobs: Jobs, protocols: Sequence[Protocol], kinds: Sequence[str]
    ) -> LinkCosts:
        """What links of `kinds` cost in `jobs`, by each of `protocols`."""
        shape = jobs.nodes.shape
        unit_factors, paced_by_network = np.ones((2, *shape)), self.paced and "network" in kinds
        costs: list[Floats | float] = []
        for kind in kinds:
            crowding = self.crowding.get(kind)
            longer, crowded = unit_factors if crowding is None else crowding.slower(jobs.nodes)
            factors = {name: row.get(kind, 1.0) for name, row in self.slower.items()}
            slower = jobs.by_algorithm(factors, 1.0)
            # The kind of link whose β these links have over several nodes, before crowding.
            pacing = "network" if paced_by_network else kind
            pacing_crowd = self.crowding.get(pacing)
            sharing = 1.0 if pacing_crowd is None else pacing_crowd.sharing(jobs.sharers())
            for protocol in protocols:
                link, pacer = protocol.links[kind], protocol.links[pacing].bandwidth / sharing
                if pacing == kind:
                    paced = pacer
                else:
                    channels = np.where(jobs.nodes > 2, 1.0, self.pace_on_two)
                    paced = np.minimum(pacer * channels, link.bandwidth)
                bandwidth = np.where(jobs.nodes > 1, paced, link.bandwidth)
                factors = {name: row.get(kind, 1.0) for name, row in protocol.factors.items()}
                latency = link.latency * jobs.by_algorithm(factors, 1.0) * longer
                slowed = crowding is not None and crowding.slows(protocol.name)
                costs += latency, bandwidth / (slower * crowded if slowed else slower), link.gap
        columns = np.empty((len(costs), *np.broadcast_shapes(shape, *map(np.shape, costs))))
        for row, cost in enumerate(costs):
            columns[row] = cost
        shaped = columns.reshape(len(kinds), len(protocols), 3, *columns.shape[1:])
        return LinkCosts(*np.moveaxis(shaped, (2, 0, 1), (0, 2, 1)))

    def simulate(
        self,
        routed: Routed,
        algorithm: Algorithm,
        run: Callable[[Routed], Timeline] = run,
        known: Callable[[Profile, str, Routed], Routed] | None = None,
    ) -> ProfileRun:
        """Simulate every protocol over the routes that the machine has without one, and keep the
        fastest. A schedule that is folded is checked for lanes: see
        :func:`simulator.schedules.routed.route`. `known` are routes that other sizes have laid."""
        overheads = self.overheads(routed.schedule, routed.machine, algorithm)
        protocols = self.carrying(routed.schedule)
        if known is None:
            laid = self.laid(routed, protocols, algorithm)
        else:
            laid = [known(self, protocol.name, routed) for protocol in protocols]
        runs = (
            ProfileRun(protocol.name, run(routes), overheads)
            for protocol, routes in zip(protocols, laid, strict=True)
        )
        return min(runs, key=lambda candidate: candidate.seconds)

    def carrying(self, schedule: Schedule) -> tuple[Protocol, ...]:
        """The protocols that carry all messages of a schedule. If none does, all."""
        longest = schedule.longest_message
        protocols = tuple(protocol for protocol in self.protocols if longest <= protocol.most)
        return protocols or self.protocols

    def laid(
        self, routed: Routed, protocols: Sequence[Protocol], algorithm: Algorithm
    ) -> list[Routed]:
        """The routes on the machine as each of `protocols` finds it."""
        nbytes = routed.schedule.nbytes_total
        jobs = job(algorithm.listed_name, routed.machine)
        machines = self._applied(routed.machine, protocols, jobs, nbytes)
        folded: Sequence[Topology | None] = [None] * len(machines)
        if routed.whole is not None:
            folded = self._applied(routed.topology, protocols, jobs, nbytes)
        return [over(routed, *pair) for pair in zip(machines, folded, strict=True)]

    def overheads(
        self, schedule: Schedule, topology: Topology, algorithm: Algorithm
    ) -> dict[str, float]:
        """Seconds that no link takes, by name."""
        shares = self.shares_of(schedule, topology, algorithm)
        return {name: float(seconds.item()) for name, seconds in shares.items()}

    def shares_of(
        self, schedule: Schedule, topology: Topology, algorithm: Algorithm
    ) -> dict[str, Floats]:
        """The same in arrays of shape (1,), or (profiles, 1) of several profiles as one."""
        jobs = job(algorithm.listed_name, topology, algorithm.collective.name)
        jobs = jobs._replace(ranks=np.array(float(schedule.workers))).at(np.newaxis)
        kinds = [kind for kind in self.crowding if topology.link_kinds.are(kind).any()]
        excess = 0.0
        if np.any(self.exchanges.slowness):
            messages = schedule.exchanged(self.exchanges.beyond, nodes_of(topology))
            excess = self.exchanges.excess(messages)
        return self.shares(jobs, schedule.nbytes_total, excess, kinds)

    def shares(
        self, jobs: Jobs, nbytes: Floats | float, excess: Floats | float, kinds: Sequence[str]
    ) -> dict[str, Floats]:
        """Seconds that no link takes, by name, each in the jobs' shape: the call, the copy of V to
        where it is reduced, fresh memory, what long exchanges between nodes and messages to one
        peer in a node take more, and what kernels on GPUs add.

        `excess` is what they have beyond `exchanges.beyond`, in bytes. It slows down with the
        number of nodes as links between nodes do: as the first of `kinds` that does.
        """
        launch = jobs.by_algorithm(self.launches, self.launch)
        scratch, joined = (jobs.by_algorithm(costs, 0.0) for costs in (self.scratch, self.joined))
        between = next((self.crowding[kind] for kind in kinds if kind in self.crowding), Crowding())
        longer = self.exchanges.slowness
        return {
            "launch": launch,
            "copy to merge": nbytes * jobs.reduces * self.memory.touch(nbytes),
            "fresh memory": self.memory.allocate(scratch, nbytes, joined * jobs.ranks, jobs.ranks),
            "long exchanges": longer * excess * between.slower(jobs.nodes)[1]
            if np.any(longer)
            else np.zeros(jobs.nodes.shape),
            "few channels": sum(
                (self._few_channels(name, jobs, nbytes) for name in self.channels),
                start=np.zeros(jobs.nodes.shape),
            ),
            **self._kernel_shares(jobs, nbytes),
        }

    def _kernel_shares(self, jobs: Jobs, nbytes: Floats | float) -> dict[str, Floats]:
        """What kernels on GPUs add. The fastest kind of link is that inside nodes."""
        if not any(np.any(cost) for cost in self.kernels):
            return {}
        links = self.protocols[-1].links.values()
        slowness = reduce(np.minimum, (1 / link.bandwidth for link in links))
        return self.kernels.shares(jobs, nbytes, slowness)

    def _few_channels(self, algorithm: str, jobs: Jobs, nbytes: Floats | float) -> Floats:
        """Seconds that messages of an algorithm to one peer take more than with all channels."""
        few = self.channels[algorithm]
        # 1/β of all channels is that of the last protocol.
        factor = self.slower.get(algorithm, {}).get(few.kind, 1.0)
        slowness = factor / self.protocols[-1].links[few.kind].bandwidth
        return jobs.by_algorithm({algorithm: 1.0}, 0.0) * few.excess(jobs, nbytes, slowness)

    def ignored(
        self, label: str, collective: str, ranks: int, nodes: int | None = None, library: str = ""
    ) -> Ineffective | None:
        """What is known of a label without effect; None where it had its effect, or nothing is
        known."""
        entries = (
            entry
            for entry in self.ineffective
            if entry.covers(label, collective, ranks, nodes, library)
        )
        return next(entries, None)


def over(routed: Routed, machine: Topology, folded: Topology | None = None) -> Routed:
    """The same routes on a machine whose links cost something else; `folded` is that of a folded
    schedule."""
    return replace(
        routed,
        topology=folded or machine,
        whole=folded and machine,
        reduction=machine.reduction[machine.placement[: len(routed.reduction)]],
    )
