"""Differences of the makespan, found by trying."""

from dataclasses import replace

import numpy as np
import pytest

from random_machines import irregular
from simulator.analysis.critical_path import Sensitivities, sensitivities
from simulator.analysis.differences import finite_differences
from simulator.collectives import find
from simulator.engines import Sharing, simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from small_schedules import messages
from topologies import shapes
from topologies.topology import Topology

PARAMETERS = ("latency", "gap", "inverse_bandwidth", "reduction", "copy")


def differences(schedule: Schedule, topology: Topology, sharing: Sharing = "fair") -> Sensitivities:
    return finite_differences(simulate(schedule, topology, "reference", sharing=sharing))


@pytest.mark.parametrize("store_and_forward", [False, True])
@pytest.mark.parametrize("name", ["ring", "tree", "naive"])
def test_where_the_critical_path_counts_they_are_its_counts(
    name: str, store_and_forward: bool
) -> None:
    regular = shapes.star(4, bandwidth=1.0, latency=1.0, gap=0.5, reduction=0.3)
    timeline = simulate(
        find(name).build(4, 12.0),
        irregular(regular, np.random.default_rng(3)),
        store_and_forward=store_and_forward,
    )
    tried, counted = finite_differences(timeline), sensitivities(timeline)
    for parameter in PARAMETERS:
        assert getattr(tried, parameter) == pytest.approx(
            getattr(counted, parameter), rel=1e-5, abs=1e-5
        )


def test_a_flow_alone_counts_its_latencies_its_greatest_gap_and_its_slowest_wire() -> None:
    builder = shapes.line(3, bandwidth=4.0, latency=2.0, gap=1.0)
    topology = replace(builder, medium_gap=builder.medium_gap * np.array([1, 1, 3, 1]))
    topology = replace(
        topology, medium_bandwidth=topology.medium_bandwidth / np.array([2, 1, 1, 1])
    )
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal(0, 2, nbytes=8.0)
    derivatives = differences(schedule.build(), topology)
    names = list(topology.medium_names)
    hops = [names.index("gpu0->gpu1"), names.index("gpu1->gpu2")]
    assert derivatives.latency[hops] == pytest.approx([1, 1], rel=1e-6)
    assert derivatives.gap[hops] == pytest.approx([0, 1], rel=1e-6)
    assert derivatives.inverse_bandwidth[hops] == pytest.approx([8, 0], rel=1e-6)
    assert derivatives.latency.sum() == pytest.approx(2)


def test_flows_that_share_a_wire_all_count_until_the_last_is_sent() -> None:
    derivatives = differences(messages(4.0, 8.0), shapes.line(2, bandwidth=2.0))
    assert derivatives.inverse_bandwidth == pytest.approx([12, 0], rel=1e-6)


def test_a_wire_without_limit_may_still_become_one() -> None:
    assert differences(
        messages(4.0, 8.0), shapes.line(2, bandwidth=float("inf"), latency=1.0)
    ).inverse_bandwidth == (pytest.approx([12, 0], rel=1e-6))


def test_merging_and_copying_count_at_their_rank() -> None:
    schedule = ScheduleBuilder(2, 4.0, scratch=1)
    schedule.reduce(0, 1, slot=0)
    schedule.copy(1, 1, slot=0, target=1)
    topology = shapes.line(2, bandwidth=1.0, reduction=0.5)
    derivatives = differences(schedule.build(), topology)
    assert derivatives.reduction == pytest.approx([0, 4], rel=1e-6)
    assert derivatives.copy == pytest.approx([0, 4], rel=1e-6)


def test_nothing_is_worth_anything_in_no_time() -> None:
    derivatives = differences(ScheduleBuilder(2, 1.0).build(), shapes.line(2, bandwidth=1.0))
    assert not any(getattr(derivatives, parameter).any() for parameter in PARAMETERS)
