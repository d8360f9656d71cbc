"""From measured curves to a profile with intervals and errors on what its fit has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log

import numpy as np

from experiments import output
from experiments.calibration import measured_machines
from experiments.calibration.effects.effect import SURE
from experiments.calibration.fit import Estimate, Fit, estimates, explore
from experiments.calibration.held_out import PROTOCOLS, HeldOut, held_out
from experiments.calibration.known_paths import Machine, as_nodes
from experiments.calibration.libraries import LIBRARIES, NCCL, SENDS
from experiments.calibration.library import Library, fit_curve
from experiments.calibration.library_model import Model
from experiments.calibration.observations import OWN, FitCurve, FitPoints, forced
from experiments.calibration.population.library_profile import (
    kinds_between,
    links_on,
    population_over,
)
from experiments.calibration.population.population import population_of, shared_names
from experiments.calibration.uncertainty import shipped_rules, uncertainty
from experiments.measurements import Curve
from experiments.profiles.profile_document import Calibrated, Error, Estimated, of
from simulator.collectives import find, in_network
from simulator.effects.jobs import used_nodes
from simulator.effects.labels import Ineffective
from simulator.profile import Profile
from simulator.uncertainty.interval import LEVEL, quantile
from simulator.uncertainty.residuals import IntervalRules
from topologies.errors import InputError, naming
from topologies.topology import Topology

FEWEST_POINTS, MOST_POINTS = 2, 20_000
"""The least and the most points of a fit."""


def at_population(model: Model, topology: Topology | None = None) -> Model:
    """The model whose fit starts at the mean of the library's population, on the specified links of
    `topology` if there is one. A library without a population starts at its own model.

    Starts keep the weights of the library, but in fits of few points: see `Model.pull`. Weights by
    the spreads of the population made errors on most of the tuned machines larger: machines of
    other transports make these spreads wide.
    Links between nodes that only sends cross are surer: see :func:`sends_alone`.
    """
    library = model.library
    population = (
        population_of(library.name) if topology is None else population_over(library, topology)
    )
    if population is None:
        return model
    usual = np.array([parameter.inner - parameter.rest for parameter in model.parameters])
    names = shared_names(model)
    start = population.mean(model.parameters, names, usual)
    if topology is not None:
        of_links = dict(_of_links(model, topology))
        values = [of_links.get(parameter.name, np.nan) for parameter in model.parameters]
        start = np.where(np.isnan(values), start, values)
    kinds = {"network"} if topology is None else kinds_between(topology)
    surer = [
        sends_alone(model.points, model.library)
        and parameter.kind in kinds
        and parameter.unit != "power"
        for parameter in model.parameters
    ]
    weight = np.where(surer, SURE, model.weight)
    return model.starting(start, weight, population.covariance_of(names))


def sends_alone(points: FitPoints, library: Library) -> bool:
    """Whether no run of NCCL over several nodes is more than sends, though runs on one node are.

    A message to a peer has few channels, so slow sends do not say that links are slow: other
    collectives use all channels. Then links between nodes stay near what measured machines have,
    and factors of sends take up the rest.
    """
    others = [curve for curve in points.curves if not SENDS.keys() >= {*curve.algorithms}]
    several = any(curve.nodes > 1 for curve in points.curves)
    if library.name != NCCL.name or not several or not others:
        return False
    return all(curve.nodes == 1 for curve in others)


def _of_links(model: Model, topology: Topology) -> Iterator[tuple[str, float]]:
    protocols = links_on(model.library, topology)
    for prior, links in zip(model.library.protocols, protocols, strict=True):
        for kind, link in links.items():
            yield f"{prior.name} {kind} α", log(link.latency)
            if not prior.one_rate:
                yield prior.rate(kind), -log(link.bandwidth)


@dataclass(frozen=True, eq=False)
class Calibration:
    """A fit of every point, and its errors on points left out, by protocol."""

    fit: Fit
    rules: IntervalRules
    held_out: Sequence[HeldOut]


def library_of(curves: Iterable[Curve]) -> Library:
    """The library of the curves. Raises InputError if they name none or several."""
    names = {curve.library_family for curve in curves} & LIBRARIES.keys()
    if len(names) == 1:
        return LIBRARIES[names.pop()]
    text = "the runs do not say which library ran"
    if names:
        text = f"the runs are of {' and '.join(sorted(LIBRARIES[name].name for name in names))}"
    raise InputError(f"{text}: choose with --library {', '.join(LIBRARIES)}")


def points(
    curves: Iterable[Curve],
    library: Library,
    machine: Machine = as_nodes,
    *,
    in_place: bool = False,
    least: int = FEWEST_POINTS,
    profile: Profile | None = None,
) -> tuple[FitPoints, list[str]]:
    """The points that can be fitted, and a line for each curve that cannot. A `profile` lists
    labels without effect."""
    fitted: list[FitCurve] = []
    skipped: list[str] = []
    for curve in (part for measured in curves for part in measured.by_label):
        try:
            fitted.append(_fitted(curve, library, machine, in_place, profile))
        except InputError as error:
            skipped.append(str(error))
    count = sum(len(curve.sizes) for curve in fitted)
    if count < least:
        because = f": {skipped[0]}" if skipped else ""
        points = output.counted(count, "point")
        raise InputError(f"{points} to fit: expected at least {least}{because}")
    if count > MOST_POINTS:
        raise InputError(
            f"{count} points to fit: at most {MOST_POINTS}, take fewer curves or sizes"
        )
    return FitPoints(fitted), skipped


def _fitted(
    curve: Curve, library: Library, machine: Machine, in_place: bool, profile: Profile | None
) -> FitCurve:
    """A curve as data of a fit. Raises InputError if it is of another library, says nothing of
    single messages or has no times, or if the machine has its ranks on other nodes or cannot run
    its algorithm."""
    runs_of = LIBRARIES.get(curve.library_family, library).name
    if (runs_of == NCCL.name) != (library.name == NCCL.name):
        raise InputError(f"{curve.source}: it is of {runs_of}, not {library.name}")
    if curve.streams:
        raise InputError(
            f"{curve.source}: of many messages in flight, not the time of one: it is for --links"
        )
    multicast, ran = _multicasts(curve, machine), tuple[str, ...]()
    if profile is not None:
        # an old file has no figures of the algorithms in switches
        in_switches = library.multicasts.get(curve.collective, ())
        multicast = multicast and all(name in profile.launches for name in in_switches)
        label, nodes = forced(curve) or OWN, curve.nodes or curve.ranks
        entry = profile.ignored(label, curve.pattern, curve.ranks or 0, nodes, curve.library)
        ran = entry.ran if entry else ()
    fitted = fit_curve(curve, library, in_place=in_place, ran=ran, multicast=multicast)
    built = partial(as_nodes, multicast=multicast) if machine is as_nodes else machine
    count = (
        fitted.nodes if machine is as_nodes else used_nodes(built(fitted.ranks, fitted.per_node))
    )
    if count != fitted.nodes:
        where = f"{fitted.nodes} nodes, which the machine has on {count:.0f}"
        raise InputError(f"{curve.source}: {fitted.ranks} ranks on {where}")
    for algorithm in map(find, fitted.algorithms):
        with naming(f"{curve.source}: {algorithm.name}"):
            if algorithm.fit is not None:
                algorithm.fit(built(fitted.ranks, fitted.per_node), fitted.ranks, 1.0)
    if not len(fitted.sizes):
        raise InputError(f"{curve.source}: no {'in-place ' if in_place else ''}times in it")
    return fitted


def _multicasts(curve: Curve, machine: Machine) -> bool:
    """Whether the switches of a node multicast, by the machine or else by what the curve says."""
    if not measured_machines.may_multicast(curve):
        return False
    if machine is as_nodes:
        return measured_machines.multicasts(curve)
    return in_network.multicasts(machine(curve.ranks or 2, curve.ranks or 2))


def calibrate(
    measured: FitPoints,
    library: Library,
    machine: Machine = as_nodes,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    gap: bool = False,
) -> Calibration:
    """Fit every point, then leave points out by every protocol that the data allow. The rules of
    intervals are those that ship.

    With `gap`, the fit also has every g that the data identify.
    """
    rules, steps = shipped_rules(), 1 + len(PROTOCOLS)
    progress(0, steps)
    gaps = separated(measured, library, machine) if gap else ()
    model, largest = Model(measured, library, machine, gaps=gaps), None
    if machine is not as_nodes:
        curve = max(measured.curves, key=lambda curve: curve.ranks)
        largest = machine(curve.ranks, curve.per_node)
    whole, results = explore(at_population(model, largest)), []
    for done, protocol in enumerate(PROTOCOLS, 1):
        progress(done, steps)
        results.append(held_out(whole, protocol, rules))
    progress(steps, steps)
    return Calibration(
        whole, rules, [errors for errors in results if not np.isnan(errors.model).all()]
    )


def separated(
    measured: FitPoints, library: Library, machine: Machine = as_nodes
) -> list[tuple[str, str]]:
    """Protocols and kinds of link whose g is identified by a fit with a g for all of them."""
    kinds = Model(measured, library, machine).kinds
    names = {
        f"{prior.name} {kind} g": (prior.name, kind)
        for prior in library.protocols
        for kind in kinds
    }
    fitted = estimates(explore(Model(measured, library, machine, gaps=list(names.values()))))
    return [
        names[estimate.parameter.name]
        for estimate in fitted
        if estimate.parameter.name in names and not estimate.open
    ]


def document(
    calibration: Calibration,
    name: str,
    machine: str,
    sources: Sequence[str],
    made: dict[str, str],
    ineffective: Sequence[Ineffective] = (),
) -> Calibrated:
    """A calibration as the content of a profile's file, with labels that had no effect."""
    model = calibration.fit.model
    by_name = {
        estimate.parameter.name: Estimated(
            value=estimate.value,
            low=estimate.low if _says(estimate) else None,
            high=estimate.high if _says(estimate) else None,
            unit=estimate.parameter.unit,
            open=estimate.open,
        )
        for estimate in estimates(calibration.fit)
    }
    errors = {each.protocol: error(each) for each in calibration.held_out}
    profile = replace(
        model.profile(calibration.fit.inner, name, machine),
        ineffective=tuple(ineffective),
        uncertainty=uncertainty(calibration.fit, calibration.rules),
    )
    about = {"estimates": by_name, "errors": errors, "sources": list(sources), "made": made}
    return of(profile, model.library.name, **about)


def error(held_out: HeldOut) -> Error:
    """Means over the points left out; of plateaus and of "few" the median."""
    middle = np.nanmedian if held_out.protocol in ("plateau", "few") else np.nanmean
    values = {
        name: None if np.isnan(column).all() else float(middle(column))
        for name, column in zip(("model", "discrepancy", "baseline"), held_out[1:4], strict=True)
    }
    judged = ~np.isnan(held_out.model)
    inside = held_out.discrepancy <= quantile(LEVEL) * held_out.deviation
    return Error(
        points=int(np.count_nonzero(judged)), **values, inside=float(inside[judged].mean())
    )


def _says(estimate: Estimate) -> bool:
    """Whether an interval is narrow enough to be printed."""
    if estimate.parameter.unit == "power":
        return bool(np.isfinite(estimate.high))
    # if the ends of an interval are this factor apart, the interval is left out
    return estimate.high < 1e4 * estimate.low
