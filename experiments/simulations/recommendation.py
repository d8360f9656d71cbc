"""Which algorithm is best at each size on a machine, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import log2, sqrt
from typing import Any

from experiments.output import Record
from experiments.profiles.interval_levels import interval_ends
from experiments.simulations.candidates import cases, library_choice, nccl_name, usual_name
from experiments.simulations.case import Case
from experiments.simulations.rules import DEFAULT, Rules
from experiments.simulations.workload import MachineBuilder
from simulator.analysis.bounds import best_bound
from simulator.analysis.critical_path import critical_path, parts
from simulator.collectives import Algorithm, find
from simulator.cost_models.nccl import Choice
from simulator.predictions import Prediction, interval_of, ratio
from simulator.profile import Profile
from simulator.schedules.timeline import ProfileRun
from simulator.uncertainty.interval import Interval
from topologies.errors import InputError
from topologies.topology import Topology

Outcome = tuple[ProfileRun, Prediction | None, Interval | None]
"""A simulation, and what the profile knows of its error: None if it has no intervals."""
GAIN = 1.005
"""What takes no more than this many times as long is as good."""


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
    expected_s: float | None = None
    """The time that half of the runs exceed; None if the profile has no intervals."""
    low_s: float | None = None
    """The lower end of the interval of a run."""
    high_s: float | None = None
    """The upper end of the interval."""
    unsure: str | None = None
    """In what the run is outside the measured runs, in words."""
    rival: str | None = None
    """The second fastest algorithm, if it may be as fast as the best; empty if it is slower."""
    own_software: str | None = None
    """The fastest algorithm that the library cannot run here; empty if that is slower. None if any
    software may run."""
    own_software_time_s: float | None = None
    """Its expected time, if it is faster."""

    @property
    def seconds(self) -> float:
        """The expected time, or the simulated one."""
        return self.time_s if self.expected_s is None else self.expected_s

    def record(self) -> Record:
        """The fields by name, as files show them, without those that only a profile with intervals
        or a library has, if there is none."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Crossover:
    """A size from which another algorithm is faster."""

    size_B: float
    before: str
    after: str


@dataclass(frozen=True)
class Question:
    """A collective on a machine. All its algorithms are simulated at the sizes that are asked
    for."""

    collective: str
    ranks: int
    machine: MachineBuilder
    rules: Rules = DEFAULT
    profile: Profile | None = None
    """A calibrated library, whose protocols are simulated."""
    runs: Callable[[str, Topology], bool] | None = None
    """Whether the library can run an algorithm on a machine; None: any software may run."""
    algorithms: tuple[Algorithm, ...] = ()
    """The algorithms to choose from, by default all."""
    _outcomes: dict[tuple[str, float], Outcome] = field(
        init=False, default_factory=dict, repr=False
    )
    """Simulations by algorithm and size."""

    @property
    def cases(self) -> list[Case]:
        """The algorithms that are tried."""
        return self._candidates[0]

    @property
    def untried(self) -> dict[str, str]:
        """Why each other algorithm is not tried, by name."""
        return self._candidates[1]

    @cached_property
    def _candidates(self) -> tuple[list[Case], dict[str, str]]:
        if self.ranks < 2:
            raise InputError(f"ranks is {self.ranks}: advice needs 2 or more")
        return cases(
            *(self.collective, self.ranks, self.machine, self.rules, self.profile), self.algorithms
        )

    @cached_property
    def usable(self) -> list[Case]:
        """The cases that the library can run; all of a collective that it does not have. If its
        pieces are known, it divides V itself. Raises InputError if it can run none of the
        algorithms to choose from."""
        runs, profile = self.runs, self.profile
        divides = profile is not None and profile.pieces
        names = [(case, case.algorithm.name, case.algorithm.listed_name) for case in self.cases]
        usable = [
            case
            for case, name, listed in names
            if not runs or ((name == listed or not divides) and runs(listed, self._topology))
        ]
        if usable or not self.algorithms:
            return usable or self.cases
        named = " or ".join(each.name for each in self.algorithms)
        able = replace(self, algorithms=()).usable
        known = ", ".join(dict.fromkeys(case.algorithm.listed_name for case in able))
        raise InputError(
            f"--algo: the library does not run {named} on {self.ranks} ranks of this machine, it "
            f"runs {known}"
        )

    def run(self, case: Case, nbytes: float) -> ProfileRun:
        """A simulation, made once: in the pieces of the profile's library."""
        return self._outcome(case, nbytes)[0]

    def _outcome(self, case: Case, nbytes: float) -> Outcome:
        """A simulation, made once, with what the profile knows of its error."""
        key = case.algorithm.name, nbytes
        if key not in self._outcomes:
            run = case.tuned(nbytes).run(nbytes)
            prediction = case.prediction(run)
            interval = case.bounded(prediction and interval_of(prediction), nbytes)
            self._outcomes[key] = run, prediction, interval
        return self._outcomes[key]

    def seconds(self, case: Case, nbytes: float) -> float:
        """The expected time, or the simulated one if the profile has no intervals."""
        run, _, interval = self._outcome(case, nbytes)
        return interval.expected if interval else run.seconds

    def may_be_as_fast(self, case: Case, best: Case, nbytes: float) -> bool | None:
        """Whether the difference of two algorithms is inside its error; None if that is not
        known."""
        ours, theirs = (self._outcome(each, nbytes)[1] for each in (best, case))
        return None if ours is None or theirs is None else ratio(ours, theirs).low <= 1

    def ranked(self, nbytes: float, *, usable: bool = True) -> list[tuple[float, Case]]:
        """The algorithms that the library can run, or those with none that it can, from the fastest
        on; of equals the earlier."""
        names = {case.algorithm.listed_name for case in self.usable}
        others = (case for case in self.cases if case.algorithm.listed_name not in names)
        times = [(self.seconds(case, nbytes), case) for case in (self.usable if usable else others)]
        return sorted(times, key=lambda pair: float(f"{pair[0]:.6g}"))

    @cached_property
    def _topology(self) -> Topology:
        return self.machine(self.ranks, 0)

    def library(self, nbytes: float) -> Choice | None:
        """NCCL's choice of algorithm and protocol by its own model, if there is one."""
        return library_choice(self.collective, self._topology, self.ranks, nbytes)

    def default(self, nbytes: float) -> Case:
        """What the library runs without advice."""
        choices = self.profile and self.profile.choices
        names = choices(self.collective, self._topology, nbytes) if choices else ()
        names = names or (usual_name(self.collective, self.library(nbytes)),)
        known = [case for name in names for case in self._named(name)] or self.usable[:1]
        return min(known, key=lambda case: self.seconds(case, nbytes))

    def _named(self, name: str) -> list[Case]:
        """The algorithm of a name, in fewer segments if it has too many messages. If the user chose
        others, it is simulated all the same."""
        plain = [case for case in self.cases if case.algorithm.name == name]
        fewer = [case for case in self.cases if case.algorithm.listed_name == name]
        if plain or fewer or not self.algorithms:
            return plain or fewer
        return [self.cases[0].other(find(name))]

    def best(self, nbytes: float) -> Case:
        """The fastest algorithm that the library can run; the default if none is faster."""
        ranked, default = self.ranked(nbytes), self.default(nbytes)
        # Of times that differ by a millionth, the library's choice is kept.
        least = ranked[0][0] * (1 + 1e-6)
        alike = (case for seconds, case in ranked if case is default and seconds <= least)
        return next(alike, ranked[0][1])

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
        bound = best_bound(collective, run.timeline.routed.machine, self.ranks, nbytes)
        least = run.common + bound.seconds
        why = _why(run)
        if default is not best:
            why += f"; {default.algorithm.name}: {_why(usual)}"
        sent = schedule.nbytes[schedule.remote]
        seconds, interval = self.seconds(best, nbytes), self._outcome(best, nbytes)[2]
        faster = [
            each for each in self.ranked(nbytes, usable=False)[:1] if each[0] * GAIN < seconds
        ]
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
            gain=self.seconds(default, nbytes) / seconds if seconds > 0 else 1.0,
            why=why,
            rival=None if interval is None else self._rival(best, nbytes),
            own_software=faster[0][1].algorithm.name if faster else "" if self.runs else None,
            own_software_time_s=faster[0][0] if faster else None,
            **_ends(interval),
        )

    def second(self, nbytes: float) -> tuple[float, Case] | None:
        """The fastest algorithm of another name than the best, if there is one."""
        name = self.best(nbytes).algorithm.listed_name
        others = (row for row in self.ranked(nbytes) if row[1].algorithm.listed_name != name)
        return next(others, None)

    def _rival(self, best: Case, nbytes: float) -> str:
        """The second fastest algorithm, whatever its options, if it may be as fast as the best."""
        _, second = self.second(nbytes) or (0.0, None)
        if second is None or not self.may_be_as_fast(second, best, nbytes):
            return ""
        return second.algorithm.name

    def explained(self, nbytes: float) -> list[Record]:
        """All algorithms at one size, the fastest first, each with its best options; behind them
        those that the library cannot run. A row says where the time goes (`path`), whether the
        algorithm may be as fast as the best (`rival`), and whether the library cannot run it here
        (`own_software`)."""
        rows: dict[str, Record] = {}
        ranked, own = self.ranked(nbytes), self.ranked(nbytes, usable=False)
        fastest, best = ranked[0]
        for number, (seconds, case) in enumerate([*ranked, *own]):
            run, _, interval = self._outcome(case, nbytes)
            row = {
                "algorithm": case.algorithm.name,
                "time_s": run.seconds,
                "over_best": seconds / fastest if fastest > 0 else 1.0,
                "steps": run.timeline.schedule.steps,
                "protocol": run.protocol,
                "path": _path(run),
                **_ends(interval),
                "rival": self.may_be_as_fast(case, best, nbytes),
                "own_software": number >= len(ranked) if self.runs else None,
            }
            known = {name: value for name, value in row.items() if value is not None}
            rows.setdefault(case.algorithm.listed_name, known)
        return list(rows.values())

    def crossovers(self, sizes: Sequence[float]) -> list[Crossover]:
        """Where the best algorithm changes between two of the sizes."""
        crossovers = []
        for low, high in pairwise(sizes):
            before, after = (self.best(size) for size in (low, high))
            if before is not after:
                names = before.algorithm.name, after.algorithm.name
                crossovers.append(Crossover(self._meeting(before, after, low, high), *names))
        return crossovers

    def _meeting(self, before: Case, after: Case, low: float, high: float) -> float:
        for _ in range(6):  # sizes: a sixty-fourth of the gap between two that were asked for
            middle = 2 ** round(log2(sqrt(low * high)), 1)
            if not low < middle < high:
                break
            if self.seconds(before, middle) <= self.seconds(after, middle):
                low = middle
            else:
                high = middle
        return float(round(high))


def _ends(interval: Interval | None) -> dict[str, Any]:
    unsure = {} if interval is None else {"unsure": "; ".join(interval.unsure)}
    return {**interval_ends(interval), **unsure}


def _channels(case: Case) -> int:
    schedule = case.schedule
    return int(schedule.lane[schedule.remote].max(initial=0)) + 1


def _why(run: ProfileRun) -> str:
    steps = run.timeline.schedule.steps
    return f"{steps} {'step' if steps == 1 else 'steps'}, {_path(run)}"


def _path(run: ProfileRun) -> str:
    """The largest two parts of the critical path, as shares of the time."""
    seconds = {**run.overheads, **parts(critical_path(run.timeline))}
    largest = sorted(seconds.items(), key=lambda part: -part[1])[:2]
    total = run.seconds or 1.0
    return ", ".join(f"{name} {value / total:.0%}" for name, value in largest if value > 0)
