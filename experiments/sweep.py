"""Sweeps: every algorithm at every number of ranks and size, simulated, proven and held against formula and bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from simulator import memory, semantics
from simulator.bounds import best_bound
from simulator.collectives import Algorithm
from simulator.engines import Engine, simulate
from simulator.fabric import Fabric, observe
from simulator.schedule import Schedule
from simulator.timeline import Timeline
from topologies.topology import Topology

TOLERANCE = 1e-9
"""The greatest relative difference between simulation and formula where the formula's assumptions hold."""

Machine = Callable[[int], Topology]
"""From the number of devices to the machine."""


@dataclass(frozen=True)
class Row:
    """One point of a sweep, units in the names. A formula that is not claimed on the machine is still shown."""

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
    verdict: str

    @property
    def failed(self) -> bool:
        """Whether a check failed: something is wrong with the simulator, not with the machine."""
        return self.verdict.startswith("FAIL")


@dataclass
class Case:
    """One algorithm at one number of ranks, built and proven once for all sizes."""

    algorithm: Algorithm
    ranks: int
    topology: Topology
    schedule: Schedule = field(init=False)
    wrong: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.schedule = self.algorithm.build(self.ranks, 1.0)
        try:
            semantics.check(self.schedule, self.algorithm.collective)
        except semantics.WrongResult as error:
            self.wrong = str(error)

    def row(self, nbytes: float, engine: Engine) -> Row:
        """Simulate one size."""
        return judge(self, simulate(self.schedule.scaled(nbytes), self.topology, engine))


def sweep(
    algorithms: list[Algorithm],
    ranks: list[int],
    sizes: list[float],
    machine: Machine,
    engine: Engine = "auto",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Row]:
    """A row for each algorithm, number of ranks and size in bytes, in that order."""
    work = [(algorithm, p) for algorithm in algorithms for p in ranks]
    for done, (algorithm, p) in enumerate(work):
        progress(done, len(work))
        case = Case(algorithm, p, machine(p + algorithm.servers))
        for nbytes in sizes:
            yield case.row(nbytes, engine)
    progress(len(work), len(work))


def judge(case: Case, timeline: Timeline) -> Row:
    """A simulated point beside formula and bound."""
    schedule, cost, p = timeline.schedule, case.algorithm.cost, case.ranks
    nbytes, time = schedule.nbytes_total, timeline.makespan
    fabric = observe(timeline.routed)
    bound = best_bound(case.algorithm.collective, case.topology, p, nbytes)
    held = memory.trace(schedule, timeline)
    formula = cost.time(fabric, p, nbytes)
    algbw = nbytes / time if time > 0 else math.inf
    row = Row(
        algorithm=case.algorithm.name,
        ranks=p,
        size_B=nbytes,
        time_s=time,
        formula_s=formula,
        difference=time / formula - 1 if formula > 0 else 0.0,
        bound_s=bound.seconds,
        over_bound=time / bound.seconds if bound.seconds > 0 else math.inf,
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
        verdict="",
    )
    return _judged(row, case, fabric)


def _judged(row: Row, case: Case, fabric: Fabric) -> Row:
    cost = case.algorithm.cost
    apart = cost.holds(fabric)
    memory_claimed = not apart and fabric.ports in cost.memory_ports
    failures = [
        name
        for name, failed in {
            f"wrong result: {case.wrong}": bool(case.wrong),
            "beats the bound": row.time_s < row.bound_s * (1 - TOLERANCE),
            "time": not apart and abs(row.difference) > TOLERANCE,
            "steps": row.steps != row.steps_formula,
            "bytes": _differ(row.volume_B, row.volume_formula_B, row.size_B),
            "peak memory": memory_claimed and _differ(row.peak_B, row.peak_formula_B, row.size_B),
            "redundant memory": memory_claimed and _differ(row.redundant_B, row.redundant_formula_B, row.size_B),
        }.items()
        if failed
    ]
    if failures:
        return replace(row, verdict=f"FAIL: {', '.join(failures)}")
    return replace(row, verdict=f"not claimed: {apart}" if apart else "ok")


def _differ(simulated: float, formula: float, size: float) -> bool:
    return abs(simulated - formula) > TOLERANCE * max(abs(formula), size)
