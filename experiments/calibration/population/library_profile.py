"""A library on a machine that nobody has measured, as a profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import e, hypot, log, sqrt
from typing import NamedTuple

import numpy as np

from experiments.calibration.effects.algorithm_effects import multicasting
from experiments.calibration.effects.effect import Parameter
from experiments.calibration.effects.kernel_effects import OWN, USUAL_MEMORY
from experiments.calibration.effects.link_effects import BETWEEN, FED, reach
from experiments.calibration.libraries import CHANNEL, GLOO, MPI, MULTICAST, NCCL
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.population.population import (
    ENOUGH,
    Population,
    Spread,
    population_of,
    shared_names,
)
from experiments.calibration.population.specification import (
    STORED,
    kernels,
    specifications,
    transport,
)
from experiments.calibration.uncertainty import shipped_rules
from simulator.collectives.in_network import multicasts
from simulator.cost_models import nccl
from simulator.effects.channels import PeerChannels
from simulator.effects.jobs import nodes_of
from simulator.profile import Profile, Protocol, Uncertainty
from simulator.uncertainty.interval import LEVEL, quantile
from simulator.uncertainty.measured_places import place
from simulator.uncertainty.residuals import Residuals
from topologies.errors import InputError
from topologies.link import NETWORKS, Link
from topologies.topology import Flags, Floats, Topology

LIBRARIES: Mapping[str, Library] = {
    "nccl": NCCL,
    "rccl": NCCL,
    "openmpi": MPI,
    "mpich": MPI,
    "gloo": GLOO,
}
"""What `--library` names, and the library that has its parameters."""
SEEN = ("node", "network", "nvlink", "c2c", "xgmi", "pcie", "upi", *NETWORKS)
"""Kinds of link that measured machines have. That with EFA runs MPI."""
FOREIGN = {"nccl": ("xgmi", "rccl"), "rccl": ("nvlink", "nccl")}
"""A kind of link between GPUs of another vendor, and the library of that vendor."""
AMD = "cdna"
"""How the names of the generations of AMD's GPUs begin."""
GUESSED = Spread(log(2) / quantile(LEVEL), between=0.0, software=0.0, parameters=0.0)
"""If nobody learnt rules of intervals: from half to twice the time."""
NOWHERE = place("", "", 1, 1, 1.0).take(np.zeros(0, np.int64))
"""No measured point."""
PER_NODE, NODES, USUAL_NODES = 2, (1, 4, 16), 8.0
"""The jobs that show all parameters of a library, and the usual number of nodes of larger ones."""
HOPPER = 500e9
"""The NVLinks of a GPU of Hopper are below this β in bytes/s, and those of Blackwell above."""
HOSTED = {None: log(4), False: log(2), True: 0.0}
"""How unsure times over PCIe are besides, in log: GPUs read each other's memory or not, or nobody
says it. If not, they may share the way of a PCIe switch to the host, often four GPUs. What the
host's memory takes is known to a factor of 2."""
MEMORY = {"volta": 0.9e12, "ampere": 2.0e12, "hopper": 3.35e12, "blackwell": 8e12}
"""β in bytes/s of the memory of a usual GPU with NVLinks, by its generation."""


class Described(NamedTuple):
    """A library on a machine, and what to know of that."""

    profile: Profile
    """What simulations take. It says how sure it is."""
    notes: tuple[str, ...]


class Kind(NamedTuple):
    """Links of one kind in a topology."""

    name: str
    where: str
    """Whether they are inside a "node" or in the "network" between nodes."""
    bandwidth: float
    """The usual β in bytes/s."""
    latency: float
    """The usual α in seconds: what links of the machine have in proportion."""


def profile_for(
    name: str, topology: Topology, memory: float | None = None, *, p2p: bool | None = None
) -> Described:
    """The library `name` of LIBRARIES on a machine with the specified β of `topology`.

    A step takes as long as on the measured machines. Its α is divided among its links in proportion
    to their α. `memory` is β of a GPU's memory in bytes/s, by default as usual for its links.
    `p2p` says whether GPUs read each other's memory over PCIe; None: nobody knows.
    Raises InputError for an unknown name.
    """
    if name not in LIBRARIES:
        raise InputError(f"--library {name[:40]!r}: expected {', '.join(LIBRARIES)}")
    library, steps = LIBRARIES[name], _Steps(topology, memory)
    whole, model = population_of(library.name), _named(name)
    population = _over(library, steps)
    rest, called = _rest(model, population), f"{name} on {topology.name}"
    notes, far = list(_notes(name, whole, steps)), list(_unreached(name, steps, whole))
    hosted = HOSTED[p2p] if name in FOREIGN and steps.over_pcie else 0.0
    if hosted and p2p is None:
        notes.append(
            "GPUs over PCIe may not read each other's memory (nvidia-smi topo -p2p r): say p2p=yes "
            "or p2p=no behind the machine's name, and intervals are narrower"
        )
    sure = _sure(population, len(far), hosted)
    profile = _written(model, rest, steps, called)
    variants = [_written(model, rest + move, steps, called) for move in _moves(model, population)]
    if name == "nccl" and multicasts(topology):
        places = (rest, *(rest + move for move in _moves(model, population)))
        profile, *variants = (
            _in_switches(one, steps, model.values(place))
            for one, place in zip((profile, *variants), places, strict=True)
        )
    uncertainty = replace(sure, variants=tuple(variants))
    described = replace(profile, machine=topology.name, uncertainty=uncertainty)
    return Described(described, (*notes, *far))


def links_on(library: Library, topology: Topology) -> list[Mapping[str, Link]]:
    """The links of each protocol of a library by kind, on the specified links of `topology`."""
    model, steps = _model(library), _Steps(topology)
    rest = _rest(model, _over(library, steps))
    return [protocol.links for protocol in _written(model, rest, steps, "").protocols]


def kinds_between(topology: Topology) -> set[str]:
    """The kinds of link that a step to another node crosses, and no step inside a node."""
    return {kind for kind, where in _Steps(topology).where.items() if where == "network"}


def population_over(library: Library, topology: Topology) -> Population | None:
    """The population of a library over the network of a topology. None: no machine was
    measured."""
    return _over(library, _Steps(topology))


def _over(library: Library, steps: _Steps) -> Population | None:
    population = population_of(library.name)
    return None if population is None else population.over(transport(library, steps.interconnect))


def _written(model: Model, rest: Floats, steps: _Steps, name: str) -> Profile:
    profile = model.profile(rest + _given(model, steps.fastest, steps), name)
    by_kind = {kind.name: model.profile(rest + _given(model, kind, steps)) for kind in steps.kinds}
    return replace(
        profile,
        protocols=tuple(
            steps.protocol(number, by_kind) for number in range(len(profile.protocols))
        ),
        slower={
            key: steps.of_kinds(row) for key, row in profile.slower.items() if key not in MULTICAST
        },
        launches={key: launch for key, launch in profile.launches.items() if key not in MULTICAST},
        crowding={
            kind.name: profile.crowding["network"]._replace(
                nodes=USUAL_NODES, shared=0.0, corrections=()
            )
            for kind in steps.kinds
            if kind.where == "network" and "network" in profile.crowding
        },
        channels={},
    )


def _in_switches(profile: Profile, steps: _Steps, values: Mapping[str, float]) -> Profile:
    """The profile with NVLS by the `values` of parameters, and with the channels of a message to
    one peer. Only those of Hopper were measured. By NCCL's own model, NVLS reaches another share of
    the NVLinks' rate in each generation."""
    kind = steps.fastest
    generation = "hopper" if kind.bandwidth < HOPPER else "blackwell"
    slowness = e ** values["node 1/β of NVLS"] / nccl.NVLS_EFFICIENCY[generation]
    for algorithm in MULTICAST:
        latency = values["latency of NVLS"]
        profile = multicasting(profile, algorithm, latency, {kind.name: slowness})
    if kind.bandwidth > HOPPER:
        return profile
    return replace(profile, channels={"shift": PeerChannels(kind.name, CHANNEL)})


@cache
def _named(name: str) -> Model:
    """The model of a library of LIBRARIES, made once a process."""
    return _model(LIBRARIES[name])


def _model(library: Library) -> Model:
    """Small jobs that show every parameter of a library."""
    size = np.array([2.0**20])
    curves = [
        FitCurve(f"{collective} {nodes}", collective, names, nodes * PER_NODE, nodes, size, size)
        for collective in library.chooses
        for nodes in NODES
        for chosen in [library.algorithms(collective, multicast=nodes == 1)]
        for names in (chosen, *((name,) for name in chosen if library.deviates))
        if names
    ]
    return Model(FitPoints(curves), library)


def _rest(model: Model, population: Population | None) -> Floats:
    members = {} if population is None else population.members
    usual = [one.rest for one in model.parameters]
    names = shared_names(model)
    return np.array(
        [
            members[name].mean if name in members else start
            for name, start in zip(names, usual, strict=True)
        ]
    )


def _given(model: Model, kind: Kind, steps: _Steps) -> Floats:
    """What a machine's specification gives, as if all links had the β of a kind."""
    return np.array(
        [
            -log(steps.memory)
            if one.name == OWN.name
            else _of_links(one, kind)
            if one.specified and one.unit == "s/B"
            else kernels(model.library, steps.interconnect, one)
            for one in model.parameters
        ]
    )


def _of_links(parameter: Parameter, kind: Kind) -> float:
    """What links of a kind give to a 1/β. How many channels a job has depends on its network: see
    :meth:`Specification.offset`."""
    protocol, _, _ = parameter.name.partition(" ")
    if protocol not in STORED or reach(parameter.kind) != kind.where:
        return -log(kind.bandwidth)
    if kind.where == "network":
        return -log(max(FED, kind.bandwidth))
    if kind.name != "nvlink":
        return parameter.inner - parameter.rest
    generation = nccl.generation_of(kind.bandwidth)
    return -log(nccl.most_on_one_node(generation, protocol, kind.bandwidth))


def _moves(model: Model, population: Population | None) -> Floats:
    """How machines differ, shape (directions, parameters): see `Population.moves`."""
    names = shared_names(model)
    return population.moves(names) if population is not None else np.zeros((0, len(names)))


def _sure(population: Population | None, unreached: int, hosted: float) -> Uncertainty:
    """The rules of intervals, if the population does not reach the machine for so many reasons.
    Each adds the variance of another machine; `hosted` is a standard deviation besides. A library
    without a population is as unsure as MPI, and one reason more."""
    if population is None:
        population, unreached = population_of(MPI.name), unreached + 1
    learnt = (population and population.intervals) or GUESSED
    of_machines = hypot(learnt.machine, learnt.between)
    rules = shipped_rules()._replace(
        machine=hypot(learnt.machine, sqrt(unreached) * of_machines, hosted),
        parameters=learnt.parameters,
    )
    residuals = Residuals(rules, NOWHERE, np.zeros(0))
    return Uncertainty(residuals, software=learnt.software, between=learnt.between)


class _Steps:
    """The links of a step from a rank to the next one: inside a "node", and in the "network"."""

    def __init__(self, topology: Topology, memory: float | None = None) -> None:
        nodes = nodes_of(topology)
        inside = _crossed(topology, (nodes == nodes[0]) & (np.arange(len(nodes)) > 0))
        between = _crossed(topology, nodes != nodes[0])
        self.kinds = tuple(_kinds(topology, inside, between))
        self.node = int((nodes == nodes[0]).sum())
        """The ranks of a node."""
        self.over_pcie = "pcie" in inside
        """Whether GPUs of a node meet over PCIe."""
        self.fastest = max(self.kinds, key=lambda kind: kind.bandwidth)
        usual = MEMORY[nccl.generation_of(self.fastest.bandwidth)]
        self.memory = memory or (usual if self.fastest.name == "nvlink" else USUAL_MEMORY)
        """β of a GPU's memory in bytes/s."""
        where = {kind.name: kind.where for kind in self.kinds}
        self.where = where
        """Whether links of a kind are inside a "node" or in the "network"."""
        self.interconnect = next((kind for kind in NETWORKS if kind in where), "")
        """The kind of link that connects the nodes. Empty if it is no known one."""
        self.continues = any(where.get(name) == "node" for name in between) or not inside
        """Whether a step to another node takes the links inside nodes too."""
        self.whole = {
            "node": sum(kind.latency * inside.count(kind.name) for kind in self.kinds),
            "network": sum(
                kind.latency * between.count(kind.name)
                for kind in self.kinds
                if kind.where == "network"
            ),
        }

    def protocol(self, number: int, by_kind: Mapping[str, Profile]) -> Protocol:
        """A protocol of a library, by its number; `by_kind` has the library on machines all of
        whose links have the β of a kind."""
        sources = {kind: by_kind[kind.name].protocols[number] for kind in self.kinds}
        links = {
            kind.name: replace(source.links[kind.where], latency=self._latency(kind, source.links))
            for kind, source in sources.items()
        }
        source = next(iter(sources.values()))
        rows = source.factors.items()
        factors = {name: self.of_kinds(row) for name, row in rows if name not in MULTICAST}
        return Protocol(source.name, links, factors)

    def _latency(self, kind: Kind, links: Mapping[str, Link]) -> float:
        """α of a link of a kind, if a step crosses two of `links` inside a node, and two more on
        its way to another node."""
        step = 2 * links[kind.where].latency
        if kind.where == "network" and not self.continues:
            step += 2 * links["node"].latency
        whole = self.whole[kind.where]
        return step * (kind.latency / whole if whole else 0.5)

    def of_kinds(self, row: Mapping[str, float]) -> dict[str, float]:
        """A value of each kind of link, by values in a "node" and in the "network"."""
        return {kind.name: row[kind.where] for kind in self.kinds if kind.where in row}


def _crossed(topology: Topology, peers: Flags) -> list[str]:
    if not peers.any():
        return []
    return [str(topology.link_kinds[link]) for link in topology.route(0, int(peers.argmax()))]


def _kinds(topology: Topology, inside: Sequence[str], between: Sequence[str]) -> Iterator[Kind]:
    for name in topology.link_kinds.vocabulary:
        links = np.flatnonzero(topology.link_kinds.are(name))
        links = links[np.isfinite(topology.bandwidth[links])]
        if len(links):
            elsewhere = name in between or name in BETWEEN
            where = "network" if elsewhere and name not in inside else "node"
            bandwidth = float(np.median(topology.bandwidth[links]))
            latency = float(np.median(topology.latency[links]))
            # no link has less α in proportion, in seconds
            yield Kind(name, where, bandwidth, max(latency, 1e-9))


def _notes(name: str, population: Population | None, steps: _Steps) -> Iterator[str]:
    if population is None:
        yield (
            f"{name}: no machine was measured, so all figures are usual ones: expect errors of a "
            f"factor of 2"
        )
        return
    yield (
        f"{name} on machines like this: population of {len(population.machines)} measured machines"
        f", median error {population.error:.0%} on a machine that was left out"
    )
    if population.transports and "network" in steps.where:
        yield (
            "links of kind network may be RoCE or not, so the figures are of all networks: if they "
            "are, say it with kind roce (port=roce400)"
        )
    if steps.interconnect == "ethernet":
        yield (
            "links of kind ethernet count as TCP: if they carry RoCE, say it with kind roce "
            "(port=roce400)"
        )


def _unreached(name: str, steps: _Steps, population: Population | None) -> Iterator[str]:
    """What the population does not reach. For each of these the intervals are wider."""
    if population is None:
        return
    kinds = [kind.name for kind in steps.kinds]
    foreign, other = FOREIGN.get(name, ("", ""))
    if foreign in kinds:
        yield (
            f"{name} does not run on GPUs with links of kind {foreign}: --library {other} does, "
            f"so intervals are wider"
        )
    seen = {*SEEN} - ({"efa"} if name in FOREIGN else set())
    if unseen := [kind for kind in kinds if kind not in seen]:
        yield (
            f"no measured machine has links of kind {unseen[0]}: simctl takes them as links "
            f"{'inside nodes' if steps.where[unseen[0]] == 'node' else 'between nodes'}, with "
            f"their specified bandwidth, so intervals are wider"
        )
    if name in FOREIGN and steps.over_pcie:
        yield "one measured machine alone has GPUs that meet over PCIe, so intervals are wider"
    if name in FOREIGN and (count := _machines_of(steps.node, population)) < ENOUGH:
        verb = "has" if count == 1 else "have"
        yield f"{count} of these machines {verb} {steps.node} GPUs a node: intervals are wider"
    if name in FOREIGN and (count := _machines_with(name, population)) < ENOUGH:
        verb = "has" if count == 1 else "have"
        yield (
            f"only {count} of these machines {verb} {name}: it shares their figures with "
            f"{FOREIGN[name][1]}, so intervals are wider"
        )


def _machines_of(ranks: int, population: Population) -> int:
    large = {row.machine for row in specifications() if row.per_node >= ranks}
    return len(large.intersection(population.machines))


def _machines_with(name: str, population: Population) -> int:
    ours = {
        row.machine
        for row in specifications()
        if row.generation.startswith(AMD) == (name == "rccl")
    }
    return len(ours.intersection(population.machines))
