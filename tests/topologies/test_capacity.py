"""Capacities, flows and cuts: hand-computed, against networkx, and against every cut there is."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from topologies import shapes
from topologies.capacity import Cut, capacities, congestion, max_flow, tightest_cut
from topologies.link import Link
from topologies.topology import Flags, Floats, Topology
from topologies.topology_builder import TopologyBuilder

SPEEDS = st.sampled_from((0.5, 1.0, 2.0, 3.0, float("inf")))


@st.composite
def machines(draw: st.DrawFn, *, ports: bool = False, shared: bool = False) -> Topology:
    """Any links between 2 to 6 devices; injection ports; media that any links share. The first
    devices hold ranks."""
    builder, devices = TopologyBuilder("random"), draw(st.integers(2, 6))
    names = [builder.device(f"d{k}") for k in range(devices)]
    media = [
        builder.medium(f"m{k}", draw(SPEEDS.filter(np.isfinite)))
        for k in range(devices if ports or shared else 0)
    ]
    pairs = st.tuples(st.integers(0, devices - 1), st.integers(0, devices - 1)).filter(
        lambda ends: ends[0] != ends[1]
    )
    for source, target in draw(st.lists(pairs, unique=True, max_size=14)):
        crossed = [media[source]] if ports and draw(st.booleans()) else []
        if shared:
            crossed = draw(st.lists(st.sampled_from(media), unique=True, max_size=2))
        builder.link(names[source], names[target], Link(draw(SPEEDS)), media=crossed)
    return builder.build(names[: draw(st.integers(1, devices))])


def every_set(topology: Topology) -> Flags:
    devices = len(topology.device_names)
    return np.array(
        [[subset >> d & 1 for d in range(devices)] for subset in range(2**devices)], dtype=np.bool_
    )


def leaving(topology: Topology, inside: Flags) -> float:
    """Bytes/s out of a set of devices; media belong to the links of one device."""
    crossing = inside[topology.source] & ~inside[topology.target]
    total = 0.0
    for device in np.flatnonzero(inside):
        links = np.flatnonzero(crossing & (topology.source == device)).tolist()
        behind = [k for k in links if len(topology.media_of(k)) > 1]
        total += sum(topology.medium_bandwidth[k] for k in links if k not in behind)
        if behind:
            port = topology.media_of(behind[0])[1]
            total += min(
                topology.medium_bandwidth[port], sum(topology.medium_bandwidth[k] for k in behind)
            )
    return total


def port(topology: Topology, device: int) -> float:
    group = np.where(topology.source == device, 0, -1).astype(np.int32)
    return float(capacities(topology, group, 1)[0])


def test_the_links_of_a_device_add_up() -> None:
    assert port(shapes.ring(5, bandwidth=3.0), 0) == 6
    assert port(shapes.full_mesh(5, bandwidth=3.0), 0) == 12
    assert port(shapes.star(5, bandwidth=3.0), 5) == 15


def test_links_behind_one_port_are_as_fast_as_the_port() -> None:
    assert port(shapes.full_mesh_one_port(5, bandwidth=3.0), 0) == 3


@given(machines(shared=True))
def test_capacities_are_no_less_than_any_joint_flow(topology: Topology) -> None:
    """The most that all links carry together is a linear program."""
    crossing = np.zeros((len(topology.medium_bandwidth), topology.links))
    for link in range(topology.links):
        crossing[topology.media_of(link), link] = 1
    finite = np.isfinite(topology.medium_bandwidth)
    if topology.links == 0 or not np.isfinite(topology.bandwidth).all():
        return
    joint = linprog(-np.ones(topology.links), crossing[finite], topology.medium_bandwidth[finite])
    capacity = capacities(topology, np.zeros(topology.links, dtype=np.int32), 1)[0]
    assert capacity >= -float(joint.fun or 0.0) * (1 - 1e-9)
    assert capacity <= topology.bandwidth.sum()


# Flows.


def test_several_sources_share_what_is_in_the_way() -> None:
    assert max_flow(shapes.line(4, bandwidth=2.0), [0, 1], [2, 3]).bandwidth == 2
    assert max_flow(shapes.star(4, bandwidth=2.0), [0, 1], [2, 3]).bandwidth == 4
    assert max_flow(shapes.bus(4, bandwidth=2.0), [0, 1], [2, 3]).bandwidth == 2


def test_nothing_limits_a_device_that_is_both_or_links_without_limit() -> None:
    ring = shapes.ring(4, bandwidth=2.0)
    assert max_flow(ring, [0, 1], [1, 2]).bandwidth == np.inf
    assert max_flow(shapes.line(3, bandwidth=float("inf")), [0], [2]).bandwidth == np.inf


@pytest.mark.parametrize("slow", [1e-6, 1.0, 1e5])
def test_a_slow_link_is_exact_among_links_far_faster(slow: float) -> None:
    builder = TopologyBuilder("slow")
    names = [builder.device(f"d{k}") for k in range(6)]
    for start, end in pairwise(names):
        builder.connect(start, end, Link({"d1": slow, "d2": slow / 3, "d3": slow}.get(start, 1e12)))
    assert max_flow(builder.build(names), [0], [5]).bandwidth == slow / 3


@given(machines())
def test_flows_are_those_of_networkx(topology: Topology) -> None:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(topology.device_names)))
    for source, target, bandwidth in zip(
        topology.source.tolist(), topology.target.tolist(), topology.bandwidth.tolist(), strict=True
    ):
        graph.add_edge(source, target, **({} if np.isinf(bandwidth) else {"capacity": bandwidth}))
    try:
        expected = nx.maximum_flow_value(graph, 0, 1)
    except nx.NetworkXUnbounded:
        expected = np.inf
    assert max_flow(topology, [0], [1]).bandwidth == pytest.approx(expected, rel=1e-9)


@given(machines(ports=True))
def test_a_flow_is_the_least_of_all_cuts(topology: Topology) -> None:
    sets = every_set(topology)
    least = min(leaving(topology, inside) for inside in sets[sets[:, 0] & ~sets[:, 1]])
    flow = max_flow(topology, [0], [1])
    assert flow.bandwidth == pytest.approx(least, rel=1e-9)
    if np.isfinite(least):
        assert leaving(topology, flow.inside) == pytest.approx(least, rel=1e-9)


# The tightest cut.


def ratio(cut: Cut | None, weight: Floats) -> float:
    if cut is None:
        return 0.0
    return float(weight[cut.inside].sum()) / cut.bandwidth if cut.bandwidth > 0 else np.inf


def test_the_tightest_cut_of_shards_through_a_ring() -> None:
    # Seven shards reach the eighth device over two links; four leave four devices over two.
    ring, one_each = shapes.ring(8, bandwidth=2.0), np.ones(8)
    cut = tightest_cut(ring, one_each, ring.placement)
    assert ratio(cut, one_each) == pytest.approx(7 / 4)


@given(machines(ports=True), st.data(), st.booleans())
def test_the_tightest_cut_is_the_tightest_of_all(
    topology: Topology, data: st.DataObject, reverse: bool
) -> None:
    devices = len(topology.device_names)
    weight = np.array(
        data.draw(st.lists(st.sampled_from((0.0, 1.0, 2.0)), min_size=devices, max_size=devices))
    )
    weight[data.draw(st.integers(0, devices - 1))] = 1.0
    sinks = data.draw(st.lists(st.integers(0, devices - 1), min_size=1, unique=True))
    if reverse and topology.shared_names:
        return
    best = 0.0
    for inside in every_set(topology):
        bandwidth = leaving(topology, ~inside if reverse else inside)
        if weight[inside].sum() > 0 and not inside[sinks].all():
            best = max(best, weight[inside].sum() / bandwidth if bandwidth else np.inf)
    cut = tightest_cut(topology, weight, sinks, reverse=reverse)
    assert ratio(cut, weight) == pytest.approx(best, rel=1e-8)
    if cut is not None:
        assert not cut.inside[sinks].all()
        assert cut.bandwidth == pytest.approx(
            leaving(topology, ~cut.inside if reverse else cut.inside), rel=1e-9
        )


@given(machines(shared=True))
def test_shared_media_make_a_cut_at_most_wider_than_what_it_carries(topology: Topology) -> None:
    """The most that device 0 can send to device 1 is a linear program over the flow on every
    link."""
    if topology.links == 0:
        return
    finite = np.isfinite(topology.medium_bandwidth)
    crossing = np.zeros((len(topology.medium_bandwidth), topology.links))
    balance = np.zeros((len(topology.device_names), topology.links))
    for link in range(topology.links):
        crossing[topology.media_of(link), link] = 1
        balance[topology.target[link], link] += 1
        balance[topology.source[link], link] -= 1
    program = linprog(
        -balance[1],
        crossing[finite],
        topology.medium_bandwidth[finite],
        balance[2:] if len(balance) > 2 else None,
        np.zeros(len(balance) - 2) if len(balance) > 2 else None,
    )
    carried = np.inf if program.status == 3 else -float(program.fun or 0.0)
    assert max_flow(topology, [0], [1]).bandwidth >= carried * (1 - 1e-9)


# Congestion.


def test_nothing_waits_on_one_device_and_all_wait_for_ever_where_nothing_leads() -> None:
    builder = TopologyBuilder("apart")
    builder.device("a")
    builder.device("b")
    topology = builder.build(["a", "a", "b"])
    assert congestion(topology, np.array([0]), np.array([1])) == 0
    assert congestion(topology, np.array([0]), np.array([2])) == np.inf
