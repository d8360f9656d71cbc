"""What a machine should give: the best simulated time of what a library may run, and the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
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
from simulator.collectives import find
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
        if (curve.ranks or 0) < 2 or curve.pattern not in CANDIDATES:
            return None
        cases, free = list(_cases(curve, machines(curve), rules)), replace(curve, algorithm="")
        others = _cases(free, machines(curve), rules) if cases and curve.algorithm else ()
        return _expected(sizes, [cases] * len(sizes), list(others)) if cases else None

    return expect


def profiled(
    profile: Calibrated, kind: Library, machines: Machines, level: float | None = None
) -> Expectation:
    """The expectation by a calibrated machine: software and protocols included, with intervals of
    `level` if it says how sure it is. `kind` is its library, on the machine."""
    simulation = at_level(profile.simulated(), level)

    def expect(curve: Curve, sizes: Floats) -> Expected | None:
        pattern, ranks = curve.pattern, curve.ranks or 0
        if ranks < 2:
            return None
        ignored = simulation.ignored(
            curve.algorithm or OWN, pattern, ranks, curve.nodes, curve.library
        )
        chosen = partial(kind.algorithms, pattern, multicast=may_multicast(curve))
        names = ignored.ran if ignored else chosen(curve.algorithm)
        by_rule = kind.rule(pattern, ranks, curve.library, curve.nodes)
        rule = None if ignored or curve.algorithm else by_rule
        running = [
            kind.running((rule(nbytes),) if rule else names, nbytes / ELEMENT, ranks)
            for nbytes in sizes.tolist()
        ]
        cases = _profiled(chain.from_iterable(running), curve, machines(curve), simulation)
        if not cases:
            return None
        by_size = [[cases[name] for name in ran if name in cases] for ran in running]
        free = _profiled(chosen() if curve.algorithm else (), curve, machines(curve), simulation)
        every = list(cases.values())
        return _expected(
            sizes,
            [at_size or every for at_size in by_size],
            list(free.values()),
            f"{profile.profile}, of {profile.machine}",
        )

    return expect


def _expected(
    sizes: Floats, cases: Sequence[Sequence[Case]], others: Sequence[Case], profile: str = ""
) -> Expected:
    """What the fastest of the cases of each size gives. `others` are what the library may choose
    instead of the forced algorithm."""
    fastest = list(map(_fastest, cases, sizes.tolist()))
    better = [_fastest(others, nbytes) for nbytes in sizes.tolist()] if others else []
    collective, ranks = cases[0][0].algorithm.collective, cases[0][0].ranks
    machines = [answer.run.timeline.routed.machine for answer in fastest]
    bounds = [
        best_bound(collective, machine, ranks, nbytes)
        for machine, nbytes in zip(machines, sizes.tolist(), strict=True)
    ]
    known_s = [
        (answer.run.common + bound.seconds) * answer.correction
        for answer, bound in zip(fastest, bounds, strict=True)
    ]
    for k, other in enumerate(better):
        known_s[k] *= min(1.0, other.correction / fastest[k].correction)
    return Expected(
        np.array([answer.seconds for answer in fastest]),
        tuple(", ".join(filter(None, (each.algorithm, each.run.protocol))) for each in fastest),
        np.array(known_s),
        bounds[-1].name,
        machines[-1],
        profile,
        tuple(answer.algorithm for answer in better),
        np.array([answer.seconds for answer in better]),
        tuple(answer.interval for answer in fastest if answer.interval is not None),
    )


def _profiled(
    names: Iterable[str], curve: Curve, machine: MachineBuilder, profile: Profile
) -> dict[str, Case]:
    cases, ranks = dict[str, Case](), curve.ranks or 0
    for name in dict.fromkeys(names):
        with suppress(InputError):
            cases[name] = Case(find(name), ranks, machine(ranks, 0), DEFAULT, profile)
    return cases


def _fastest(cases: Sequence[Case], nbytes: float) -> _Answer:
    runs = [(case, case.run(nbytes)) for case in cases]
    answers = [_Answer(case.algorithm.name, run, case.interval(run)) for case, run in runs]
    return min(answers, key=lambda answer: answer.seconds)


def _cases(curve: Curve, machine: MachineBuilder, rules: Rules) -> Iterator[Case]:
    """Cases of what may have run: the forced algorithm, or else the usual ones of the
    collective."""
    forced = named(ANY_RUNS.get(curve.algorithm, (curve.algorithm,)), curve.pattern)
    usual, ranks = CANDIDATES | MPI if curve.uses_mpi else CANDIDATES, curve.ranks or 0
    for name in forced or usual[curve.pattern]:
        topology = machine(ranks, find(name).servers)
        try:
            case = Case(find(name), ranks, topology, rules)
        except InputError:
            continue
        yield case
        # ranks beyond which only the first candidate that fits is simulated
        if ranks > 256:
            return
