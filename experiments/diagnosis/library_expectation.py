"""What the library of each curve should give on a machine: one that the user names, or a guess by
the curve's own file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from experiments import output
from experiments.calibration.libraries import NCCL
from experiments.calibration.measured_machines import gpu, on_cards
from experiments.calibration.population.library_profile import LIBRARIES, library_on
from experiments.diagnosis.causes import causes, same
from experiments.diagnosis.curve_diagnosis import Diagnosis
from experiments.diagnosis.expectation import Expectation, Expected, profiled
from experiments.measurements import Curve, collectives
from experiments.measurements.networks import EFA
from experiments.models.accelerators import memory_of
from simulator.effects.jobs import used_nodes
from simulator.profile import Profile
from simulator.uncertainty.interval import LEVEL, quantile
from topologies.catalogue import Blueprint, find
from topologies.errors import InputError
from topologies.topology import Floats, Topology

COLLECTIVES = tuple(name for name in collectives.COLLECTIVES if name in NCCL.chooses)
"""What libraries are expected to run."""
SERVERS = {
    "A100": "dgx_a100",
    "H100": "hgx_h100",
    "H800": "hgx_h800",
    "H200": "hgx_h200",
    "B200": "b200",
    "B300": "hgx_b300",
    "GB200": "nvl72",
    "GB300": "gb300",
    "MI300X": "mi300x",
    "MI325X": "mi325x",
    "MI355X": "mi355x",
}
"""The usual machine of each GPU."""
EFA_PORTS = {
    "dgx_a100": ",nics=4,port=efa100",
    **dict.fromkeys(("hgx_h100", "hgx_h200", "b200"), ",port=efa400"),
}
"""The NICs of such machines on AWS."""


@dataclass
class LibraryExpectation:
    """What libraries should give. Notes on stderr say where the figures of each are from."""

    machine: Blueprint | None
    """The machine; None: a guess by each curve, if its file tells enough."""
    library: str | None = None
    """The library of all curves, a name of LIBRARIES; None: as each file says."""
    level: float = LEVEL
    """The share of runs that an interval holds. No share raises InputError."""
    by_machine: dict[tuple[str, str], Expectation] = field(default_factory=dict, init=False)
    """The expectation of each library on each machine."""

    def __post_init__(self) -> None:
        quantile(self.level)

    def __call__(self, curve: Curve, sizes: Floats) -> Expected | None:
        """What should be given for a curve. Raises InputError if its machine is too small."""
        machine = self.machine or guessed(curve)
        if machine is None:
            return None
        name = self.library or library_name(curve, machine)
        key = name, machine.text
        try:
            if key not in self.by_machine:
                self.by_machine[key] = self._expectation(machine, name, same)
            expected = self.by_machine[key](curve, sizes)
        except InputError:
            if self.machine is not None:
                raise
            # the guess is wrong
            return None
        filled = machine.size == curve.ranks or machine.placement != "node"
        by = f"{curve.library[:60] or name} on {machine.text}"
        return expected and replace(expected, by=by, guess=self.machine is None, placed=filled)

    def causes(self, diagnosis: Diagnosis) -> tuple[str, ...]:
        """A line for each of the likeliest causes of times below expectation."""
        machine = self.machine or guessed(diagnosis.curve)
        if diagnosis.below is None or machine is None:
            return ()
        name = self.library or library_name(diagnosis.curve, machine)

        def expect(faulty: Blueprint, changed: Callable[[Profile], Profile]) -> Expectation:
            return self._expectation(faulty, name, changed, said=False)

        return causes(diagnosis, machine, expect)

    def _expectation(
        self,
        machine: Blueprint,
        name: str,
        changed: Callable[[Profile], Profile],
        *,
        said: bool = True,
    ) -> Expectation:
        described = library_on(machine, name, memory_of(machine.name))
        for note in described.notes if said else ():
            output.note(note)
        profile = changed(described.profile.at_level(self.level))

        def build(curve: Curve) -> Callable[[int, int], Topology]:
            return machine.for_job(curve.ranks or 0, curve.nodes or 0).build

        return profiled(profile, LIBRARIES[name].on(machine), build, f"{name} on {machine.text}")


def library_name(curve: Curve, machine: Blueprint) -> str:
    """The library that made a curve; on GPUs that of their vendor if its file does not tell."""
    if curve.library_family == "gloo":
        return "gloo"
    if curve.uses_mpi or curve.library_family in ("mpi", "fujitsu"):
        return "mpich" if "mpich" in curve.library.lower() else "openmpi"
    return "rccl" if "xgmi" in machine.whole().link_kinds.vocabulary else "nccl"


def measured_on(
    machine: Blueprint,
    collective: str,
    ranks: int,
    library: str | None = None,
    version: str | None = None,
) -> Curve:
    """A curve without points of the first `ranks` ranks of a machine, of a library of LIBRARIES; by
    default that of the vendor of its GPUs.

    Raises InputError for a collective that no library is expected to run, for too few GPUs, and for
    a version that is none.
    """
    name = collectives.canonical(collective)
    if name not in COLLECTIVES:
        raise InputError(f"--collective {collective[:40]!r}: expected {', '.join(COLLECTIVES)}")
    if version is not None and not re.fullmatch(r"\d{1,3}(\.\d{1,3}){1,2}", version, re.ASCII):
        raise InputError(f"--library-version {version[:40]!r}: expected a version like 2.27.5")
    curve = Curve(name, ranks, int(used_nodes(machine.build(ranks))), (), (), machine.text)
    chosen = library or library_name(curve, machine)
    return replace(curve, library=" ".join(filter(None, (chosen, version))))


def guessed(curve: Curve) -> Blueprint | None:
    """The usual machine of the GPUs that a curve's file names, with as many nodes; None if it names
    none, or GPUs on cards."""
    name = SERVERS.get(gpu(curve))
    if name is None or on_cards(curve) or curve.on_host or not curve.ranks:
        return None
    most = find(name).whole().ranks
    nodes = curve.nodes or -(-curve.ranks // most)
    if curve.ranks > nodes * most:
        return None
    port = EFA_PORTS.get(name, "") if curve.network == EFA else ""
    return find(name if nodes == 1 else f"{name}:nodes={nodes}{port}")
