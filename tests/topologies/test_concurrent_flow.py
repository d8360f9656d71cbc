"""What pairs of devices can exchange at once: hand-computed, between cuts and routes, with any
prices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies import shapes
from topologies.capacity import concurrent_flow, congestion, max_flow, stretch
from topologies.link import Link
from topologies.topology import Floats, Topology
from topologies.topology_builder import TopologyBuilder


def one_each(devices: int) -> Floats:
    return np.ones((devices, devices)) - np.eye(devices)


def all_to_all(topology: Topology) -> float:
    """Seconds in which every rank sends one byte to every other."""
    return concurrent_flow(topology, topology.placement, one_each(topology.ranks))


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        # All pass the wire in the middle: p/2 * p/2.
        pytest.param(shapes.line(6, bandwidth=1.0), 9, id="line"),
        # p^2/8 of p even, (p^2 - 1)/8 of p odd: bytes times links over 2p links.
        pytest.param(shapes.ring(4, bandwidth=1.0), 2, id="ring of 4"),
        pytest.param(shapes.ring(8, bandwidth=1.0), 8, id="ring of 8"),
        pytest.param(shapes.ring(5, bandwidth=1.0), 3, id="ring of 5"),
        pytest.param(shapes.star(6, bandwidth=2.0), 2.5, id="star"),
        pytest.param(shapes.full_mesh(6, bandwidth=2.0), 0.5, id="full mesh"),
        pytest.param(shapes.full_mesh_one_port(6, bandwidth=2.0), 2.5, id="one port"),
        pytest.param(shapes.bus(4, bandwidth=2.0), 6, id="bus"),
        # 8 across each of the 8 links between two halves of the 4 x 4.
        pytest.param(shapes.torus(16, bandwidth=1.0), 8, id="torus"),
        # 32 links of 16 ranks: 15 peers, 2 links away on the average of all 16.
        pytest.param(shapes.hypercube(16, bandwidth=1.0), 8, id="hypercube"),
    ],
)
def test_all_to_all(topology: Topology, expected: float) -> None:
    assert all_to_all(topology) == pytest.approx(expected, rel=1e-9)


def test_no_route_takes_for_ever_and_nothing_takes_no_time() -> None:
    builder = TopologyBuilder("one way")
    builder.device("a")
    builder.device("b")
    builder.link("a", "b", Link(float("inf")))
    topology = builder.build(["a", "b"])
    assert all_to_all(topology) == np.inf
    assert concurrent_flow(topology, topology.placement, np.array([[0.0, 1.0], [0.0, 0.0]])) == 0
    assert concurrent_flow(topology, topology.placement, np.zeros((2, 2))) == 0


def test_what_stays_on_a_device_needs_no_link() -> None:
    ring = shapes.ring(4, bandwidth=1.0)
    assert concurrent_flow(ring, ring.placement, np.ones((4, 4))) == 2


@pytest.mark.parametrize("spread", [1e3, 1e9, 1e15])
def test_speeds_may_be_far_apart(spread: float) -> None:
    builder = TopologyBuilder("uneven")
    names = [builder.device(f"d{k}") for k in range(5)]
    for end in range(5):
        for start in range(end):
            builder.connect(names[end], names[start], Link(spread if start else 1.0))
    # Each of four sends to the first and hears of it over wires of 1 B/s.
    assert all_to_all(builder.build(names)) == pytest.approx(1, rel=1e-6)


SPEEDS = st.sampled_from((0.5, 1.0, 2.0, 5.0, float("inf")))


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Up to seven devices, all connected, with shared media; some hold ranks."""
    builder, devices = TopologyBuilder("random"), draw(st.integers(2, 7))
    names = [builder.device(f"d{k}") for k in range(devices)]
    media = [
        builder.medium(f"m{k}", draw(SPEEDS.filter(np.isfinite)))
        for k in range(draw(st.integers(0, 2)))
    ]
    ends = {(draw(st.integers(0, k - 1)), k) for k in range(1, devices)}
    pairs = st.tuples(st.integers(0, devices - 1), st.integers(0, devices - 1))
    ends |= {
        (min(pair), max(pair)) for pair in draw(st.lists(pairs, max_size=5)) if pair[0] != pair[1]
    }
    for start, end in sorted(ends):
        for source, target in ((start, end), (end, start)):
            crossed = (
                draw(st.lists(st.sampled_from(media), unique=True, max_size=2)) if media else []
            )
            builder.link(names[source], names[target], Link(draw(SPEEDS)), media=crossed)
    return builder.build(draw(st.permutations(names))[: draw(st.integers(2, devices))])


@given(machines(), st.data())
def test_it_lies_between_every_cut_and_the_routes(topology: Topology, data: st.DataObject) -> None:
    ranks = topology.ranks
    demand = np.array(
        data.draw(st.lists(st.sampled_from((0.0, 1.0, 3.0)), min_size=ranks**2, max_size=ranks**2))
    ).reshape(ranks, ranks)
    np.fill_diagonal(demand, 0)
    seconds = concurrent_flow(topology, topology.placement, demand)
    for subset in range(1, 2**ranks - 1):
        inside = np.array([subset >> r & 1 for r in range(ranks)], dtype=np.bool_)
        needed = demand[inside][:, ~inside].sum()
        width = max_flow(
            topology, topology.placement[inside], topology.placement[~inside]
        ).bandwidth
        if not topology.shared_names:
            assert seconds >= needed / width * (1 - 1e-7)
    source, target = np.divmod(np.arange(ranks**2), ranks)
    count = demand.ravel().astype(int)
    assert seconds <= congestion(topology, np.repeat(source, count), np.repeat(target, count)) * (
        1 + 1e-9
    )


@given(machines(), st.integers(0, 2**32))
def test_no_prices_are_higher_than_the_right_ones(topology: Topology, seed: int) -> None:
    prices = np.random.default_rng(seed).exponential(size=len(topology.medium_bandwidth))
    demand = one_each(topology.ranks)
    bound = stretch(topology, topology.placement, demand, prices)
    assert bound <= concurrent_flow(topology, topology.placement, demand) * (1 + 1e-7)
