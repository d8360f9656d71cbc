"""What a machine should give: the best simulated time of what a library may run, and the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from experiments.calibration.library import Library
from experiments.calibration.measured_machines import may_multicast
from experiments.calibration.observations import OWN
from experiments.measurements import Curve
from experiments.profiles.interval_levels import at_level
from experiments.profiles.profile_document import Calibrated
from experiments.simulations.case import Case
from experiments.simulations.grid import MachineBuilder
from experiments.simulations.rules import DEFAULT, Rules
from experiments.spellings import ANY_RUNS, named
from simulator.analysis.bounds import best_bound
from simulator.collectives import Algorithm, algorithms, find
from simulator.profile import Profile
from simulator.schedules.timeline import ProfileRun
from simulator.uncertainty.interval import Interval
from topologies.errors import InputError
from topologies.topology import Floats, Topology

CANDIDATES: dict[str, tuple[str, ...]] = {
    "all_reduce": ("rings", "nvls", "ring", "double_tree", "tree"),
    "all_gather": ("rings_all_gather", "ring_all_gather"),
    "reduce_scatter": ("rings_reduce_scatter", "ring_reduce_scatter"),
    "broadcast": ("chains_broadcast", "chain_broadcast", "tree_broadcast"),
    "reduce": ("chains_reduce", "chain_reduce", "tree_reduce"),
    "all_to_all": ("pairwise",),
    "send_recv": ("shift",),
    "ping_pong": ("ping_pong",),
}
"""What NCCL and similar libraries run, by collective."""
MPI: dict[str, tuple[str, ...]] = {
    "all_reduce": ("ring", "recursive_doubling", "halving_doubling"),
    "all_gather": ("ring_all_gather", "recursive_doubling_all_gather", "neighbor_exchange"),
    "reduce_scatter": ("ring_reduce_scatter", "recursive_halving_reduce_scatter"),
}
"""What MPI libraries run, if that differs."""
ELEMENT = 4
"""Bytes."""
MANY_RANKS = 256
"""Ranks beyond which only the first candidate that fits is simulated."""


@dataclass(frozen=True)
class Expected:
    """What a machine should give for a curve."""

    seconds: Floats
    algorithm: tuple[str, ...]
    """The algorithm that is fastest at each size."""
    bound: Floats
    """Seconds that nothing can beat, shape (points,)."""
    limit: str
    """The name of the bound at the largest size."""
    topology: Topology
    profile: str = ""
    """The profile and its machine in words; empty if a machine is simulated without one."""
    better: tuple[str, ...] = ()
    """Of a curve with a forced algorithm: the fastest algorithm that the library may choose at each
    size."""
    better_s: Floats = field(default_factory=lambda: np.zeros(0))
    """The seconds of these, shape (points,)."""
    intervals: tuple[Interval, ...] = ()
    """That of a run at each size, by the profile; empty if it does not say how sure it is."""

    @property
    def low(self) -> Floats:
        """The lower ends of the intervals, shape (points,); the expected seconds without any."""
        return np.array([interval.low for interval in self.intervals] or self.seconds)

    @property
    def high(self) -> Floats:
        """The upper ends of the intervals, shape (points,); the expected seconds without any."""
        return np.array([interval.high for interval in self.intervals] or self.seconds)


class _Answer(NamedTuple):
    """A run under a profile, with what its measured runs say of it."""

    algorithm: str
    run: ProfileRun
    interval: Interval | None

    @property
    def seconds(self) -> float:
        """Expected seconds."""
        return self.run.seconds if self.interval is None else self.interval.expected

    @property
    def correction(self) -> float:
        """The factor by which the machine's bound is lower: at most 1. Measured runs that are
        faster than the profile's links mean faster links."""
        return min(1.0, self.seconds / self.run.seconds)


Expectation = Callable[[Curve, Floats], Expected | None]
"""From a curve and its sizes in bytes to what the machine should give, if that is known."""
Machines = Callable[[Curve], MachineBuilder]
"""From a curve to the machine with its ranks on their nodes."""


def simulated(machines: Machines, rules: Rules = DEFAULT) -> Expectation:
    """The expectation by a simulation of a machine's links.

    It raises InputError if the machine is too small for a curve.
    """

    def expect(curve: Curve, sizes: Floats) -> Expected | None:
        if curve.ranks is None or curve.ranks < 2 or curve.pattern not in CANDIDATES:
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
        free = replace(curve, algorithm="")
        others = list(_cases(free, curve.ranks, machines(curve), rules)) if curve.algorithm else []
        better = [_fastest(others, nbytes) for nbytes in sizes.tolist()] if others else []
        return Expected(
            times.min(axis=0),
            names,
            np.array([b.seconds for b in bounds]),
            bounds[-1].name,
            topology,
            better=tuple(answer.algorithm for answer in better),
            better_s=np.array([answer.seconds for answer in better]),
        )

    return expect


def profiled(
    profile: Calibrated, kind: Library, machines: Machines, level: float | None = None
) -> Expectation:
    """The expectation by a calibrated machine: software and protocols included, with intervals of
    `level` if it says how sure it is. `kind` is its library, on the machine."""
    simulation = at_level(profile.simulated(), level)

    def expect(curve: Curve, sizes: Floats) -> Expected | None:
        if curve.ranks is None or curve.ranks < 2:
            return None
        ignored = simulation.ignored(
            curve.algorithm or OWN, curve.pattern, curve.ranks, curve.nodes, curve.library
        )
        multicast = may_multicast(curve)
        names = (
            ignored.ran
            if ignored
            else kind.algorithms(curve.pattern, curve.algorithm, multicast=multicast)
        )
        by_rule = kind.rule(curve.pattern, curve.ranks, curve.library, curve.nodes)
        rule = None if ignored or curve.algorithm else by_rule
        running = [
            kind.running((rule(nbytes),) if rule else names, nbytes / ELEMENT, curve.ranks)
            for nbytes in sizes.tolist()
        ]
        cases = {
            name: case
            for name in dict.fromkeys(chain.from_iterable(running))
            for case in _profiled((name,), curve, machines(curve), simulation)
        }
        if not cases:
            return None
        fastest = []
        for nbytes, ran in zip(sizes.tolist(), running, strict=True):
            known = [name for name in ran if name in cases] or list(cases)
            fastest.append(_fastest([cases[name] for name in known], nbytes))
        chosen = kind.algorithms(curve.pattern, multicast=multicast)
        free = chosen if curve.algorithm else ()
        others = list(_profiled(free, curve, machines(curve), simulation))
        better = [_fastest(others, nbytes) for nbytes in sizes.tolist()] if others else []
        collective = next(iter(cases.values())).algorithm.collective
        topology = fastest[-1].run.timeline.routed.machine
        bounds = [
            best_bound(collective, answer.run.timeline.routed.machine, curve.ranks, nbytes)
            for nbytes, answer in zip(sizes.tolist(), fastest, strict=True)
        ]
        known_s = [
            (answer.run.common + bound.seconds) * answer.correction
            for answer, bound in zip(fastest, bounds, strict=True)
        ]
        for k, other in enumerate(better):
            known_s[k] *= min(1.0, other.correction / fastest[k].correction)
        intervals = (answer.interval for answer in fastest)
        return Expected(
            np.array([answer.seconds for answer in fastest]),
            tuple(f"{answer.algorithm}, {answer.run.protocol}" for answer in fastest),
            np.array(known_s),
            bounds[-1].name,
            topology,
            f"{profile.profile}, of {profile.machine}",
            tuple(answer.algorithm for answer in better),
            np.array([answer.seconds for answer in better]),
            tuple(interval for interval in intervals if interval is not None),
        )

    return expect


def _profiled(
    names: tuple[str, ...], curve: Curve, machine: MachineBuilder, profile: Profile
) -> Iterator[Case]:
    """The cases of the algorithms that the machine can run."""
    for name in names:
        try:
            yield Case(find(name), curve.ranks or 0, machine(curve.ranks or 0, 0), DEFAULT, profile)
        except InputError:
            continue


def _fastest(cases: list[Case], nbytes: float) -> _Answer:
    runs = [(case, case.run(nbytes)) for case in cases]
    answers = [_Answer(case.algorithm.name, run, case.interval(run)) for case, run in runs]
    return min(answers, key=lambda answer: answer.seconds)


def _cases(curve: Curve, ranks: int, machine: MachineBuilder, rules: Rules) -> Iterator[Case]:
    for algorithm in _candidates(curve):
        topology = machine(ranks, algorithm.servers)
        try:
            case = Case(algorithm, ranks, topology, rules)
        except InputError:
            continue
        yield case
        if ranks > MANY_RANKS:
            return


def _candidates(curve: Curve) -> list[Algorithm]:
    """What may have run: the forced algorithm, or else the usual ones of the collective."""
    forced = named(ANY_RUNS.get(curve.algorithm, (curve.algorithm,)), curve.pattern)
    usual = CANDIDATES | MPI if curve.uses_mpi else CANDIDATES
    return [algorithms()[name] for name in forced or usual[curve.pattern]]
