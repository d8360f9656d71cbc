"""The order of ranks on devices, by node, dealt out or listed; slow links."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import refusal
from topologies.catalogue import find
from topologies.errors import InputError
from topologies.shapes import SHAPES, star
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder
from topologies.variants import ORDERS, Order, parse_placement, placed, slowed

NODES = st.lists(st.integers(-1, 3), min_size=1, max_size=12)


def machine(nodes: list[int]) -> Topology:
    """Device k is in node `nodes[k]` and has rank k."""
    builder = TopologyBuilder("some")
    names = [builder.device(f"d{k}", node=node) for k, node in enumerate(nodes)]
    return builder.build(names)


@given(NODES)
def test_by_node_is_the_order_of_nodes_and_then_of_ranks(nodes: list[int]) -> None:
    wanted = sorted(range(len(nodes)), key=lambda device: (nodes[device], device))
    assert placed(machine(nodes), "node").placement.tolist() == wanted


@given(NODES)
def test_round_robin_takes_one_of_every_node_that_has_some_left(nodes: list[int]) -> None:
    left = {
        node: [device for device, node_of_device in enumerate(nodes) if node_of_device == node]
        for node in sorted(set(nodes))
    }
    wanted = []
    while any(left.values()):
        wanted += [devices.pop(0) for devices in left.values() if devices]
    assert placed(machine(nodes), "round-robin").placement.tolist() == wanted


@given(st.data())
def test_a_list_says_which_places_the_first_ranks_get(data: st.DataObject) -> None:
    nodes = data.draw(NODES)
    by_node = sorted(range(len(nodes)), key=lambda device: (nodes[device], device))
    places = data.draw(st.permutations(range(len(nodes))))[: data.draw(st.integers(1, len(nodes)))]
    placement = placed(machine(nodes), tuple(places), len(places)).placement.tolist()
    rest = [device for place, device in enumerate(by_node) if place not in places]
    assert placement == [by_node[place] for place in places] + rest


@given(NODES, st.sampled_from(ORDERS))
def test_every_rank_keeps_a_device_of_its_own_and_nothing_else_changes(
    nodes: list[int], order: Order
) -> None:
    before = machine(nodes)
    after = placed(before, order)
    assert Counter(after.placement.tolist()) == Counter(before.placement.tolist())
    assert after.placement.dtype == np.int32
    assert placed(after, order).placement.tolist() == after.placement.tolist()
    assert before.placement.tolist() == list(range(len(nodes)))
    assert after.source is before.source


def test_ranks_that_share_a_device_are_places_of_their_own() -> None:
    builder = TopologyBuilder("shared")
    for node in range(2):
        builder.device(f"d{node}", node=node)
    twice = builder.build(["d1", "d0", "d1", "d0"])
    assert placed(twice, "node").placement.tolist() == [0, 0, 1, 1]
    assert placed(twice, "round-robin").placement.tolist() == [0, 1, 0, 1]


@each_case("shape", SHAPES)
@each_case("order", ORDERS)
def test_a_shape_has_one_node_for_all(shape: str, order: Order) -> None:
    topology = SHAPES[shape](8, bandwidth=1e9)
    assert placed(topology, order).placement.tolist() == topology.placement.tolist()


NO_PLACEMENTS = (
    "|nodes|Node|cyclic|0;1;2;3|0,1,2,|,0,1,2|0,1,,2|0 ,1,2,3|-1,0,1,2|0,1,2,3.0|٠,١,٢,٣|0x1,2,3,0|"
    "9999999999,0,1,2|0\n|0..3"
)
"""Wrong texts, with a bar between two."""


@each_case("order", NO_PLACEMENTS.split("|"))
def test_what_is_no_placement_is_refused(order: str) -> None:
    assert (
        refusal(parse_placement, order)
        == f"{order!r} is no placement: write node, round-robin or a list like 0,8,1,9"
    )


@each_case("order", ["0,1,2", "0,1,2,3,3", "0,1,2,2", "0,1,2,4", "0,1,2,999999999", "0"])
def test_a_list_names_each_rank_a_place_that_there_is(order: str) -> None:
    assert (
        refusal(placed, star(4, bandwidth=1e9), parse_placement(order))
        == f"placement {order!r}: name 4 different places, 0 to 3, for 4 ranks"
    )


def test_a_list_for_some_ranks_names_so_many() -> None:
    topology = star(4, bandwidth=1e9)
    assert placed(topology, (3, 1), 2).placement.tolist() == [3, 1, 0, 2]
    assert "name 3 different places, 0 to 3, for 3 ranks" in refusal(placed, topology, (3, 1), 3)


def test_a_long_list_is_shortened_in_the_message() -> None:
    for text in ("0," * 5000, "0," * 5000 + "0"):
        line = refusal(lambda text=text: placed(star(4, bandwidth=1e9), parse_placement(text)))
        assert len(line) < 200


STAR = find("star").with_links(bandwidth=8.0).build(4)


def changed(link: str | int) -> list[str]:
    topology = slowed(STAR, link, 0.25)
    names = list(STAR.medium_names)
    assert set(topology.medium_bandwidth.tolist()) == {8.0, 2.0}
    return sorted(names[m] for m in np.flatnonzero(topology.medium_bandwidth == 2.0))


def test_a_link_has_a_share_of_its_bandwidth() -> None:
    assert changed("gpu1->switch") == ["gpu1->switch"]


def test_all_links_of_a_rank_have() -> None:
    assert changed(2) == ["gpu2->switch", "switch->gpu2"]


def test_the_machine_itself_is_left_as_it_was() -> None:
    slowed(STAR, 2, 0.5)
    assert set(STAR.medium_bandwidth.tolist()) == {8.0}


def test_a_machine_without_links_has_none_to_slow() -> None:
    builder = TopologyBuilder("single")
    builder.device("gpu0")
    with pytest.raises(InputError, match="no such link: name a link like 'gpu0->switch'"):
        slowed(builder.build(["gpu0"]), "x", 0.5)


@each_case(
    ("link", "factor", "message"),
    [
        (4, 0.5, "no such rank, they run from 0 to 3"),
        (-1, 0.5, "no such rank"),
        ("gpu1->swich", 0.5, r"no such link: did you mean 'gpu1->switch'\? \(name a link"),
        ("", 0.5, "no such link: name a link like 'gpu0->switch', or a rank like 3$"),
        (1, 0.0, "a factor above 0"),
        (1, float("inf"), "a factor above 0"),
    ],
)
def test_what_is_not_there_is_refused(link: str | int, factor: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        slowed(STAR, link, factor)
