"""Predictions of a profile with what is known of their errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from simulator.analysis.critical_path import MachineCosts, Sensitivities, sensitivities
from simulator.collectives.collective import Algorithm
from simulator.effects.jobs import used_nodes
from simulator.profile import Profile, Uncertainty
from simulator.schedules.routed import Routed
from simulator.schedules.timeline import ProfileRun
from simulator.uncertainty.interval import Interval, interval
from simulator.uncertainty.measured_places import (
    MeasuredPlaces,
    measured_as,
    place,
    reasons,
    shares,
)
from topologies.topology import Floats

REMEMBERED = 256
"""Routes of so many profiles, protocols and costs of merging are remembered at most: where merging
depends on V, each size has its own."""


class ProfiledPath(NamedTuple):
    """A run under a profile, by its critical path."""

    seconds: float
    protocol: str
    """The fastest protocol."""
    routed: Routed
    """The schedule at its size, with its routes."""
    counts: Sensitivities
    """What the time depends on."""
    overheads: Mapping[str, float]
    """Seconds that no link takes, by name."""


class Prediction(NamedTuple):
    """A predicted run."""

    seconds: float
    place: MeasuredPlaces
    """Where it is, one point."""
    shifts: Floats
    """How log(seconds) moves with the parameters, shape (variants,)."""
    software: float
    """The share of the time that is no bytes on links."""
    sure: Uncertainty
    """What the profile knows of its errors."""


def path_of(run: ProfileRun) -> ProfiledPath:
    """The critical path of a run that was simulated."""
    counts = sensitivities(run.timeline)
    return ProfiledPath(run.seconds, run.protocol, run.timeline.routed, counts, run.overheads)


class LaidRoutes:
    """The routes of an algorithm on a machine as the protocols of profiles find it, laid once for
    all sizes."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.known: dict[tuple[int, str, float], Routed] = {}
        self.costs: dict[tuple[int, str, bytes], MachineCosts] = {}

    def __call__(self, profile: Profile, protocol: str, routed: Routed) -> Routed:
        """The routes as a protocol of a profile finds them, by its name."""
        key = id(profile), protocol, float(profile.memory.merge(routed.schedule.nbytes_total))
        if key not in self.known:
            if len(self.known) == REMEMBERED:
                self.known.clear()
                self.costs.clear()
            chosen = next(each for each in profile.protocols if each.name == protocol)
            self.known[key] = profile.laid(routed, [chosen], self.algorithm)[0]
        return replace(self.known[key], schedule=routed.schedule)

    def under_variants(self, sure: Uncertainty, protocol: str, routed: Routed) -> MachineCosts:
        """What a protocol finds on these routes under each of the variants."""
        merge = np.asarray(sure.together.memory.merge(routed.schedule.nbytes_total))
        key = id(sure.variants), protocol, merge.tobytes()
        if key not in self.costs:
            self.costs[key] = MachineCosts.of(
                [self(each, protocol, routed) for each in sure.variants]
            )
        return self.costs[key]


def prediction(
    profile: Profile,
    run: ProfileRun | ProfiledPath,
    algorithm: Algorithm,
    laid: LaidRoutes | None = None,
) -> Prediction | None:
    """A run with what is known of its error; None if the profile does not say how sure it is.
    Other parameters do not change its critical path. `laid` are the routes that runs of other sizes
    know."""
    if profile.uncertainty is None:
        return None
    path, laid = path_of(run) if isinstance(run, ProfileRun) else run, laid or LaidRoutes(algorithm)
    on_links = laid(profile, path.protocol, path.routed)
    seconds = path.counts.seconds(on_links) + sum(path.overheads.values())
    where = place(
        algorithm.collective.name,
        measured_as(algorithm.listed_name),
        path.routed.schedule.workers,
        used_nodes(path.routed.machine),
        path.routed.schedule.nbytes_total,
        _messages(profile, path, laid, seconds),
    )
    shifts = np.log(_moved(profile.uncertainty, path, laid) / seconds)
    _, crossing = path.counts.on_links(on_links)
    return Prediction(path.seconds, where, shifts, 1 - crossing / seconds, profile.uncertainty)


def interval_of(predicted: Prediction) -> Interval:
    """The time of a run, with what the measured runs say of its error."""
    seconds, where, shifts, software, sure = predicted
    residuals = sure.residuals
    moved = float((shifts**2).sum())
    mean, variance = (float(column[0]) for column in residuals.at(where, moved))
    variance += (sure.software * software) ** 2
    variance += sure.between**2 * software * float(where.nodes[0] > 1)
    unsure = reasons(where, residuals.seen)
    return interval(seconds, mean, variance, sure.level)._replace(unsure=unsure)


def ratio(one: Prediction, other: Prediction) -> Interval:
    """How many times as long `other` takes as `one`, both under one profile.

    Errors that both runs share do not count: of the machine, the collective, the ranks, and of
    parameters that move both times alike.
    """
    residuals = one.sure.residuals
    moved = float(((other.shifts - one.shifts) ** 2).sum())
    mean, variance = residuals.difference(one.place, other.place, moved)
    variance += (one.sure.software * (other.software - one.software)) ** 2
    return interval(other.seconds / one.seconds, mean, variance, one.sure.level)


def _moved(sure: Uncertainty, path: ProfiledPath, laid: LaidRoutes) -> Floats:
    """Seconds of the same path under each of the variants, shape (variants,)."""
    if not sure.variants:
        return np.zeros(0)
    routed = path.routed
    costs = laid.under_variants(sure, path.protocol, routed)
    links = path.counts.seconds_of(costs, routed.schedule.nbytes_total)
    shares = sure.together.shares_of(routed.schedule, routed.machine, laid.algorithm)
    software = np.broadcast_to(sum(shares.values()), (len(links), 1))[:, 0]
    return np.asarray(links + software)


def _messages(
    profile: Profile, path: ProfiledPath, laid: LaidRoutes, seconds: float
) -> Floats | None:
    """The shares of the path's `seconds` that messages take by size. None if those of the measured
    runs are not known."""
    if profile.uncertainty is None or not profile.uncertainty.residuals.seen.messages.any():
        return None
    links = path.counts.on_links(laid(profile, path.protocol, path.routed))
    latency, crossed = (each / seconds for each in links)
    return shares(*path.routed.schedule.message_sizes, latency, crossed)
