"""Refuses schedules whose times no engine can count, before anything runs."""

from __future__ import annotations

import numpy as np

from simulator.schedules.routed import Routed
from simulator.schedules.schedule import COMPUTE, Schedule
from topologies.errors import InputError
from topologies.topology import Floats

LONGEST = 1e300
"""The most seconds that all operations of a schedule may take, one after the other."""


def check_times(routed: Routed) -> None:
    """Raise InputError if all operations take more than `LONGEST` seconds. The message names the
    longest operation.

    No run takes longer than its operations one after the other. So below the limit no time
    overflows.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if _at_most(routed) <= LONGEST:
            return
        seconds = _seconds(routed)
        total = float(seconds.sum())
    if not total <= LONGEST:
        longest = int(np.argmax(np.where(np.isnan(seconds), np.inf, seconds)))
        raise InputError(
            f"operation {longest}, {_what(routed.schedule, longest)}, takes "
            f"{seconds[longest]:.3g} s, "
            f"and all {len(seconds)} operations {total:.3g} s: "
            f"expected at most {LONGEST:g} s in all, check sizes, bandwidths and latencies"
        )


def _at_most(routed: Routed) -> float:
    """An upper limit of the sum of `_seconds`, from sums over routes: many operations share a
    route."""
    schedule, routes = routed.schedule, len(routed.route_indptr) - 1
    fixed, per_byte = _by_route(routed)
    moved = np.bincount(routed.route, schedule.nbytes, routes)
    merging = moved.sum() * np.concatenate(([0.0], routed.reduction, routed.copy)).max()
    return float(
        fixed @ np.bincount(routed.route, minlength=routes)
        + per_byte @ moved
        + merging
        + schedule.seconds.sum()
    )


def _seconds(routed: Routed) -> Floats:
    """The time of every operation alone, store-and-forward."""
    schedule = routed.schedule
    fixed, per_byte = _by_route(routed)
    merging = np.where(
        schedule.reduces == 1, routed.reduction[schedule.peer], routed.copy[schedule.peer]
    )
    moving = fixed[routed.route] + schedule.nbytes * (per_byte[routed.route] + merging)
    return np.asarray(np.where(schedule.kind == COMPUTE, schedule.seconds, moving))


def _by_route(routed: Routed) -> tuple[Floats, Floats]:
    """Seconds a message and seconds a byte of every route, over all its links and media."""
    topology, routes = routed.topology, len(routed.route_indptr) - 1
    # Only links of routes are read: a group of a large machine takes few of its links.
    links, route = routed.route_links, np.repeat(np.arange(routes), np.diff(routed.route_indptr))
    place, media = topology.crossings(links)
    fixed, gaps, slope = (
        np.bincount(at, seconds, routes).astype(np.float64)
        for at, seconds in (
            (route, topology.latency[links]),
            (route[place], topology.medium_gap[media]),
            (route[place], 1 / topology.medium_bandwidth[media]),
        )
    )
    return fixed + gaps, slope


def _what(schedule: Schedule, operation: int) -> str:
    rank, peer = int(schedule.rank[operation]), int(schedule.peer[operation])
    if schedule.kind[operation] == COMPUTE:
        return f"a computation of rank {rank}"
    return f"{schedule.nbytes[operation]:.3g} B from rank {rank} to {peer}"
