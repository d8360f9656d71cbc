"""What two halves of a machine can send each other."""

from unittest.mock import patch

import pytest

from simulator.analysis.bound_needs import flow_between_halves, routes_between_halves
from simulator.analysis.bounds import limits
from simulator.collectives.collective import ALL_REDUCE
from topologies.clusters import cluster
from topologies.machines import MACHINES
from topologies.shapes import nodes, ring

SMALL = [name for name in MACHINES if name != "nvl72"]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("back", [False, True])
def test_routes_carry_no_more_than_the_flow(name: str, back: bool) -> None:
    topology = cluster(name, 2)
    for ranks in (2, topology.ranks - 1, topology.ranks):
        flow = flow_between_halves(topology, ranks, back)
        assert 0 < routes_between_halves(topology, ranks, back) <= flow * (1 + 1e-12)


def test_machines_without_nodes_are_not_routed() -> None:
    assert routes_between_halves(ring(8, bandwidth=1e9), 8, back=False) == 0


def test_no_flow_is_sought_where_routes_carry_enough() -> None:
    """A node of 8 must pass all data through its port, half of the nodes only as much."""
    topology = nodes(1024, bandwidth=1e9, per_node=8)
    with patch("simulator.analysis.bound_needs.max_flow") as flow:
        highest = max(limit.per_byte for limit in limits(ALL_REDUCE, topology, 1024))
    assert not flow.called
    assert 1 / flow_between_halves(topology, 1024, back=False) <= highest
