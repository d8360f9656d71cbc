"""A training step under a calibrated library: what links and calls cost, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from experiments.simulations.rules import Rules
from simulator.collectives import Algorithm, find
from simulator.effects.jobs import job
from simulator.predictions import interval_of, prediction
from simulator.profile import Profile
from simulator.schedules.routed import route
from simulator.schedules.schedule import Schedule
from simulator.training import Strategy
from simulator.training.communicator import find_all_reduce
from simulator.training.plan import Plan
from simulator.uncertainty.interval import Interval
from topologies.topology import Floats, Topology


class LibraryCosts(NamedTuple):
    """What a library makes of the calls of a plan."""

    machine: Callable[[Topology], Topology]
    """The machine under the protocol that most of the time of the calls takes. Routes stay."""
    interval: Interval | None = None
    """The time of all calls as a share of what is simulated; None if the profile does not say how
    sure it is."""


def with_links(topology: Topology, latency: float = 1.0, bandwidth: float = 1.0) -> Topology:
    """The machine with multiples of its latencies and gaps, and of its bandwidths. Routes stay."""
    return replace(
        topology,
        latency=topology.latency * latency,
        medium_gap=topology.medium_gap * latency,
        medium_bandwidth=topology.medium_bandwidth * bandwidth,
    )


def algorithm_of(strategy: Strategy) -> Algorithm:
    """The algorithm by which a library knows the calls of a strategy: its all-reduce, or messages
    to and from a server."""
    name = getattr(strategy, "algo", None)
    return find("shift") if name is None else find_all_reduce(name)


def overhead_of(
    profile: Profile, strategy: Strategy, topology: Topology
) -> Callable[[Schedule], float]:
    """The seconds that a collective takes beside its links, found once for each schedule."""
    algorithm = algorithm_of(strategy)

    @cache
    def overhead(schedule: Schedule) -> float:
        return sum(profile.overheads(schedule, topology, algorithm).values())

    return overhead


def costs_of(profile: Profile, strategy: Strategy, plan: Plan, rules: Rules) -> LibraryCosts:
    """What the library makes of the calls of `plan`.

    Each call is simulated alone, under each protocol. Errors of a machine are shared by all of its
    calls, so the ends of their intervals add up.
    """
    algorithm, topology = algorithm_of(strategy), plan.topology
    calls = [
        (profile.simulate(route(schedule, topology, merges=True), algorithm, rules.run), number)
        for schedule, number in _calls(plan, algorithm)
    ]
    seconds = dict.fromkeys((run.protocol for run, _ in calls), 0.0)
    for run, number in calls:
        seconds[run.protocol] += number * run.seconds
    name = max(seconds, key=seconds.__getitem__)
    protocol = next(each for each in profile.protocols if each.name == name)

    def machine(changed: Topology) -> Topology:
        jobs = job(algorithm.listed_name, topology)
        under_protocol = profile.apply(changed, protocol, jobs=jobs)
        return replace(under_protocol, reduction=changed.reduction)

    total = sum(seconds.values())
    intervals = [
        (interval_of(predicted), number)
        for run, number in calls
        if (predicted := prediction(profile, run, algorithm))
    ]
    if not intervals or not total:
        return LibraryCosts(machine)
    expected, low, high = (
        sum(number * getattr(each, end) for each, number in intervals) / total
        for end in ("expected", "low", "high")
    )
    unsure = dict.fromkeys(chain.from_iterable(each.unsure for each, _ in intervals))
    interval = Interval(expected, low, high, intervals[0][0].level, tuple(unsure))
    return LibraryCosts(machine, interval)


def slower_calls(plan: Plan, factor: float) -> Floats:
    """What computations take if calls take `factor` times as long to begin."""
    schedule = plan.schedule
    seconds = schedule.seconds.copy()
    seconds[np.unique(plan.first[plan.graph.communicates])] *= factor
    return seconds


def _calls(plan: Plan, algorithm: Algorithm) -> list[tuple[Schedule, int]]:
    """The collectives of a step with the four sizes that send most, which stand for all, and how
    often each runs."""
    if algorithm.collective.name != "all_reduce" or not plan.buckets:
        ranks = max(2, plan.workers)
        return [(algorithm.build(ranks, plan.model.gradients), 1)]
    schedules = {schedule.nbytes_total: schedule for _, schedule in plan.buckets}
    number = Counter(schedule.nbytes_total for _, schedule in plan.buckets)
    # Each size is simulated; those that send most stand for all.
    sizes = sorted(schedules, key=lambda nbytes: -nbytes * number[nbytes])[:4]
    return [(schedules[nbytes], number[nbytes]) for nbytes in sizes]
