"""What hosts on several leaves cost a plan."""

import numpy as np
import pytest

from experiments.simulations.placement_costs import PlacementCost, placement_costs
from simulator.parallel.degrees import Degrees
from topologies.catalogue import find
from topologies.readers.placements import Hosts

MACHINE = "hgx_h100:network=leaf_spine,oversubscription="


def costs(group: list[int], degrees: Degrees, over: str = "4") -> dict[str, PlacementCost]:
    names = tuple(f"n{number}" for number in range(len(group)))
    hosts = Hosts(names, np.array(group, dtype=np.int32), 4, "leaf", None, 2)
    machine = find(MACHINE + over)
    return {row.group: row for row in placement_costs(machine, hosts, degrees, [2.0**30])}


def test_a_group_inside_a_host_costs_nothing() -> None:
    rows = costs([0, 1, 2, 3], Degrees(tp=8, dp=4))
    assert rows["tp"].cost == 1
    assert (rows["tp"].shared, rows["tp"].fewest) == (1, 1)


def test_uplinks_that_are_as_fast_as_a_leaf_cost_a_ring_nothing() -> None:
    row = costs([0, 1], Degrees(tp=8, dp=2), over="1,nics=1")["dp"]
    assert (row.shared, row.fewest) == (2, 1)
    assert 1 < row.cost < 1.001  # the latency of a spine


def test_slow_uplinks_cost_what_they_are_slower() -> None:
    """Two hosts on two leaves: all bytes of eight NICs cross uplinks of a leaf of four hosts, which
    carry a quarter of what 32 ports carry: as much as the ports of one host."""
    packed, over = costs([0, 0], Degrees(tp=8, dp=2))["dp"], costs([0, 1], Degrees(tp=8, dp=2))
    assert packed.cost == 1
    assert over["dp"].packed_s == packed.time_s
    # hashed routes: each message takes one of eight uplinks, and some meet
    assert over["dp"].cost > 1.5


def test_order_matters_and_hosts_leaf_after_leaf_repair_it() -> None:
    row = costs([0, 1, 0, 1, 0, 1, 0, 1], Degrees(tp=8, dp=2, pp=4))["dp"]
    assert row.shared == 2
    assert row.in_order_s == pytest.approx(row.packed_s)
    assert row.time_s > 1.5 * row.in_order_s


def test_stages_are_the_groups_of_a_pipeline() -> None:
    row = costs([0, 0, 1, 1], Degrees(tp=8, pp=4))["pp"]
    assert (row.ranks, row.shared, row.fewest) == (2, 2, 1)
    assert row.cost > 1
