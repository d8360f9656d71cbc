"""A library on a machine that nobody has measured, as a profile that knows what the library chooses
there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from math import e, hypot, log, sqrt
from typing import NamedTuple

import numpy as np

from experiments.calibration.effects.algorithm_effects import multicasting
from experiments.calibration.effects.effect import Parameter
from experiments.calibration.effects.link_effects import FED, reach
from experiments.calibration.effects.software_effects import OWN
from experiments.calibration.libraries import CHANNEL, GLOO, MPI, MULTICAST, NCCL, choices, runs
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
    Specification,
    kernels,
    specifications,
    transport,
)
from experiments.calibration.population.steps import Kind, Steps
from experiments.calibration.uncertainty import shipped_rules
from simulator.collectives.in_network import multicasts
from simulator.cost_models import nccl
from simulator.effects.link_slowdowns import PeerChannels
from simulator.profile import Profile, Uncertainty
from simulator.uncertainty.interval import LEVEL, quantile
from simulator.uncertainty.measured_places import place
from simulator.uncertainty.residuals import Residuals
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.link import LINKS, NETWORKS, Link
from topologies.topology import Floats, Topology

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
FURTHER = 0.15
"""How unsure large sizes are besides on a machine beyond the measured ones, in log. On a rack of 72
GPUs they take 24% longer than expected: 1.6 times this."""
HOSTED = {None: log(4), False: log(2), True: 0.0}
"""How unsure times over PCIe are besides, in log: GPUs read each other's memory or not, or nobody
says it. If not, they may share the way of a PCIe switch to the host, often four GPUs. What the
host's memory takes is known to a factor of 2."""


class Described(NamedTuple):
    """A library on a machine, and what to know of that."""

    profile: Profile
    """What simulations take. It says how sure it is."""
    notes: tuple[str, ...]


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
    library, steps = LIBRARIES[name], Steps(topology, memory)
    whole, model = population_of(library.name), _named(name)
    population = _over(library, steps)
    rest, called = _rest(model, population), f"{name} on {topology.name}"
    notes, far = list(_notes(name, whole, steps)), list(_unreached(name, steps, whole))
    over_pcie = name in FOREIGN and steps.over_pcie
    if over_pcie and p2p is None:
        notes.append(
            "GPUs over PCIe may not read each other's memory (nvidia-smi topo -p2p r): say p2p=yes "
            "or p2p=no behind the machine's name, and intervals are narrower"
        )
    sure = _sure(population, len(far), HOSTED[p2p] if over_pcie else 0.0)
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
    model, steps = _model(library), Steps(topology)
    rest = _rest(model, _over(library, steps))
    return [protocol.links for protocol in _written(model, rest, steps, "").protocols]


def kinds_between(topology: Topology) -> set[str]:
    """The kinds of link that a step to another node crosses, and no step inside a node."""
    return {kind for kind, where in Steps(topology).where.items() if where == "network"}


def population_over(library: Library, topology: Topology) -> Population | None:
    """The population of a library over the network of a topology. None: no machine was
    measured."""
    return _over(library, Steps(topology))


def _over(library: Library, steps: Steps) -> Population | None:
    population = population_of(library.name)
    return None if population is None else population.over(transport(library, steps.interconnect))


def _written(model: Model, rest: Floats, steps: Steps, name: str) -> Profile:
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


def _in_switches(profile: Profile, steps: Steps, values: Mapping[str, float]) -> Profile:
    """The profile with NVLS by the `values` of parameters, and with the channels of a message to
    one peer. Only those of Hopper were measured. By NCCL's own model, NVLS reaches another share of
    the NVLinks' rate in each generation."""
    kind = steps.fastest
    generation = "hopper" if kind.bandwidth < HOPPER else "blackwell"
    profile = with_switches(profile, kind.name, generation, values)
    if kind.bandwidth > HOPPER:
        return profile
    return replace(profile, channels={"shift": PeerChannels(kind.name, CHANNEL)})


def with_switches(
    profile: Profile, kind: str, generation: str, values: Mapping[str, float]
) -> Profile:
    """The profile with NVLS and NVLSTree by the `values` of a population, over NVLinks of a `kind`
    between GPUs of a generation."""
    slower = {kind: e ** values["node 1/β of NVLS"] / nccl.NVLS_EFFICIENCY[generation]}
    for algorithm in MULTICAST:
        profile = multicasting(profile, algorithm, values["latency of NVLS"], slower)
    return profile


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


def _given(model: Model, kind: Kind, steps: Steps) -> Floats:
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
    of_machines = hypot(learnt.machine, FURTHER)
    rules = shipped_rules()._replace(
        machine=hypot(learnt.machine, sqrt(unreached) * of_machines, hosted),
        parameters=learnt.parameters,
    )
    residuals = Residuals(rules, NOWHERE, np.zeros(0))
    return Uncertainty(residuals, software=learnt.software, between=learnt.between)


def _notes(name: str, population: Population | None, steps: Steps) -> Iterator[str]:
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


def _unreached(name: str, steps: Steps, population: Population | None) -> Iterator[str]:
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
    if name not in FOREIGN:
        return
    reasons: dict[str, Callable[[Specification], bool]] = {
        f"{steps.node} GPUs a node": lambda row: row.per_node >= steps.node,
        name: lambda row: row.generation.startswith(AMD) == (name == "rccl"),
    }
    if steps.over_pcie:
        reasons["GPUs that meet over PCIe"] = _is_over_pcie
    for what, suits in reasons.items():
        alike = {row.machine for row in specifications() if row.generation and suits(row)}
        count = len(alike.intersection(population.machines))
        if count < ENOUGH:
            verb = "has" if count == 1 else "have"
            shared = f": it shares their figures with {other}" if what == name else ""
            yield f"only {count} of these machines {verb} {what}{shared}, so intervals are wider"


def _is_over_pcie(row: Specification) -> bool:
    fastest = max(each.link.bandwidth for each in LINKS.values() if each.kind == "pcie")
    return row.node is not None and row.node <= fastest


def library_on(machine: Blueprint, name: str, memory: float | None) -> Described:
    """The library `name` of LIBRARIES on a machine that nobody has measured. `memory` is β of a
    GPU's memory in bytes/s, if it is known."""
    several = machine.whole()
    if machine.size is None:
        per_node = machine.options.get("per_node")
        node = max(several.ranks, per_node if isinstance(per_node, int) else 1)
        several = machine.build(2 * node)
    p2p = machine.options.get("p2p")
    described = profile_for(name, several, memory, p2p=None if p2p is None else bool(p2p))
    profile = choosing(described.profile, LIBRARIES[name], machine, specified=True, version=name)
    return described._replace(profile=profile)


def choosing(
    profile: Profile,
    library: Library,
    machine: Blueprint,
    *,
    specified: bool,
    version: str = "",
) -> Profile:
    """The profile with the choices of its library on a machine. `specified`: whether the links of
    the machine are."""
    specialised = library.on(machine).with_figures(profile.launches)
    chosen = partial(choices, specialised, version)
    return replace(profile, choices=chosen, runs=partial(runs, specialised), specified=specified)
