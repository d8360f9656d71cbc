"""What a machine should give: the best that the simulator does there with what a library may run,
and the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from experiments.calibration.libraries import library
from experiments.measurements import Curve
from experiments.profiles.profile_document import Calibrated
from experiments.simulations.sweep import DEFAULT, Case, Machine, Rules
from experiments.spellings import ANY_RUNS, named
from simulator.analysis.bounds import best_bound
from simulator.collectives import Algorithm, algorithms
from simulator.profile import Profile, Run
from topologies.errors import InputError
from topologies.topology import Floats, Topology

CANDIDATES: dict[str, tuple[str, ...]] = {
    "all_reduce": ("rings", "nvls", "ring", "double_tree", "tree"),
    "all_gather": ("rings_all_gather", "ring_all_gather"),
    "reduce_scatter": ("rings_reduce_scatter", "ring_reduce_scatter"),
    "broadcast": ("chain_broadcast", "tree_broadcast"),
    "reduce": ("chain_reduce", "tree_reduce"),
    "all_to_all": ("pairwise",),
    "send_recv": ("shift",),
}
"""What NCCL and its kin run, by collective."""
MPI: dict[str, tuple[str, ...]] = {
    "all_reduce": ("ring", "recursive_doubling", "halving_doubling"),
    "all_gather": ("ring_all_gather", "recursive_doubling_all_gather", "neighbor_exchange"),
    "reduce_scatter": ("ring_reduce_scatter", "recursive_halving_reduce_scatter"),
}
"""What MPI libraries run, where that is something else."""
ELEMENT = 4
"""Bytes."""
MANY = 256
"""Ranks beyond which only the first candidate that fits is simulated."""


@dataclass(frozen=True)
class Expected:
    """Shape (points,): the seconds that are expected and those that nothing can beat, and who
    expects them: the `profile` and its machine in words, empty where a machine is simulated without
    one."""

    seconds: Floats
    algorithm: tuple[str, ...]
    bound: Floats
    limit: str
    topology: Topology
    profile: str = ""


Expectation = Callable[[Curve, Floats], Expected | None]
"""From a curve and its sizes in bytes to what is expected of it, or None where nothing can be
said."""
Machines = Callable[[Curve], Machine]
"""From a curve to the machine with its ranks where they were."""


def simulated(machines: Machines, rules: Rules = DEFAULT) -> Expectation:
    """Expects what the simulator does on the machine of a curve.

    Raises InputError where the machine is too small for a curve.
    """

    def expect(curve: Curve, sizes: Floats) -> Expected | None:
        if curve.ranks is None or curve.ranks < 2 or curve.collective not in CANDIDATES:
            return None
        cases = list(_cases(curve, curve.ranks, machines(curve), rules))
        if not cases:
            return None
        times = np.array(
            [[case.simulate(float(nbytes)).makespan for nbytes in sizes] for case in cases]
        )
        best = np.argmin(times, axis=0)
        names = tuple(cases[k].algorithm.name for k in best)
        topology, collective = cases[0].topology, cases[0].algorithm.collective
        bounds = [best_bound(collective, topology, curve.ranks, float(nbytes)) for nbytes in sizes]
        return Expected(
            times.min(axis=0),
            names,
            np.array([b.seconds for b in bounds]),
            bounds[-1].name,
            topology,
        )

    return expect


def profiled(profile: Calibrated, machines: Machines) -> Expectation:
    """Expects what a calibrated machine does with the algorithms of its library: software and
    protocols included."""
    kind, simulation = library(profile.library), profile.simulated()

    def expect(curve: Curve, sizes: Floats) -> Expected | None:
        if curve.ranks is None or curve.ranks < 2:
            return None
        ignored = simulation.ignored(
            curve.algorithm, curve.collective, curve.ranks, curve.nodes, curve.library
        )
        names = ignored.ran if ignored else kind.algorithms(curve.collective, curve.algorithm)
        cases = {
            case.algorithm.name: case
            for case in _profiled(kind.all_of(names), curve, machines(curve), simulation)
        }
        usable = tuple(name for name in names if name in cases)
        if not usable:
            return None
        fastest = []
        for nbytes in sizes:
            running = kind.running(usable, float(nbytes) / ELEMENT, curve.ranks)
            fastest.append(
                _fastest([cases[name] for name in running if name in cases], float(nbytes))
            )
        runs = [run for _, run in fastest]
        collective = cases[usable[0]].algorithm.collective
        bounds = [
            best_bound(collective, run.timeline.routed.topology, curve.ranks, float(nbytes))
            for nbytes, run in zip(sizes, runs, strict=True)
        ]
        beaten = np.array(
            [run.common + bound.seconds for run, bound in zip(runs, bounds, strict=True)]
        )
        chosen = tuple(f"{name}, {run.protocol}" for name, run in fastest)
        seconds = np.array([run.seconds for run in runs])
        topology, whose = (
            runs[-1].timeline.routed.topology,
            f"{profile.profile}, of {profile.machine}",
        )
        return Expected(seconds, chosen, beaten, bounds[-1].name, topology, whose)

    return expect


def _profiled(
    names: tuple[str, ...], curve: Curve, machine: Machine, profile: Profile
) -> Iterator[Case]:
    """Those that the machine can run."""
    for name in names:
        try:
            yield Case(
                algorithms()[name], curve.ranks or 0, machine(curve.ranks or 0, 0), DEFAULT, profile
            )
        except InputError:
            continue


def _fastest(cases: list[Case], nbytes: float) -> tuple[str, Run]:
    runs = [(case.algorithm.name, case.run(nbytes)) for case in cases]
    return min(runs, key=lambda named: named[1].seconds)


def _cases(curve: Curve, ranks: int, machine: Machine, rules: Rules) -> Iterator[Case]:
    for algorithm in _candidates(curve):
        topology = machine(ranks, algorithm.servers)
        try:
            case = Case(algorithm, ranks, topology, rules)
        except InputError:
            continue
        yield case
        if ranks > MANY:
            return


def _candidates(curve: Curve) -> list[Algorithm]:
    """What may have run: the algorithm that was forced, by its name here; else those of the
    collective."""
    forced = named(ANY_RUNS.get(curve.algorithm, (curve.algorithm,)), curve.collective)
    usual = CANDIDATES | MPI if curve.uses_mpi else CANDIDATES
    return [algorithms()[name] for name in forced or usual[curve.collective]]
