"""Rings for a machine: Hamiltonian cycles, bandwidths, and shifts inside nodes."""

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import by_turns, tries
from topologies.clusters import MACHINES, cluster
from topologies.errors import InputError
from topologies.link import Link
from topologies.ring_search import CHANNELS, Rings, alike, find_rings, shifted
from topologies.shapes import SHAPES, bus, ring
from topologies.topology import Paths, Topology
from topologies.topology_builder import TopologyBuilder
from topologies.variants import placed

NO_SLOWER = 1 - 2e-3
"""A search that is faster by less than 0.1% does not pay."""
SMALL = [name for name in MACHINES if name not in ("nvl72", "gb300")]
EXHAUSTIVE = ("nvl72", "hgx_h200", "b200", "dgx_a100", "alps")
"""The largest machine, and those like hgx_h100 and mn5_acc, of other speeds."""


def every_machine(names: Iterable[str]) -> pytest.MarkDecorator:
    """Machines, of which some are left to the exhaustive tests."""
    exhaustive = pytest.mark.exhaustive
    cases = [pytest.param(name, marks=[exhaustive] * (name in EXHAUSTIVE)) for name in names]
    return pytest.mark.parametrize("name", cases)


def recounted(topology: Topology, orders: npt.NDArray[np.int32]) -> float:
    """What rings hand on together, route by route and medium by medium: each has an equal share of
    the bytes."""
    crossed = dict.fromkeys(range(len(topology.medium_names)), 0)
    for channel, order in enumerate(orders.tolist()):
        for source, target in zip(order, order[1:] + order[:1], strict=True):
            for link in topology.route(source, target, channel):
                for medium in topology.media_of(link).tolist():
                    crossed[medium] += 1
    time = max(count / topology.medium_bandwidth[medium] for medium, count in crossed.items())
    return float(len(orders) / time)


def check(topology: Topology, ranks: int, channels: int | None = None) -> Rings:
    rings = find_rings(topology, ranks, channels)
    assert rings.orders.ndim == 2
    assert rings.orders.dtype == np.int32
    assert 1 <= len(rings.orders) <= 64
    for order in rings.orders:
        assert sorted(order.tolist()) == list(range(ranks))
    assert rings.bandwidth == pytest.approx(recounted(topology, rings.orders), rel=1e-9)
    return rings


def in_rank_order(topology: Topology, ranks: int) -> float:
    return recounted(topology, np.arange(ranks, dtype=np.int32)[None])


# Laws.


@given(st.sampled_from(SMALL), st.integers(1, 3), st.data())
def test_rings_of_machines(name: str, nodes: int, data: st.DataObject) -> None:
    """Any number of ranks, the last node in part, any network and number of NICs: no slower than
    the rank order."""
    network = data.draw(st.sampled_from((None, "rails", "leaf_spine", "fat_tree", "dragonfly")))
    nics = data.draw(st.sampled_from((None, 1, 2, 5)))
    paths: Paths = data.draw(st.sampled_from(("rail", "hash")))
    topology = replace(cluster(name, nodes, network=network, nics=nics), paths=paths)
    ranks = data.draw(st.integers(2, topology.ranks))
    assert check(topology, ranks).bandwidth >= in_rank_order(topology, ranks) * NO_SLOWER


@given(st.sampled_from([shape for shape in SHAPES if shape != "bus"]), st.integers(2, 12))
def test_rings_of_shapes(shape: str, ranks: int) -> None:
    power = 2 ** (ranks.bit_length() - 1)
    count = power if shape == "hypercube" else ranks
    topology = SHAPES[shape](count, bandwidth=1e9, latency=1e-6)
    assert check(topology, count).bandwidth >= in_rank_order(topology, count) * NO_SLOWER


@st.composite
def meshes(draw: st.DrawFn) -> Topology:
    """Up to six GPUs on a line, with further links of other widths, in two nodes or none."""
    count = draw(st.integers(2, 6))
    builder = TopologyBuilder("mesh")
    node = draw(st.sampled_from((-1, 0, 1)))
    names = [builder.device(f"g{k}", node=k % 2 if node == 1 else node) for k in range(count)]
    width = st.sampled_from((1e9, 2e9, 5e9))
    for start in range(count):
        for end in range(start + 1, count):
            if end == start + 1 or draw(st.booleans()):
                builder.connect(names[start], names[end], Link(draw(width), 1e-6))
    return builder.build(names)


@given(meshes())
def test_rings_of_a_mesh_in_one_node_are_no_slower_than_any_ring_alone(topology: Topology) -> None:
    """Up to eight ranks of a node, every order is looked at: one of the fewest crossings of the
    fullest link."""
    rings = check(topology, topology.ranks)
    assert rings.bandwidth >= in_rank_order(topology, topology.ranks) * NO_SLOWER


@tries(6, 20)
@given(st.sampled_from(SMALL), st.integers(1, 20))
def test_as_many_channels_as_are_asked_for(name: str, channels: int) -> None:
    topology = MACHINES[name].node()
    assert len(check(topology, topology.ranks, channels).orders) == channels


@every_machine(MACHINES)
def test_without_asking_there_are_no_more_than_pay(name: str) -> None:
    """Fewer channels of the same search are slower, and there are at most 16."""
    topology = cluster(name, 2)
    rings = find_rings(topology, topology.ranks)
    count = len(rings.orders)
    assert count <= CHANNELS
    assert np.array_equal(find_rings(topology, topology.ranks, count).orders, rings.orders)
    if count > 1:
        assert find_rings(topology, topology.ranks, count - 1).bandwidth < rings.bandwidth


@pytest.mark.parametrize(("nics", "channels"), [(10, 16), (11, 14)])
def test_the_search_ends_after_sixteen_rings(nics: int, channels: int) -> None:
    """With 11 NICs the seventeenth ring would be faster than 14 are, and is not looked at."""
    topology = replace(cluster("mn5_acc", 2, network="rails", nics=nics), paths="hash")
    rings = find_rings(topology, 8)
    assert len(rings.orders) == channels
    assert (find_rings(topology, 8, 17).bandwidth > rings.bandwidth * 1.001) == (nics == 11)


# Optima.


@pytest.mark.parametrize(
    ("name", "nodes", "bandwidth"),
    [
        ("pcie_box", 1, 10.0),  # UPI, once each way
        ("dgx1", 1, 120.0),  # six NVLinks of 20 each, all in use
        ("dgx_a100", 1, 240.0),  # a GPU's port
        ("hgx_h100", 1, 370.8),
        ("hgx_h200", 1, 370.8),
        ("b200", 1, 721.8),
        ("nvl72", 1, 721.8),
        ("leonardo", 1, 240.0),  # three peers of 80
        ("mn5_acc", 1, 3 * 123.6),
        ("alps", 1, 3 * 123.6),
        ("pcie_box", 2, 20.0),  # UPI once each way in one of two rings
        ("dgx1", 2, 48.0),  # four NICs behind PCIe 3
        ("dgx_a100", 2, 8 * 24.0),  # eight NICs behind PCIe 4
        (
            "hgx_h100",
            2,
            8 * 48.0,
        ),  # eight NICs behind PCIe 5: a ring leaves out one NVLink of eight, so more than 370.8
        ("hgx_h200", 4, 8 * 48.0),
        ("b200", 2, 8 * 48.0),
        ("leonardo", 2, 4 * 12.5),
        ("mn5_acc", 2, 4 * 25.0),
        ("mn5_acc", 4, 4 * 25.0),
        ("alps", 2, 4 * 25.0),
        ("alps", 4, 4 * 25.0),
    ],
)
def test_rings_reach_what_the_machine_can(name: str, nodes: int, bandwidth: float) -> None:
    topology = cluster(name, nodes)
    assert check(topology, topology.ranks).bandwidth / 1e9 == pytest.approx(bandwidth)


@pytest.mark.parametrize(("nodes", "crossings"), [(32, 0), (33, 2), (64, 2)])
def test_rings_cross_a_spine_only_between_units(nodes: int, crossings: int) -> None:
    """In a unit of 32 nodes a ring leaves a node by the rail on which it enters the next."""
    topology = cluster("hgx_h100", nodes)
    rings = find_rings(topology, topology.ranks)
    assert rings.bandwidth / 1e9 == pytest.approx(8 * 48.0)
    assert len(rings.orders) == 8
    spines = [name.startswith("spine") for name in topology.device_names]
    for channel, order in enumerate(rings.orders):
        _, links = topology.routes(order, np.roll(order, -1), np.full_like(order, channel))
        assert np.count_nonzero(np.array(spines)[topology.target[links]]) == crossings


def test_seven_neighbours_of_an_mi300x_are_used_almost_fully() -> None:
    """Seven rings of 48 GB/s would be 336: that K8 falls into Hamiltonian cycles each way is not
    found by greed."""
    rings = check(MACHINES["mi300x"].node(), 8)
    assert 312e9 * (1 - 1e-9) <= rings.bandwidth <= 336e9


@each_case("ranks", range(3, 17))
def test_a_ring_has_two_directions(ranks: int) -> None:
    rings = check(ring(ranks, bandwidth=3e9, latency=1e-6), ranks)
    assert rings.bandwidth == pytest.approx(2 * 3e9)
    assert len(rings.orders) == 2


# Edges.


@each_case("name", MACHINES)
def test_two_ranks_send_to_and_fro(name: str) -> None:
    topology = MACHINES[name].node()
    rings = check(topology, 2)
    assert rings.orders.tolist()[0] == [0, 1]
    assert rings.bandwidth == pytest.approx(
        float(topology.bandwidth[list(topology.route(0, 1))].min())
    )


@pytest.mark.parametrize("name", ["dgx1", "hgx_h100", "leonardo"])
def test_dealt_out_ranks_are_gathered_by_node(name: str) -> None:
    """A ring goes through all ranks of a node before it leaves it, wherever their numbers are."""
    topology = placed(cluster(name, 2), "round-robin")
    rings = check(topology, topology.ranks)
    assert rings.bandwidth == pytest.approx(find_rings(cluster(name, 2), topology.ranks).bandwidth)
    for order in rings.orders:
        nodes = topology.node[topology.placement[order]]
        assert np.count_nonzero(nodes != np.roll(nodes, 1)) == 2


def no_slower(topology: Topology, ranks: int) -> None:
    assert find_rings(topology, ranks).bandwidth >= in_rank_order(topology, ranks) * NO_SLOWER


def test_greed_is_no_slower_than_the_rank_order() -> None:
    no_slower(replace(cluster("dgx1", 3, network="rails"), paths="hash"), 14)


@pytest.mark.parametrize(
    ("name", "nodes", "ranks", "options"),
    [
        ("alps", 5, 16, {"network": "rails"}),
        ("mn5_acc", 3, 7, {"network": "rails", "nics": 3}),
        ("alps", 4, 8, {"network": "rails", "oversubscription": 4.0}),
        ("hgx_h100", 4, 13, {"nics": 3}),
    ],
)
def test_rings_of_dealt_out_ranks_are_no_slower_than_their_order(
    name: str, nodes: int, ranks: int, options: dict[str, Any]
) -> None:
    topology = placed(cluster(name, nodes, **options), "round-robin")
    no_slower(topology, ranks)
    no_slower(replace(topology, paths="first"), ranks)


@pytest.mark.parametrize("ranks", [2, 3, 8, 12])
def test_a_bus_is_one_medium_for_all(ranks: int) -> None:
    assert check(bus(ranks, bandwidth=1e9), ranks).bandwidth == pytest.approx(1e9 / ranks)


@each_case("ranks", [0, 1, 9, -3])
def test_there_are_no_rings_of_so_many_ranks(ranks: int) -> None:
    with pytest.raises(InputError, match=f"^ranks is {ranks}: dgx1 has 8, a ring takes 2 or more$"):
        find_rings(MACHINES["dgx1"].node(), ranks)


@each_case("channels", [0, -1, 65, 10**9])
def test_there_is_no_such_number_of_channels(channels: int) -> None:
    with pytest.raises(InputError, match=f"^channels is {channels}: 1 to 64$"):
        find_rings(MACHINES["dgx1"].node(), 8, channels)


def test_islands_have_no_ring() -> None:
    builder = TopologyBuilder("islands")
    names = [builder.device(f"g{k}") for k in range(4)]
    builder.connect(names[0], names[1], Link(1e9))
    builder.connect(names[2], names[3], Link(1e9))
    with pytest.raises(InputError, match="no route from rank 0 to rank 2 in islands"):
        find_rings(builder.build(names), 4)


# Time.


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
