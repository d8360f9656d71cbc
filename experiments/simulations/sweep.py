"""Sweeps: every algorithm at every number of ranks and size, simulated, proven and held against
formula and bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple, TypeVar

from experiments.output import Record
from experiments.simulations import workload
from experiments.simulations.verdict import Verdict
from simulator.analysis import memory
from simulator.analysis.bounds import best_bound
from simulator.collectives import Algorithm
from simulator.cost_models import CostModel
from simulator.cost_models.fabric import Fabric, observe
from simulator.engines import Engine, Routed, run, simulate
from simulator.profile import Profile, Run
from simulator.schedules import semantics
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.topology import Topology

TOLERANCE = 1e-9
"""The greatest relative difference between simulation and formula where the formula's assumptions
hold."""

Machine = Callable[[int, int], Topology]
"""From the numbers of workers and of servers to the machine."""


class Missing(NamedTuple):
    """A point without a row: why, and whether the algorithm cannot run on such a machine or the
    input is `wrong`."""

    algorithm: str
    ranks: int
    why: str
    wrong: bool

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.ranks} ranks: {self.why}"


class Rules(NamedTuple):
    """How :func:`simulator.engines.simulate` is asked to simulate."""

    engine: Engine = "auto"
    sharing: Literal["fifo", "fair"] = "fifo"
    store_and_forward: bool = False

    @property
    def apart(self) -> str:
        """Which rule no closed form assumes, or nothing."""
        return (
            "fair sharing"
            if self.sharing == "fair"
            else "store-and-forward"
            if self.store_and_forward
            else ""
        )

    def run(self, routed: Routed) -> Timeline:
        """Simulate a schedule whose routes are found."""
        return run(
            routed, self.engine, sharing=self.sharing, store_and_forward=self.store_and_forward
        )

    def simulate(self, schedule: Schedule, topology: Topology) -> Timeline:
        """Simulate by these rules."""
        return simulate(
            schedule,
            topology,
            self.engine,
            sharing=self.sharing,
            store_and_forward=self.store_and_forward,
        )


DEFAULT = Rules()
T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One point of a sweep, units in the names. A formula that is not claimed on the machine is
    still shown.

    Under a profile `protocol` was the fastest, and time, formula and bound include the `launch_s`
    before it.
    """

    algorithm: str
    ranks: int
    size_B: float
    time_s: float
    formula_s: float
    difference: float
    bound_s: float
    over_bound: float
    bound: str
    algbw_Bps: float
    busbw_Bps: float
    steps: int
    steps_formula: int
    volume_B: float
    volume_formula_B: float
    peak_B: float
    peak_formula_B: float
    redundant_B: float
    redundant_formula_B: float
    verdict: Verdict
    protocol: str = ""
    launch_s: float = 0.0

    def record(self) -> Record:
        """The fields by name, as files show them."""
        return asdict(self) | {"verdict": str(self.verdict)}


@dataclass
class Case:
    """One algorithm at one number of ranks on one machine, built and proven once for all sizes.

    An algorithm that is made for the machine chooses here: `chosen` says what, in words. With a
    `profile` every one of its protocols is simulated.
    """

    algorithm: Algorithm
    ranks: int
    topology: Topology
    rules: Rules = DEFAULT
    profile: Profile | None = None
    schedule: Schedule = field(init=False)
    cost: CostModel = field(init=False)
    chosen: tuple[str, ...] = field(init=False, default=())
    wrong: str = field(init=False, default="")

    def __post_init__(self) -> None:
        workload.check_schedule(self.algorithm, self.ranks)
        fitted = self.algorithm.on(self.topology, self.ranks, 1.0)
        self.schedule, self.topology, self.cost, self.chosen = fitted
        servers = self.topology.placement[self.ranks :][: self.algorithm.servers]
        self.chosen += tuple(f"server: {self.topology.device_names[device]}" for device in servers)
        try:
            semantics.check(self.schedule, self.algorithm.collective)
        except semantics.WrongResult as error:
            self.wrong = str(error)

    def simulate(self, nbytes: float) -> Timeline:
        """Simulate one size, without what software adds before the first operation."""
        return self.run(nbytes).timeline

    def run(self, nbytes: float) -> Run:
        """Simulate one size; under a profile, by its fastest protocol."""
        schedule = self.schedule.scaled(nbytes)
        if self.profile is None:
            return Run("", self.rules.simulate(schedule, self.topology), {})
        return self.profile.simulate(schedule, self.topology, self.algorithm, self.rules.run)


def sweep(
    algorithms: Sequence[Algorithm],
    ranks: Sequence[int],
    sizes: Sequence[float],
    machine: Machine,
    rules: Rules = DEFAULT,
    progress: Callable[[int, int], None] = lambda done, total: None,
    missing: Callable[[Missing], None] | None = None,
    profile: Profile | None = None,
) -> Iterator[Row]:
    """A row for each algorithm, number of ranks and size in bytes, in that order, as soon as it is
    there.

    What has no row costs only itself: `missing` is told. Without `missing` that is an error.
    """
    work = [(algorithm, p) for algorithm in algorithms for p in ranks]
    for done, (algorithm, p) in enumerate(work):
        progress(done, len(work))
        for found in _points(algorithm, p, sizes, machine, rules, profile):
            if isinstance(found, Row):
                yield found
            elif missing is None:
                raise InputError(found.why)
            else:
                missing(found)
    progress(len(work), len(work))


def _points(
    algorithm: Algorithm,
    p: int,
    sizes: Sequence[float],
    machine: Machine,
    rules: Rules,
    profile: Profile | None,
) -> Iterator[Row | Missing]:
    """A row for each size, or why there is none."""
    topology = _tried(algorithm, p, lambda: machine(p, algorithm.servers))
    if isinstance(topology, Missing):
        yield topology
        return
    case = _tried(algorithm, p, lambda: Case(algorithm, p, topology, rules, profile))
    if isinstance(case, Missing):
        yield case._replace(wrong=case.wrong and algorithm.fit is None and algorithm.defined(p))
        return
    for nbytes in sizes:
        yield _tried(algorithm, p, partial(_row, case, nbytes))


def _row(case: Case, nbytes: float) -> Row:
    return judge(case, case.run(nbytes))


def _tried(algorithm: Algorithm, p: int, make: Callable[[], T]) -> T | Missing:
    try:
        return make()
    except InputError as error:
        return Missing(algorithm.name, p, str(error), wrong=True)
    except MemoryError:
        return Missing(
            algorithm.name, p, "it does not fit into memory: take fewer ranks", wrong=True
        )


def judge(case: Case, run: Run) -> Row:
    """A simulated point beside formula and bound."""
    timeline = run.timeline
    schedule, cost, p = timeline.schedule, case.cost, case.ranks
    nbytes, simulated, time = schedule.nbytes_total, timeline.makespan, run.seconds
    fabric = observe(timeline.routed)
    bound = best_bound(case.algorithm.collective, timeline.routed.topology, p, nbytes)
    held = memory.trace(schedule, timeline)
    formula = cost.time(fabric, p, nbytes)
    algbw = nbytes / time if time > 0 else math.inf
    row = Row(
        algorithm=case.algorithm.name,
        ranks=p,
        size_B=nbytes,
        time_s=time,
        formula_s=run.launch + formula,
        difference=simulated / formula - 1 if formula > 0 else 0.0,
        bound_s=run.common + bound.seconds,
        over_bound=time / (run.common + bound.seconds) if bound.seconds > 0 else math.inf,
        bound=bound.name,
        algbw_Bps=algbw,
        busbw_Bps=algbw * case.algorithm.collective.busbw(p),
        steps=schedule.steps,
        steps_formula=cost.steps(p),
        volume_B=schedule.volume,
        volume_formula_B=cost.volume(p, nbytes),
        peak_B=held.peak,
        peak_formula_B=cost.peak(p, nbytes),
        redundant_B=held.peak_redundant,
        redundant_formula_B=cost.redundant(p, nbytes),
        verdict=Verdict(),
        protocol=run.protocol,
        launch_s=run.launch,
    )
    return replace(row, verdict=_verdict(row, case, fabric))


def _verdict(row: Row, case: Case, fabric: Fabric) -> Verdict:
    cost = case.cost
    assumption = case.rules.apart or cost.holds(fabric)
    memory_claimed = not assumption and fabric.ports in cost.memory_ports
    failures = tuple(
        name
        for name, failed in {
            f"wrong result: {case.wrong}": bool(case.wrong),
            "beats the bound": row.time_s < row.bound_s * (1 - TOLERANCE),
            "time": not assumption and abs(row.difference) > TOLERANCE,
            "steps": row.steps != row.steps_formula,
            "bytes": _differ(row.volume_B, row.volume_formula_B, row.size_B),
            "peak memory": memory_claimed and _differ(row.peak_B, row.peak_formula_B, row.size_B),
            "redundant memory": memory_claimed
            and _differ(row.redundant_B, row.redundant_formula_B, row.size_B),
        }.items()
        if failed
    )
    return Verdict(failures) if failures else Verdict(assumption=assumption)


def _differ(simulated: float, formula: float, size: float) -> bool:
    return abs(simulated - formula) > TOLERANCE * max(abs(formula), size)
