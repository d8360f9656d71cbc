"""A measured curve and its simulation: points that a fit has seen, and points that it has not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from experiments.calibration import LinkFit, fit_links
from experiments.calibration.prediction import FEW_SIZES, times
from experiments.measurements import Curve
from experiments.measurements import Point as Measured
from experiments.output import Record
from experiments.profiles.interval_levels import RUNS, interval_ends
from experiments.simulations.case import Case
from experiments.simulations.rules import DEFAULT, Rules
from simulator.collectives import Algorithm
from simulator.profile import Profile
from simulator.uncertainty.interval import Interval
from topologies.errors import InputError
from topologies.topology import Topology

Links = Callable[[int, int, float | None, float | None], Topology]
"""From the numbers of workers and servers, and α and β where they are not as the user says, to the
machine."""
POINTS = {
    "size": "size_B",
    "measured": "measured_s",
    "predicted": "predicted_s",
    "error": "{error:+.1%}",
    **RUNS,
    "by": "algorithm",
    "the fit": "role",
}
"""The columns of a table of points."""


@dataclass(frozen=True)
class ComparedPoint:
    """One size of a curve, measured and simulated."""

    size_B: float
    measured_s: float
    predicted_s: float
    error: float
    """predicted / measured - 1."""
    fitted: bool
    """Whether the fit has seen the point."""
    wrong: bool
    """Whether the measured result was wrong."""
    algorithm: str | None = None
    """The algorithm that a profile takes. None without a profile."""
    expected_s: float | None = None
    """The time that half of the runs exceed. None if no profile says how sure it is."""
    low_s: float | None = None
    """The lower end of the interval of a run."""
    high_s: float | None = None
    """The upper end of the interval."""

    @property
    def inside(self) -> bool | None:
        """Whether the measured time is inside the interval. None without one."""
        if self.low_s is None or self.high_s is None:
            return None
        return self.low_s <= self.measured_s <= self.high_s


@dataclass(frozen=True)
class Validation:
    """A curve held against an algorithm on a machine."""

    title: str
    collective: str
    algorithm: str
    ranks: int
    points: tuple[ComparedPoint, ...]
    fit: LinkFit | None
    notes: tuple[str, ...]

    def errors(self, fitted: bool) -> np.ndarray:
        """|error| of the points with right results that the fit has seen, or has not."""
        return np.array(
            [
                abs(point.error)
                for point in self.points
                if point.fitted is fitted and not point.wrong
            ]
        )


def shown_points(points: Iterable[Record], *, fit: bool) -> list[Record]:
    """Points with what tables say of them: whether the fit has seen them, if there is one."""
    roles = {True: "has seen it", False: "has not seen it"} if fit else {}
    return [
        {**each, "role": "wrong result" if each["wrong"] else roles.get(bool(each["fitted"]), "")}
        for each in points
    ]


def validate(
    curve: Curve,
    algorithm: Algorithm,
    ranks: int,
    links: Links,
    *,
    fit: bool,
    in_place: bool,
    rules: Rules,
) -> Validation:
    """Simulate every size of `curve`; with `fit`, on links fitted to every other size.

    A size whose result was wrong is predicted but not fitted. Raises InputError if there is too
    little to fit.
    """
    measured = _measured(curve, in_place=in_place)
    machine = links(ranks, algorithm.servers, None, None)
    case = Case(algorithm, ranks, machine, rules._replace(symmetry="off"))
    # Every other point, of those whose results were right.
    indices = [k for k, point in enumerate(measured) if not point.wrong][::2] if fit else []
    links_fit = None
    if fit:
        sizes = [float(measured[k].size) for k in indices]
        seconds = [measured[k].time_s for k in indices]
        links_fit = fit_links(
            case.schedule, sizes, seconds, partial(links, ranks, algorithm.servers), rules.engine
        )
        case.topology = links(ranks, algorithm.servers, links_fit.latency, links_fit.bandwidth)
    points = tuple(
        _point(point, case.simulate(float(point.size)).makespan, k in indices)
        for k, point in enumerate(measured)
    )
    title = _title(curve, ranks)
    notes = (*curve.notes, *(links_fit.notes if links_fit else ()))
    return Validation(title, curve.collective, algorithm.name, ranks, points, links_fit, notes)


def validate_under(
    profile: Profile,
    curve: Curve,
    algorithms: Sequence[Algorithm],
    ranks: int,
    machine: Topology,
    *,
    in_place: bool,
    rules: Rules,
) -> Validation:
    """Simulate every size of `curve` under a profile, by the algorithm that is fastest there.

    Raises InputError if no algorithm runs on them.
    """
    measured = _measured(curve, in_place=in_place)
    cases = [
        Case(algorithm, ranks, machine, rules._replace(symmetry="off"), profile)
        for algorithm in algorithms
        if algorithm.defined(ranks)
    ]
    if not cases:
        raise InputError(f"{curve.source}: no algorithm for {ranks} ranks: choose one with --algo")
    names = ", ".join(case.algorithm.name for case in cases)
    if len(measured) > FEW_SIZES and rules._replace(symmetry="auto", force=False) == DEFAULT:
        points = tuple(_by_paths(measured, cases, profile))
    else:
        points = tuple(_predicted(point, cases) for point in measured)
    return Validation(
        _title(curve, ranks), curve.collective, names, ranks, points, None, tuple(curve.notes)
    )


def _by_paths(
    measured: Sequence[Measured], cases: Sequence[Case], profile: Profile
) -> Iterator[ComparedPoint]:
    """The same as :func:`_predicted` of many points: critical paths of some sizes tell the
    others."""
    tuned = [(point, [case.tuned(float(point.size)) for case in cases]) for point in measured]
    sizes = dict[str, tuple[Case, list[float]]]()
    for point, each in tuned:
        for case in each:
            sizes.setdefault(case.algorithm.name, (case, []))[1].append(float(point.size))
    known = {
        name: times(profile, case.algorithm, case.machine, case.ranks, sorted({*chosen}))
        for name, (case, chosen) in sizes.items()
    }
    for point, each in tuned:
        of_size = {
            case.algorithm.name: known[case.algorithm.name][float(point.size)] for case in each
        }
        name = min(of_size, key=lambda name: of_size[name].seconds)
        yield _compared(point, name, of_size[name].seconds, of_size[name].interval)


def _predicted(point: Measured, cases: Sequence[Case]) -> ComparedPoint:
    """A point by the fastest of some algorithms."""
    nbytes = float(point.size)
    tuned = [case.tuned(nbytes) for case in cases]
    case, run = min(
        ((case, case.run(nbytes)) for case in tuned), key=lambda candidate: candidate[1].seconds
    )
    return _compared(point, case.algorithm.name, run.seconds, case.interval(run))


def _compared(
    point: Measured, algorithm: str, seconds: float, sure: Interval | None
) -> ComparedPoint:
    compared = _point(point, seconds, fitted=False)
    return replace(compared, algorithm=algorithm, **interval_ends(sure))


def _measured(curve: Curve, *, in_place: bool) -> tuple[Measured, ...]:
    measured = curve.in_place if in_place else curve.points
    if not measured:
        raise InputError(
            f"{curve.source}: no {'in-place' if in_place else 'out-of-place'} times: use the "
            f"other ones"
        )
    return tuple(measured)


def _title(curve: Curve, ranks: int) -> str:
    return f"{curve.collective}, {ranks} ranks, {Path(curve.source).name}"


def _point(point: Measured, predicted: float, fitted: bool) -> ComparedPoint:
    error = predicted / point.time_s - 1
    return ComparedPoint(
        float(point.size), point.time_s, predicted, error, fitted, bool(point.wrong)
    )
