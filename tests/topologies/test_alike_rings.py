"""Rings of which each is the first one, shifted inside every node."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import by_turns
from topologies.clusters import cluster
from topologies.ring_search import alike, find_rings, shifted
from topologies.topology import Topology
from topologies.variants import placed

BOXES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@given(BOXES)
def test_shifts_of_a_box_are_a_group(box: tuple[int, ...]) -> None:
    """Each takes place 0 to another place, and two after each other are a third."""
    table = shifted(box)
    assert table[:, 0].tolist() == [*range(prod(box))]
    for shift in table:
        assert np.array_equal(table[:, shift], table[shift])


def load(topology: Topology, orders: np.typing.NDArray[np.int32]) -> list[float]:
    """How long each medium carries a byte of every ring, in ascending order."""
    times = np.zeros(len(topology.medium_bandwidth))
    for channel, order in enumerate(orders):
        _, links = topology.routes(order, np.roll(order, -1), np.full_like(order, channel))
        for link in links.tolist():
            times[topology.media_of(link)] += 1 / topology.medium_bandwidth[topology.media_of(link)]
    return sorted(times.tolist())


@pytest.mark.parametrize(
    ("machine", "nodes"), by_turns(("dgx_a100", "hgx_h100", "b200"), (2, 3, 33))
)
def test_rings_of_a_node_with_a_switch_are_one_ring_shifted(machine: str, nodes: int) -> None:
    topology = cluster(machine, nodes)
    rings = find_rings(topology, topology.ranks)
    assert rings.box == (4, 2)
    first, place = rings.orders[0], rings.orders[0] % 8
    for channel, order in enumerate(rings.orders):
        assert np.array_equal(order, first - place + shifted(rings.box)[channel][place])


def test_shifted_rings_load_the_media_as_others_do() -> None:
    """NVSwitches take rings in any order: those of the search go through the GPUs in ascending
    order."""
    topology = cluster("hgx_h100", 2)
    rings = find_rings(topology, 16)
    ends = rings.orders[:, [0, 7]]
    ascending = [[start, *sorted({*range(8)} - {start, end}), end] for start, end in ends.tolist()]
    others = np.array([order + [8 + rank for rank in order] for order in ascending], dtype=np.int32)
    assert load(topology, others) == pytest.approx(load(topology, rings.orders))


@pytest.mark.parametrize(
    "topology",
    [
        cluster("hgx_h100"),
        cluster("mn5_acc", 4),
        cluster("dgx1", 2),
        placed(cluster("hgx_h100", 2), "round-robin"),
    ],
    ids=["one node", "links between all", "mesh", "dealt out"],
)
def test_other_rings_stay_as_they_are_found(topology: Topology) -> None:
    assert find_rings(topology, topology.ranks).box == ()


def test_a_last_node_that_is_not_full_has_no_shifts() -> None:
    assert find_rings(cluster("hgx_h100", 2), 12).box == ()


def test_rings_that_load_other_media_stay_as_they_are() -> None:
    orders = find_rings(cluster("hgx_h100", 2), 16).orders
    groups = [np.arange(8, dtype=np.int32), np.arange(8, 16, dtype=np.int32)]
    loads = iter(([1.0, 2.0], [1.0, 3.0], [1.0, 3.0]))
    assert alike(orders, groups, lambda rings: np.array(next(loads))) == (orders, ())
