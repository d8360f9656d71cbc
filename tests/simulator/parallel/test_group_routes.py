"""Calls that serve some ranks before others, first come first served."""

from functools import partial

import pytest

from simulator.engines import run
from simulator.parallel import group_routes
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.steps.step_graph import MESSAGE
from topologies.catalogue import find as machine
from topologies.shapes import nodes
from topologies.variants import slowed


def test_replicas_that_send_over_one_nic_go_on_one_by_one() -> None:
    """Two replicas send over one NIC: one of them goes on after half of the time, if messages take
    turns. Two that have a NIC each go on together."""
    alone, shared = (nodes(4, per_node=count, bandwidth=1e9, latency=0.0) for count in (1, 2))
    call, degrees = ("0 to 1", MESSAGE, 1e9), Degrees(dp=2, pp=2)
    times = GroupTimes(shared, degrees)
    assert times.served(*call) == {0: pytest.approx((1.5, 2.0))}
    assert times.seconds(*call) == pytest.approx(2.0)
    assert GroupTimes(alone, degrees).served(*call) == {}
    assert GroupTimes(shared, degrees, run=partial(run, sharing="fair")).served(*call) == {}


def test_a_replica_behind_a_slow_link_counts_alone() -> None:
    """It is last in every call, so ranks that are served before it wait for it in the end."""
    usual = machine("leonardo:nodes=2,nics=1").build(8)
    call, degrees = ("0 to 1", MESSAGE, 1e9), Degrees(dp=4, pp=2)
    assert GroupTimes(usual, degrees).served(*call)
    assert GroupTimes(slowed(usual, 3, 0.1), degrees).served(*call) == {}


def test_the_groups_near_the_first_have_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many routes, the groups on nodes of the first one stand for all: each in
    its replica. All four ranks of a replica are on a node, whose NIC serves one of them last."""
    usual = machine("leonardo:nodes=64,nics=1").build(256)
    degrees, call = Degrees(dp=64, tp=4, ep=16), ("ep", "all_to_all", 1e7)
    whole, few = (GroupTimes(usual, degrees) for _ in range(2))
    groups = len(whole.timed(*call).laid.groups)
    assert whole.timed(*call).ends
    assert whole.served(*call) == {}
    monkeypatch.setattr(group_routes, "ROUTES", 100)
    assert len(few.timed(*call).laid.groups) < groups
    assert few.served(*call) == {}
