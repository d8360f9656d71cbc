"""What a library, a version of it and a machine should give for a curve, and the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from experiments.calibration.library import ELEMENT, Library
from experiments.calibration.measured_machines import may_cross, may_multicast
from experiments.calibration.observations import OWN
from experiments.calibration.prediction import ProfileTime, times
from experiments.measurements import Curve
from experiments.simulations.grid import MachineBuilder
from simulator.analysis.bounds import best_bound
from simulator.collectives import find
from simulator.profile import Profile
from simulator.uncertainty.interval import Interval
from topologies.errors import InputError
from topologies.jit import CROSSOVER, announce
from topologies.topology import Floats, Topology

ALARM = 0.95
"""Times above the interval of this level are below expectation."""
COMPILED_RANKS = 8
"""Ranks whose schedules take longer to simulate than compiled code takes to load."""


@dataclass(frozen=True)
class Expected:
    """What a machine should give for a curve."""

    sizes: Floats
    """Bytes, shape (points,)."""
    seconds: Floats
    algorithm: tuple[str, ...]
    """The algorithm that is fastest at each size."""
    bounds: Callable[[], Floats]
    """Makes `bound`, which takes longer than all else on a large machine."""
    topology: Topology
    """The machine, with specified links where they are known, else as the profile has them."""
    by: str = ""
    """What expects it, in words: a library on a machine, or a profile."""
    profile: str = ""
    """The profile and its machine in words; empty if a library is expected on a machine."""
    better: tuple[str, ...] = ()
    """Of a curve with a forced algorithm: the fastest algorithm that the library may choose at each
    size."""
    better_s: Floats = field(default_factory=lambda: np.zeros(0))
    """The seconds of these, shape (points,)."""
    intervals: tuple[Interval, ...] = ()
    """That of a run at each size; empty if the profile does not say how sure it is."""
    guess: bool = False
    """Whether the machine is a guess."""
    placed: bool = False
    """Whether it is known on which nodes the ranks are, though the curve does not tell."""

    @cached_property
    def bound(self) -> Floats:
        """Seconds that nothing can beat, shape (points,)."""
        return self.bounds()

    @cached_property
    def low(self) -> Floats:
        """The lower ends of the intervals, shape (points,); the expected seconds without any."""
        return np.array([interval.low for interval in self.intervals] or self.seconds)

    @cached_property
    def high(self) -> Floats:
        """The upper ends of the intervals, shape (points,); the expected seconds without any."""
        return np.array([interval.high for interval in self.intervals] or self.seconds)

    @cached_property
    def alarm(self) -> Floats:
        """Seconds above which a time is below expectation, shape (points,)."""
        ends = [interval.upper(ALARM) for interval in self.intervals]
        return np.array(ends or self.seconds)


Expectation = Callable[[Curve, Floats], Expected | None]
"""From a curve and its sizes in bytes to what the machine should give, if that is known."""
Machines = Callable[[Curve], MachineBuilder]
"""From a curve to the machine with its ranks on their nodes."""


class _Run(NamedTuple):
    """An algorithm at one size."""

    algorithm: str
    time: ProfileTime

    @property
    def seconds(self) -> float:
        return self.time.seconds if self.time.interval is None else self.time.interval.expected

    @property
    def correction(self) -> float:
        """The factor by which the machine's bound is lower: at most 1. Measured runs that are
        faster than the profile's links mean faster links."""
        return min(1.0, self.seconds / self.time.seconds)


def profiled(
    simulation: Profile, kind: Library, machines: Machines, by: str, profile: str = ""
) -> Expectation:
    """The expectation by a profile: software and protocols included. `kind` is its library, on the
    machine; `by` says in words what expects. It raises InputError if the machine is too small for
    a curve."""

    def expect(curve: Curve, sizes: Floats) -> Expected | None:
        pattern, ranks = curve.pattern, curve.ranks or 0
        if ranks < 2:
            return None
        if ranks >= COMPILED_RANKS:
            announce(CROSSOVER)
        machine = machines(curve)(ranks, 0)
        label = curve.algorithm or OWN
        ignored = simulation.ignored(label, pattern, ranks, curve.nodes, curve.library)

        def chosen(forced: str = "") -> tuple[str, ...]:
            if forced or not may_cross(curve):
                return kind.algorithms(pattern, forced, multicast=may_multicast(curve))
            return kind.with_figures(simulation.launches).algorithms_on(machine, pattern)

        names = ignored.ran if ignored else chosen(curve.algorithm)
        by_rule = kind.rule(pattern, ranks, curve.library, curve.nodes)
        rule = None if ignored or curve.algorithm else by_rule
        running = {
            nbytes: kind.running((rule(nbytes),) if rule else names, nbytes / ELEMENT, ranks)
            for nbytes in sizes.tolist()
        }
        runs = _runs(simulation, running, machine, ranks)
        if not all(runs.values()):
            return None
        fastest = [min(runs[nbytes], key=_seconds) for nbytes in sizes.tolist()]
        others = dict.fromkeys(running, chosen() if curve.algorithm else ())
        free = _runs(simulation, others, machine, ranks)
        better = [min(unforced, key=_seconds) for unforced in free.values() if unforced]
        used = _used(simulation, fastest, machine, sizes)
        return Expected(
            sizes,
            np.array([run.seconds for run in fastest]),
            tuple(", ".join(filter(None, (run.algorithm, run.time.protocol))) for run in fastest),
            partial(_bounds, fastest, better, used, ranks, sizes),
            used[-1],
            by,
            profile,
            tuple(run.algorithm for run in better),
            np.array([run.seconds for run in better]),
            tuple(run.time.interval for run in fastest if run.time.interval is not None),
        )

    return expect


def _seconds(run: _Run) -> float:
    return run.seconds


def _runs(
    simulation: Profile,
    running: Mapping[float, Iterable[str]],
    machine: Topology,
    ranks: int,
) -> dict[float, list[_Run]]:
    """The runs of each size by all of its algorithms that fit the machine."""
    sizes: dict[str, list[float]] = {}
    for nbytes, names in running.items():
        for name in dict.fromkeys(names):
            sizes.setdefault(name, []).append(nbytes)
    runs: dict[float, list[_Run]] = {nbytes: [] for nbytes in running}
    for name, chosen in sizes.items():
        with suppress(InputError):
            for nbytes, time in times(simulation, find(name), machine, ranks, chosen).items():
                runs[nbytes].append(_Run(name, time))
    return runs


def _used(
    simulation: Profile, fastest: Sequence[_Run], machine: Topology, sizes: Floats
) -> list[Topology]:
    """The machine of each size: with specified links, or as the library uses its links there if
    nobody specified them."""
    if simulation.specified:
        return [machine] * len(fastest)
    protocols = {protocol.name: protocol for protocol in simulation.protocols}
    machines: dict[tuple[str, str], Topology] = {}
    for run, nbytes in zip(fastest, sizes.tolist(), strict=True):
        key = run.algorithm, run.time.protocol
        if key not in machines:
            name = find(run.algorithm).listed_name
            machines[key] = simulation.apply(machine, protocols[key[1]], name, nbytes)
    return [machines[run.algorithm, run.time.protocol] for run in fastest]


def _bounds(
    fastest: Sequence[_Run],
    better: Sequence[_Run],
    used: Sequence[Topology],
    ranks: int,
    sizes: Floats,
) -> Floats:
    """Seconds that nothing can beat at each size on the machine that is `used`, where `better` are
    runs that nobody forced, if any."""
    seconds = np.zeros(len(sizes))
    for k, (run, machine, nbytes) in enumerate(zip(fastest, used, sizes.tolist(), strict=True)):
        collective = find(run.algorithm).collective
        bound = best_bound(collective, machine, ranks, nbytes)
        # calls that follow one another may be faster than a single one
        least = min((run.time.common + bound.seconds) * run.correction, run.seconds)
        seconds[k] = least * min(1.0, better[k].correction / run.correction if better else 1.0)
    return seconds
