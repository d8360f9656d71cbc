"""A communication library as a fit knows it, and what it may have run in a measured curve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from experiments.calibration.decisions import Rule, rules
from experiments.calibration.effects.effect import Data, Effect, Prior
from experiments.calibration.effects.link_effects import FED
from experiments.calibration.observations import FitCurve, forced
from experiments.measurements import Curve
from experiments.spellings import named
from simulator.collectives.in_network import multicasts
from simulator.effects.jobs import used_nodes
from simulator.effects.software_costs import PieceCounts
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.topology import Topology

ELEMENT = 4
"""Bytes."""
MOST_ACROSS = 16
"""Nodes up to which trees across switches that multicast may be the fastest. On more, rings send
large sizes faster, and such trees take long to simulate."""
PAIR = 2
"""So many ranks of a node do without switches that multicast."""
VERBS, TCP, PLUGIN = "verbs", "TCP", "plugin"
"""Transports. With verbs, the NICs of InfiniBand and RoCE read and write GPUs or hosts."""


@dataclass(frozen=True)
class Library:
    """A communication library."""

    name: str
    protocols: tuple[Prior, ...]
    effects: tuple[Callable[[Data], Effect], ...]
    """The effects that make up the time of a collective, each a function of the data. An effect may
    change what earlier effects wrote."""
    chooses: Mapping[str, tuple[str, ...]]
    """The algorithms of each collective if none is forced, and no published rule says which."""
    multicasts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The algorithms that it may choose besides if the switches of a node multicast."""
    across: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The same in jobs over several nodes, with more than two ranks on each."""
    spelled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The algorithms that may run under a name that is not one of ours."""
    few: Mapping[str, str] = field(default_factory=dict)
    """The algorithm that runs instead of another one if there are fewer elements than ranks."""
    deviates: bool = False
    """Whether the library may run its own choice in spite of a forced algorithm."""
    by_message: bool = False
    """Whether the size of each message decides what it costs, and not that of the collective."""
    unsure: tuple[str, ...] = ()
    """Forced algorithms that the library replaces without a message if the machine lacks what they
    need."""
    pieces: Mapping[str, PieceCounts] = field(default_factory=dict)
    """The algorithms that the library divides into other pieces than simctl does."""
    transport: str = VERBS
    """The transport that α of `protocols` are of."""
    plugins: bool = False
    """Whether it sends through the host by a plugin or sockets wherever there are no verbs."""
    over_nics: Mapping[str, str] = field(default_factory=dict)
    """The algorithms that take one NIC of each node here, and those that take all of them."""

    def on(self, machine: Blueprint | None) -> Library:
        """The library on a machine whose NICs are known. Nodes of a shape have a port each, as by
        default."""
        if machine is None or machine.kind == "shape":
            return self
        instead = self.over_nics
        return replace(
            self,
            chooses={
                collective: tuple(instead.get(name, name) for name in names)
                for collective, names in self.chooses.items()
            },
            spelled={**self.spelled, **{name: (other,) for name, other in instead.items()}},
        )

    def with_figures(self, launches: Mapping[str, float]) -> Library:
        """The library without algorithms of several nodes that have no launch in a profile: nobody
        knows where it takes them."""
        across = (name for names in self.across.values() for name in names)
        return self if {*across} <= launches.keys() else replace(self, across={})

    @property
    def known(self) -> tuple[str, ...]:
        """The algorithms of all collectives that the library may choose, and those that replace
        them for few elements."""
        names = [name for names in self.chooses.values() for name in names]
        return (*names, *(self.few[name] for name in names if name in self.few))

    def rule(
        self, collective: str, ranks: int | None, version: str, nodes: int | None = None
    ) -> Rule | None:
        """The published rule by which this version of the library chooses, if there is one. Without
        `nodes`, each rank has a node."""
        if not ranks or not self.deviates:
            return None
        known = rules(version, levels=1 < (nodes or ranks) < ranks) or {}
        rule = known.get(collective)
        return partial(rule, ranks) if rule else None

    def running(self, names: tuple[str, ...], elements: float, ranks: int) -> tuple[str, ...]:
        """The algorithms that run on so many elements if `names` were chosen, with their pieces."""
        ran = (self.few.get(name, name) if elements < ranks else name for name in names)
        return tuple(
            self.pieces[name].name(name, elements * ELEMENT) if name in self.pieces else name
            for name in dict.fromkeys(ran)
        )

    def ran(self, curve: FitCurve, nbytes: float, names: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The algorithms that may have run a size of a curve if `names` were chosen. Without names,
        those of the label or of the library's rule."""
        names = names or ((curve.rule(nbytes),) if curve.rule else curve.algorithms)
        return self.running(names, nbytes / ELEMENT, curve.ranks)

    def algorithms(
        self, collective: str, forced: str = "", *, multicast: bool = False
    ) -> tuple[str, ...]:
        """The algorithms here that may have run a collective; none if it is unknown. `multicast`:
        whether the switches of a node multicast."""
        if forced:
            return named(self.spelled.get(forced, (forced,)), collective)
        more = self.multicasts.get(collective, ()) if multicast else ()
        return named((*self.chooses.get(collective, ()), *more), collective)

    def algorithms_on(
        self, topology: Topology, collective: str, forced: str = ""
    ) -> tuple[str, ...]:
        """As :meth:`algorithms`, in a job on all ranks of a machine. A label that is unknown counts
        as none."""
        labelled = self.algorithms(collective, forced) if forced else ()
        if labelled:
            return labelled
        nodes = used_nodes(topology)
        multicast = topology.ranks > PAIR * nodes and multicasts(topology)
        usual = self.algorithms(collective, multicast=multicast and nodes == 1)
        more = self.across.get(collective, ()) if multicast and 1 < nodes <= MOST_ACROSS else ()
        return (*usual, *named(more, collective))


def fit_curve(
    curve: Curve,
    library: Library,
    *,
    in_place: bool = False,
    ran: tuple[str, ...] = (),
    multicast: bool = False,
) -> FitCurve:
    """A curve as data of a fit.

    Its algorithms are those in `ran` if the caller knows them. Otherwise they are the forced
    algorithm, or those that `library` chooses from if the switches of a node multicast or do not.
    Raises InputError if the curve lacks something
    that a fit needs.
    """
    collective = curve.pattern
    algorithms = ran or library.algorithms(collective, curve.algorithm, multicast=multicast)
    word = forced(curve)
    rule = (
        None if ran or word else library.rule(collective, curve.ranks, curve.library, curve.nodes)
    )
    if not algorithms:
        choice = curve.algorithm or f"whatever {library.name} chooses"
        raise InputError(
            f"{curve.source}: nothing here simulates {collective} by {choice}: leave it out"
        )
    if not curve.ranks or curve.ranks < 2:
        raise InputError(
            f"{curve.source}: {curve.ranks or 'an unknown number of'} ranks: a fit needs at least 2"
        )
    measured = curve.in_place if in_place else curve.points or curve.in_place
    points = [point for point in measured if not point.wrong]
    sizes = np.array([float(point.size) for point in points])
    seconds = np.array([point.time_s for point in points])
    chosen = library.algorithms(collective)
    substitutes = tuple(
        name for name in chosen if library.deviates and name not in algorithms and not ran
    )
    ignored = bool(word) and (not curve.algorithm or bool(ran))
    instead: tuple[tuple[str, ...], ...] = tuple(
        (name,) for name in algorithms if ignored and not ran and len(algorithms) > 1
    )
    instead += (algorithms + substitutes,) if substitutes else ()
    if rule:
        instead = (algorithms,)
        algorithms = tuple(dict.fromkeys(map(rule, sizes.tolist())))
    nodes = _nodes(curve, curve.ranks)
    return FitCurve(
        curve.source,
        collective,
        algorithms,
        curve.ranks,
        nodes,
        sizes,
        seconds,
        protocols=tuple(
            prior.name
            for prior in library.protocols
            if curve.protocol and curve.protocol in (prior.name, prior.kind_of)
        ),
        forced=word,
        ignored=ignored,
        instead=instead,
        library=curve.library,
        rule=rule,
    )


def _nodes(curve: Curve, ranks: int) -> int:
    """The number of nodes. If the file does not say it, each rank counts as a node.

    Raises InputError if that many nodes cannot have had the ranks: as many on each, and the rest on
    the last.
    """
    nodes = curve.nodes or ranks
    if nodes > ranks:
        raise InputError(
            f"{curve.source}: {nodes} nodes for {ranks} ranks: there is a rank or more on each, "
            f"correct it"
        )
    if -(-ranks // -(-ranks // nodes)) != nodes:
        raise InputError(
            f"{curve.source}: {ranks} ranks cannot fill {nodes} nodes alike: correct one of the two"
        )
    return nodes


def port(curves: Iterable[Curve]) -> float:
    """Bytes/s of a node's port, from point-to-point runs between two nodes: the most that all pairs
    moved at once.

    In OSU's bandwidths of pairs, half of the ranks send to the other half. In its latencies of
    pairs, every other pair sends back. In other runs, ranks send round a ring, and one of them
    sends to the other node. A run without a number of nodes counts as a run between two. Raises
    InputError if there is no run.
    """
    rates = [
        _leaving(curve) * point.size / point.time_s
        for curve in curves
        if curve.collective == "send_recv" and curve.nodes in (2, None)
        for point in curve.points
        if not point.wrong
    ]
    if not rates:
        raise InputError(
            "no point-to-point run between two nodes: --links takes those of osu_mbw_mr, osu_bw, "
            "osu_latency"
        )
    return max(rates)


def _leaving(curve: Curve) -> float:
    pairs = (curve.ranks or 2) // 2
    if curve.pattern == "ping_pong":
        return float(-(-pairs // 2))
    return float(pairs) if curve.pairs else 1.0


def linked(library: Library, bandwidth: float) -> Library:
    """A library on a machine whose nodes have ports of `bandwidth` bytes/s.

    Its last protocol gets all of that. The other protocols get the share that their flags leave,
    unless they are slower for another reason.
    """
    *faster, last = library.protocols
    protocols = (*(_slowed(prior, bandwidth) for prior in faster), _between(last, 1 / bandwidth))
    return replace(library, protocols=protocols)


def _slowed(prior: Prior, bandwidth: float) -> Prior:
    reached = prior.reached.get("network")
    usual = 1 / (reached * max(FED, bandwidth)) if reached else prior.slowness["network"]
    return _between(prior, max(usual, 1 / (prior.share * bandwidth)))


def _between(prior: Prior, slowness: float) -> Prior:
    kinds = tuple(prior.slowness) if prior.one_rate else ("network",)
    return replace(prior, slowness={**prior.slowness, **dict.fromkeys(kinds, slowness)})
