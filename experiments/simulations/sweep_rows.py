"""One point of a sweep: simulated, proven, and compared with the formula and the bound."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

from experiments.output import Record
from experiments.profiles.interval_levels import RUNS, interval_ends
from experiments.simulations.case import Case
from experiments.templates import headed
from simulator.analysis import memory
from simulator.analysis.bounds import best_bound, left_out
from simulator.cost_models.fabric import Fabric
from simulator.schedules.timeline import ProfileRun
from topologies.html_tables import table
from topologies.units import format_bandwidth, format_bytes, format_seconds, in_binary

if TYPE_CHECKING:
    import pandas as pd

TOLERANCE = 1e-9
"""The greatest relative difference between simulation and formula where the formula's assumptions
hold."""
COLUMNS = {
    "algorithm": "algorithm",
    "p": "ranks",
    "size": "size_B",
    **RUNS,
    "time": "time_s",
    "off by": "grid_error_s",
    **headed("formula_s", "difference"),
    "of bound": "{over_bound:.3f}",
    **headed("busbw_Bps", "protocol", "verdict"),
}
"""The columns that answer the question."""
RARE = ("busbw", "formula", "of bound", "difference")
"""Columns that a terminal leaves out, in this order, where long names need their place."""
WIDE = {
    **{name: column for name, column in COLUMNS.items() if name != "verdict"},
    **headed("bound", "algbw_Bps", "steps"),
    "bytes sent": "volume_B",
    "by formula": "volume_formula_B",
    "peak memory": "peak_B",
    "peak by formula": "peak_formula_B",
    "redundant": "redundant_B",
    "redundant by formula": "redundant_formula_B",
    **headed("unsure", "verdict"),
}
"""All columns; last those of long words."""


class PointVerdict(NamedTuple):
    """What the checks of one simulated point say. Tables and files show it as text."""

    failures: tuple[str, ...] = ()
    """The checks that failed: something is wrong with simctl, not with the machine."""
    assumption: str = ""
    """The assumption of the formula that the machine or the rules break; empty if it holds."""

    @property
    def failed(self) -> bool:
        """Whether a check failed."""
        return bool(self.failures)

    @property
    def claimed(self) -> bool:
        """Whether the time had to equal the formula."""
        return not self.assumption

    @property
    def word(self) -> str:
        """The verdict without its reasons."""
        return "FAIL" if self.failed else "ok" if self.claimed else "not claimed"

    @property
    def reason(self) -> str:
        """The checks that failed, or the assumption that does not hold."""
        return ", ".join(self.failures) or self.assumption

    def __str__(self) -> str:
        """The text of tables and files.

        >>> str(PointVerdict()), str(PointVerdict(("time", "steps")))
        ('ok', 'FAIL: time, steps')
        >>> str(PointVerdict(assumption="routes differ"))
        'not claimed: routes differ'
        """
        return f"{self.word}: {self.reason}" if self.reason else self.word


@dataclass(frozen=True)
class SweepRow:
    """One point of a sweep: what the simulation and the formula say. Units are in the names."""

    algorithm: str
    ranks: int
    size_B: float
    time_s: float
    """The simulated time, with `launch_s`."""
    formula_s: float
    """The time of the formula, with `launch_s`, also where the formula is not claimed."""
    difference: float
    """How far the simulated time is from the formula's, as a share of that."""
    bound_s: float
    """The best lower bound, with what every algorithm takes before its first message."""
    over_bound: float
    """The simulated time as a multiple of the bound."""
    bound: str
    """Which bound it is."""
    algbw_Bps: float
    busbw_Bps: float
    steps: int
    steps_formula: int | None
    """None without a formula; other figures of a formula are NaN then."""
    volume_B: float
    """The bytes that all ranks send."""
    volume_formula_B: float
    peak_B: float
    """The memory of the fullest rank."""
    peak_formula_B: float
    redundant_B: float
    """The peak amount of duplicate data over all ranks."""
    redundant_formula_B: float
    verdict: PointVerdict
    protocol: str = ""
    """The fastest protocol of the profile, if there is one."""
    launch_s: float = 0.0
    """What the profile adds before the first message."""
    bounds_left_out: str = ""
    """The bounds that are not computed for so large a machine, and might be higher."""
    grid_error_s: float | None = None
    """An estimate of what the tolerance of fair sharing changes of `time_s`; None without one."""
    expected_s: float | None = None
    """The time that half of the runs exceed, by the profile's measured runs; None if it has no
    intervals."""
    low_s: float | None = None
    """The lower end of the interval of a run."""
    high_s: float | None = None
    """The upper end of the interval."""
    unsure: tuple[str, ...] | None = None
    """In what the point is outside the measured runs, in words."""
    curve: str | None = None
    """The algorithm with its options as the user asked for them, if `best` is among them; not
    stored."""

    def record(self) -> Record:
        """The fields by name, as files show them."""
        values = vars(self) | {"verdict": str(self.verdict)}
        del values["curve"]
        for name in ("grid_error_s", "expected_s", "low_s", "high_s", "unsure"):
            if values[name] is None:
                del values[name]
        if self.unsure is not None:
            values["unsure"] = "; ".join(self.unsure)
        return {name: None if value != value else value for name, value in values.items()}


def to_frame(rows: Iterable[SweepRow]) -> pd.DataFrame:
    """A table with a row for each point, its columns named as in the csv of `simctl sweep`."""
    import pandas as pd

    names = [field.name for field in fields(SweepRow) if field.default is not None]
    return pd.DataFrame([row.record() for row in rows], columns=names)


class SweepTable(list[SweepRow]):
    """The rows of a sweep, which a notebook shows as a table: `SweepTable(sweep(grid))`."""

    def to_frame(self) -> pd.DataFrame:
        """The rows as a pandas table."""
        return to_frame(self)

    def _repr_html_(self) -> str:
        header = ("algorithm", "ranks", "size V", "time", "times the bound", "busbw", "redundant")
        binary = in_binary(row.size_B for row in self)
        rows = (
            (
                row.algorithm,
                row.ranks,
                format_bytes(row.size_B, binary),
                format_seconds(row.time_s),
                f"{row.over_bound:.2f}",
                format_bandwidth(row.busbw_Bps),
                format_bytes(row.redundant_B, binary),
                row.verdict.word,
            )
            for row in self
        )
        return table((*header, "formula"), rows)


def judge(case: Case, run: ProfileRun) -> SweepRow:
    """A simulated point beside formula and bound."""
    timeline = run.timeline
    schedule, cost, p = timeline.schedule, case.cost, case.ranks
    nbytes, simulated, time = schedule.nbytes_total, timeline.makespan, run.seconds
    fabric = case.fabric(timeline.routed)
    collective, machine = case.algorithm.collective, timeline.routed.machine
    bound = best_bound(collective, machine, p, nbytes)
    usage = memory.trace(schedule, timeline)
    formula = cost.time(fabric, p, nbytes)
    algbw = nbytes / time if time > 0 else math.inf
    sure = case.bounded(case.interval(run), nbytes)
    row = SweepRow(
        algorithm=case.algorithm.name,
        ranks=p,
        size_B=nbytes,
        time_s=time,
        formula_s=run.launch + formula,
        difference=0.0 if formula == 0 else simulated / formula - 1,
        bound_s=run.common + bound.seconds,
        over_bound=time / (run.common + bound.seconds) if bound.seconds > 0 else math.inf,
        bound=bound.name,
        algbw_Bps=algbw,
        busbw_Bps=algbw * case.algorithm.collective.busbw(p),
        steps=schedule.steps,
        steps_formula=cost.steps(p) if cost.known else None,
        volume_B=schedule.volume,
        volume_formula_B=cost.volume(p) * nbytes,
        peak_B=usage.peak,
        peak_formula_B=cost.peak(p) * nbytes,
        redundant_B=usage.peak_redundant,
        redundant_formula_B=cost.redundant(p) * nbytes,
        verdict=PointVerdict(),
        protocol=run.protocol,
        launch_s=run.launch,
        bounds_left_out="; ".join(left_out(collective, machine, p)),
        grid_error_s=timeline.grid_error if case.rules.fair_tolerance else None,
        unsure=sure and sure.unsure,
        **interval_ends(sure),
    )
    return replace(row, verdict=_verdict(row, case, fabric))


def _verdict(row: SweepRow, case: Case, fabric: Fabric) -> PointVerdict:
    cost, inexact = case.cost, row.grid_error_s or 0.0
    assumption = case.rules.unassumed or cost.holds(fabric)
    memory_claimed = not assumption and fabric.ports in cost.memory_ports
    failures = tuple(
        name
        for name, failed in {
            f"wrong result: {case.wrong}": bool(case.wrong),
            "beats the bound": row.time_s + inexact < row.bound_s * (1 - TOLERANCE),
            "time": not assumption and abs(row.difference) > TOLERANCE,
            "steps": cost.known and row.steps != row.steps_formula,
            "bytes": _differ(row.volume_B, row.volume_formula_B, row.size_B),
            "peak memory": memory_claimed and _differ(row.peak_B, row.peak_formula_B, row.size_B),
            "redundant memory": memory_claimed
            and _differ(row.redundant_B, row.redundant_formula_B, row.size_B),
        }.items()
        if failed
    )
    return PointVerdict(failures) if failures else PointVerdict(assumption=assumption)


def _differ(simulated: float, formula: float, size: float) -> bool:
    return abs(simulated - formula) > TOLERANCE * max(abs(formula), size)
