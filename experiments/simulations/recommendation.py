"""Which algorithm is best at each size on a machine, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import pairwise
from math import log2, sqrt

from experiments.output import Record
from experiments.simulations.candidates import (
    Left,
    MachineOf,
    cases,
    known_names,
    library_choice,
    nccl_name,
    usual_name,
)
from experiments.simulations.case import Case
from experiments.simulations.rules import DEFAULT, Rules
from simulator.analysis.bounds import best_bound
from simulator.analysis.critical_path import parts, trace_back
from simulator.cost_models.nccl import Choice
from simulator.profile import Profile, Run
from topologies.errors import InputError
from topologies.topology import Topology

HALVINGS = 6
"""Sizes that are simulated to find where one algorithm overtakes another."""
SAME = 1e-6
"""Times that differ by no more than this share are equal: then the library's choice is kept."""


@dataclass(frozen=True)
class Advice:
    """The best algorithm at one size. Units are in the names."""

    size_B: float
    algorithm: str
    protocol: str
    """The fastest protocol of the profile, or NCCL's for its own algorithms; else empty."""
    channels: int
    """The channels over which the algorithm sends."""
    segment_B: float
    """The largest message."""
    time_s: float
    bound_s: float
    over_bound: float
    """The time as a multiple of the best lower bound."""
    bound: str
    default: str
    """What the library runs without advice."""
    default_time_s: float
    gain: float
    """How many times as long the library's default takes."""
    why: str
    """Steps and critical path of the algorithm, and of the default."""

    def record(self) -> Record:
        """The fields by name, as files show them."""
        return asdict(self)


@dataclass(frozen=True)
class Explained:
    """An algorithm at one size."""

    algorithm: str
    time_s: float
    over_best: float
    """The time as a multiple of that of the fastest."""
    steps: int
    protocol: str
    path: str
    """Where the time goes."""

    def record(self) -> Record:
        """The fields by name, as files show them."""
        return asdict(self)


@dataclass(frozen=True)
class Crossover:
    """A size from which another algorithm is faster."""

    size_B: float
    before: str
    after: str


@dataclass(frozen=True)
class Question:
    """A collective on a machine."""

    collective: str
    ranks: int
    machine: MachineOf
    rules: Rules = DEFAULT
    profile: Profile | None = None
    """A calibrated library, whose protocols are simulated."""
    chosen: tuple[str, ...] = ()
    """The algorithms of which the library of the profile runs the fastest."""


@dataclass
class Answers:
    """All algorithms of a collective on a machine, simulated at the sizes that are asked for."""

    question: Question
    cases: list[Case] = field(init=False)
    left: list[Left] = field(init=False)
    """The algorithms that are not tried."""
    _runs: dict[tuple[str, float], Run] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        asked = self.question
        if asked.ranks < 2:
            raise InputError(f"ranks is {asked.ranks}: advice needs 2 or more")
        self.cases, self.left = cases(
            asked.collective, asked.ranks, asked.machine, asked.rules, asked.profile
        )

    def run(self, case: Case, nbytes: float) -> Run:
        """A simulation, made once."""
        key = case.algorithm.name, nbytes
        if key not in self._runs:
            self._runs[key] = case.run(nbytes)
        return self._runs[key]

    def ranked(self, nbytes: float) -> list[tuple[float, Case]]:
        """The algorithms from the fastest on; of equals the earlier."""
        times = [(self.run(case, nbytes).seconds, case) for case in self.cases]
        return sorted(times, key=lambda pair: float(f"{pair[0]:.6g}"))

    @cached_property
    def _topology(self) -> Topology:
        return self.question.machine(self.question.ranks, 0)

    def library(self, nbytes: float) -> Choice | None:
        """NCCL's choice of algorithm and protocol by its own model, if there is one."""
        return library_choice(self.question.collective, self._topology, self.question.ranks, nbytes)

    def default(self, nbytes: float) -> Case:
        """What the library runs without advice."""
        names = known_names(self.question.chosen) or [
            usual_name(self.question.collective, self.library(nbytes))
        ]
        known = [case for case in self.cases if case.algorithm.name in names]
        return min(known or self.cases[:1], key=lambda case: self.run(case, nbytes).seconds)

    def best(self, nbytes: float, *, of_nccl: bool = False) -> Case:
        """The fastest algorithm, or the fastest that NCCL has; the default if none is faster."""
        default = self.default(nbytes)
        ranked = [
            (seconds, case)
            for seconds, case in self.ranked(nbytes)
            if not of_nccl or nccl_name(case.algorithm)
        ]
        if not ranked:
            raise InputError(f"NCCL has no algorithm for {self.question.collective}")
        usable = not of_nccl or nccl_name(default.algorithm)
        alike = self.run(default, nbytes).seconds <= ranked[0][0] * (1 + SAME)
        return default if usable and alike else ranked[0][1]

    def protocol(self, case: Case, nbytes: float) -> str:
        """The protocol of the profile, or NCCL's for a ring or tree of its own."""
        run, chosen = self.run(case, nbytes), self.library(nbytes)
        if run.protocol or chosen is None or not nccl_name(case.algorithm):
            return run.protocol
        return chosen.protocol if chosen.algorithm == nccl_name(case.algorithm) else "Simple"

    def advice(self, nbytes: float) -> Advice:
        """The best algorithm at one size, and what it gains."""
        best, default = self.best(nbytes), self.default(nbytes)
        run, usual = self.run(best, nbytes), self.run(default, nbytes)
        collective, schedule = best.algorithm.collective, run.timeline.schedule
        bound = best_bound(collective, run.timeline.routed.machine, self.question.ranks, nbytes)
        least = run.common + bound.seconds
        why = _why(run)
        if default is not best:
            why += f"; {default.algorithm.name}: {_why(usual)}"
        sent = schedule.nbytes[schedule.remote]
        return Advice(
            size_B=nbytes,
            algorithm=best.algorithm.name,
            protocol=self.protocol(best, nbytes),
            channels=_channels(best),
            segment_B=float(sent.max(initial=0.0)),
            time_s=run.seconds,
            bound_s=least,
            over_bound=run.seconds / least if least > 0 else 1.0,
            bound=bound.name,
            default=default.algorithm.name,
            default_time_s=usual.seconds,
            gain=usual.seconds / run.seconds if run.seconds > 0 else 1.0,
            why=why,
        )

    def explained(self, nbytes: float) -> list[Explained]:
        """All algorithms at one size, the fastest first, each with its best options."""
        rows: dict[str, Explained] = {}
        ranked = self.ranked(nbytes)
        for seconds, case in ranked:
            run = self.run(case, nbytes)
            over = seconds / ranked[0][0] if ranked[0][0] > 0 else 1.0
            row = Explained(
                case.algorithm.name,
                seconds,
                over,
                run.timeline.schedule.steps,
                run.protocol,
                _path(run),
            )
            rows.setdefault(case.algorithm.listed_name, row)
        return list(rows.values())

    def crossovers(self, sizes: Sequence[float], *, of_nccl: bool = False) -> list[Crossover]:
        """Where the best algorithm changes between two of the sizes."""
        crossovers = []
        for low, high in pairwise(sizes):
            before, after = (self.best(size, of_nccl=of_nccl) for size in (low, high))
            if before is not after:
                names = before.algorithm.name, after.algorithm.name
                crossovers.append(Crossover(self._meeting(before, after, low, high), *names))
        return crossovers

    def _meeting(self, before: Case, after: Case, low: float, high: float) -> float:
        for _ in range(HALVINGS):
            middle = 2 ** round(log2(sqrt(low * high)), 1)
            if not low < middle < high:
                break
            if self.run(before, middle).seconds <= self.run(after, middle).seconds:
                low = middle
            else:
                high = middle
        return float(round(high))


def _channels(case: Case) -> int:
    schedule = case.schedule
    return int(schedule.lane[schedule.remote].max(initial=0)) + 1


def _why(run: Run) -> str:
    steps = run.timeline.schedule.steps
    return f"{steps} {'step' if steps == 1 else 'steps'}, {_path(run)}"


def _path(run: Run) -> str:
    """The largest two parts of the critical path, as shares of the time."""
    seconds = {**run.overheads, **parts(trace_back(run.timeline))}
    largest = sorted(seconds.items(), key=lambda part: -part[1])[:2]
    total = run.seconds or 1.0
    return ", ".join(f"{name} {value / total:.0%}" for name, value in largest if value > 0)
