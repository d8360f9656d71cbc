"""Bounds: what no schedule can beat, and none does."""

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from best_bounds import COLLECTIVES, best, ports
from grouped_cases import each_case
from refusals import refusal
from simulator.analysis.bounds import Limit, best_bound, bounds, limits, needs
from simulator.collectives import find
from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
    SEND_RECV,
    Collective,
)
from simulator.engines import simulate
from topologies import shapes
from topologies.capacity import max_flow
from topologies.link import Link
from topologies.shapes import ring
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

# By hand: p = 4, V = 12 bytes, 1 B/s and 1 s of latency a link.


@each_case(
    ("shape", "expected"),
    [
        # Two links a rank, the farthest two links away: 12/2 through a rank's links, 72 bytes
        # through 8 links.
        (shapes.ring, [2, 6, 6, 9]),
        # One link a rank and direction: 72 bytes through 4.
        (shapes.star, [2, 12, 12, 18]),
        # Three links a rank, 12 in all.
        (shapes.full_mesh, [1, 4, 4, 6]),
        # Three links behind one port of 1 B/s.
        (shapes.full_mesh_one_port, [1, 12, 12, 18]),
        # One wire for all; what comes off it is unlimited.
        (shapes.bus, [1, 12, 0, 72]),
        # Three wires, both ways: the ranks at the ends have one link, 72 bytes go through 6.
        (shapes.line, [3, 12, 12, 12]),
        # 0 - 1, 0 - 2, 1 - 3: three wires again, 3 is three links from 2.
        (shapes.tree, [3, 12, 12, 12]),
    ],
)
def test_an_all_reduce_on_every_shape(
    shape: Callable[..., Topology], expected: list[float]
) -> None:
    assert ports(ALL_REDUCE, shape(4, bandwidth=1.0, latency=1.0)) == pytest.approx(expected)


@each_case(
    ("collective", "expected"),
    [
        (ALL_REDUCE, [2, 12, 12, 18]),
        # A rank gives away 3/4 of its input and gets at least 1/4 of V, its result; 3 V in all.
        (REDUCE_SCATTER, [2, 9, 3, 9]),
        (ALL_GATHER, [2, 3, 9, 9]),
        # Whoever is not the root gives V or gets V, through three ports; the root gets it or gives
        # it.
        (REDUCE, [2, 12, 12, 12]),
        (BROADCAST, [2, 12, 12, 12]),
        (SCATTER, [2, 9, 3, 9]),
        (GATHER, [2, 3, 9, 9]),
        (ALL_TO_ALL, [2, 9, 9, 9]),
        (SEND_RECV, [2, 12, 12, 12]),
    ],
)
def test_every_collective_through_a_star(collective: Collective, expected: list[float]) -> None:
    assert ports(collective, shapes.star(4, bandwidth=1.0, latency=1.0)) == pytest.approx(expected)


@each_case(
    ("collective", "seconds"),
    [(ALL_REDUCE, 4), (ALL_TO_ALL, 4), (REDUCE, 4), (BROADCAST, 4), (SEND_RECV, 4)],
)
def test_on_a_line_something_must_travel_from_end_to_end(
    collective: Collective, seconds: float
) -> None:
    assert ports(collective, shapes.line(5, bandwidth=1.0, latency=1.0), workers=5)[0] == seconds


def test_a_rooted_collective_counts_its_latency_from_the_root() -> None:
    # The root in the middle: 1 and 3 hops to the ends, 4 from end to end.
    line = shapes.line(5, bandwidth=1.0, latency=1.0)
    centred = replace(line, placement=np.array([1, 0, 2, 3, 4], dtype=np.int32))
    assert ports(BROADCAST, centred, workers=5)[0] == 3
    assert ports(REDUCE, centred, workers=5)[0] == 3
    assert ports(ALL_GATHER, centred, workers=5)[0] == 4
    assert ports(SEND_RECV, centred, workers=5)[0] == 3, (
        "from the end to the root: 4 hops to the right, 3 back"
    )


@pytest.mark.parametrize("first", [0, 150, 299])
def test_the_farthest_two_of_many_ranks_are_at_the_ends_of_a_line(first: int) -> None:
    # Rank 0 at an end or in the middle of 300 devices: 299 links from end to end.
    line = shapes.line(300, bandwidth=1.0, latency=1.0)
    turned = replace(line, placement=np.roll(line.placement, -first))
    for collective in (ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL):
        assert ports(collective, turned, workers=300)[0] == 299
    assert ports(BROADCAST, turned, workers=300)[0] == max(first, 299 - first)
    assert ports(SCATTER, turned, workers=300)[0] == max(first, 299 - first)


def test_the_farthest_two_of_few_ranks_are_found_in_either_direction() -> None:
    # Rank 2 hears from all others after 1 s, and is heard after 10 s.
    builder = TopologyBuilder("slow to speak")
    gpus = [builder.device(f"gpu{k}") for k in range(4)]
    for source, target in permutations(range(4), 2):
        builder.link(gpus[source], gpus[target], Link(1.0, 10.0 if source == 2 else 1.0))
    assert ports(ALL_REDUCE, builder.build(gpus))[0] == 10


def test_a_rank_sends_to_the_next_and_not_to_the_one_before() -> None:
    builder = TopologyBuilder("one-way ring")
    gpus = [builder.device(f"gpu{k}") for k in range(4)]
    for k in range(4):
        builder.link(gpus[k], gpus[(k + 1) % 4], Link(1.0, 1.0))
    assert ports(SEND_RECV, builder.build(gpus))[0] == 1
    assert ports(SEND_RECV, builder.build(gpus[::-1]))[0] == 3


def test_ranks_that_do_not_work_are_in_no_latency() -> None:
    line = shapes.line(300, bandwidth=1.0, latency=1.0)
    for workers in (3, 257, 280):
        assert ports(ALL_REDUCE, line, workers=workers)[0] == workers - 1
        assert ports(BROADCAST, line, workers=workers)[0] == workers - 1


def uneven_star(slow: int) -> Topology:
    """Four ranks on a switch at 1 B/s, one of them at 1/4 B/s and 3 s of latency."""
    builder = TopologyBuilder("uneven star")
    gpus = [builder.device(f"gpu{rank}") for rank in range(4)]
    switch = builder.device("switch", "switch")
    for rank, gpu in enumerate(gpus):
        builder.connect(
            gpu, switch, Link(0.25 if rank == slow else 1.0, 3.0 if rank == slow else 1.0)
        )
    return builder.build(gpus)


def test_one_slow_link_sets_the_pace() -> None:
    # 12/0.25 through the slow link, 72 through all 3.25 B/s; 3 + 1 s of latency.
    assert ports(ALL_REDUCE, uneven_star(slow=2)) == pytest.approx([4, 48, 48, 72 / 3.25])
    assert best_bound(ALL_REDUCE, uneven_star(slow=2), 4, 12.0).name == "injection port"
    assert ports(BROADCAST, uneven_star(slow=2)) == pytest.approx([4, 12, 48, 36 / 2.25])


def test_the_root_of_a_broadcast_sends_and_need_not_receive() -> None:
    assert ports(BROADCAST, uneven_star(slow=0)) == pytest.approx([4, 48, 12, 48])
    assert ports(REDUCE, uneven_star(slow=0)) == pytest.approx([4, 12, 48, 48])


def test_only_workers_must_send_but_servers_may_help() -> None:
    # A fifth device on the star adds a port to all, and no worker.
    topology = shapes.star(5, bandwidth=1.0, latency=1.0)
    assert ports(ALL_REDUCE, topology, workers=4) == pytest.approx([2, 12, 12, 72 / 5])


def test_a_half_duplex_wire_counts_once_a_direction() -> None:
    builder = TopologyBuilder("half duplex")
    left, right = builder.device("one"), builder.device("other")
    wire = builder.medium("wire", 1.0)
    builder.link(left, right, Link(2.0), media=(wire,))
    builder.link(right, left, Link(2.0), media=(wire,))
    # 24 bytes in all cross one wire of 1 B/s, whoever sends.
    assert ports(ALL_REDUCE, builder.build([left, right]), workers=2) == [0, 12, 12, 24]


def test_the_best_bound_is_the_highest() -> None:
    star = shapes.star(4, bandwidth=1.0, latency=1.0)
    assert best_bound(ALL_REDUCE, star, 4, 12.0) == ("all ports", 18.0)
    assert best_bound(ALL_REDUCE, star, 4, 1e-3) == ("latency", 2.0)


def test_a_broadcast_needs_no_way_back() -> None:
    # 0 -> 1 -> 2 and nothing leads back: twice 12 s and a latency.
    builder = TopologyBuilder("one way")
    gpus = [builder.device(f"gpu{rank}") for rank in range(3)]
    builder.link("gpu0", "gpu1", Link(1.0, 1.0))
    builder.link("gpu1", "gpu2", Link(1.0, 1.0))
    topology = builder.build(gpus)
    assert simulate(find("tree_broadcast").build(3, 12.0), topology).makespan == 26
    assert ports(BROADCAST, topology, workers=3) == [2, 12, 12, 12]


# What must be moved, and when to stop looking.


@each_case("collective", COLLECTIVES)
@each_case("ranks", [1, 2, 3, 8])
def test_ranks_by_themselves_need_what_the_collective_declares(
    collective: Collective, ranks: int
) -> None:
    traffic = needs(collective, np.arange(ranks, dtype=np.int32), ranks)
    assert traffic.total == pytest.approx(collective.volume(ranks) if ranks > 1 else 0)
    for rank in range(1, ranks):
        assert traffic.leave[rank] == pytest.approx(collective.sends(ranks))
        assert traffic.enter[rank] == pytest.approx(collective.receives(ranks))


@given(st.sampled_from(COLLECTIVES), st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_needs_balance(collective: Collective, group: list[int]) -> None:
    """What is moved is what must leave or enter; together all need no more than ranks by
    themselves."""
    traffic = needs(collective, np.array(group, dtype=np.int32), 5)
    assert traffic.total >= max(traffic.leave.sum(), traffic.enter.sum()) - 1e-9
    assert (
        traffic.total
        <= needs(collective, np.arange(len(group), dtype=np.int32), len(group)).total + 1e-9
    )
    assert not traffic.leave[np.setdiff1d(np.arange(5), group)].any()
    assert not traffic.enter[np.setdiff1d(np.arange(5), group)].any()
    if len(set(group)) == 1:
        assert traffic.total == 0


def test_an_unknown_collective_has_no_bound() -> None:
    unknown = replace(ALL_REDUCE, name="gossip")
    assert {
        limit.per_byte + limit.fixed
        for limit in limits(unknown, shapes.ring(4, bandwidth=1.0, latency=1.0), 4)
    } == {0}


def test_bounds_are_found_once_a_topology_and_hold_for_all_sizes() -> None:
    ring = shapes.ring(4, bandwidth=1.0, latency=1.0)
    assert limits(ALL_REDUCE, ring, 4) is limits(ALL_REDUCE, ring, 4)
    assert limits(ALL_REDUCE, ring, 4)[-1] == Limit("all ports", 0.0, 0.75)
    assert best_bound(ALL_REDUCE, ring, 4, 4e9).seconds == 3e9
    assert [bound.seconds for bound in bounds(ALL_REDUCE, ring, 4, 0.0)] == [2, 0, 0, 0]


def test_of_equal_bounds_the_first_is_named() -> None:
    # The ports of both ends, the wire between them and all of it together: 12 s each.
    assert best(ALL_REDUCE, shapes.line(2, bandwidth=1.0), 2) == ("injection port", 12)


def test_a_ring_that_fills_its_links_leaves_nothing_to_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cuts are looked for only while no plain schedule is known to reach the bound."""
    monkeypatch.setattr("simulator.analysis.bounds.tightest_cut", None)
    for collective, seconds in ((ALL_REDUCE, 10), (ALL_GATHER, 5), (REDUCE_SCATTER, 5)):
        assert best_bound(
            collective, shapes.ring(6, bandwidth=1.0), 6, 12.0
        ).seconds == pytest.approx(seconds)


def test_halves_of_a_large_machine_are_not_cut_where_a_ring_meets_the_bound() -> None:
    """No bound is higher than what a schedule reaches."""
    topology = shapes.ring(2048, bandwidth=1e9)
    devices = topology.placement
    least = max_flow(topology, devices[:1024], devices[1024:]).bandwidth
    with patch("simulator.analysis.bound_needs.max_flow") as flow:
        known = limits(ALL_REDUCE, topology, 2048)
    assert not flow.called
    assert max(limit.per_byte for limit in known) >= 1 / least


MACHINE = ring(4, bandwidth=1e9, latency=1e-6)


@each_case("nbytes", [float("nan"), float("inf"), -1.0, -1e-300])
@each_case("call", [bounds, best_bound])
def test_a_size_is_finite_and_not_negative(call: Any, nbytes: float) -> None:
    message = refusal(lambda: call(ALL_REDUCE, MACHINE, 4, nbytes))
    assert message == f"nbytes is {nbytes}: expected a finite number, 0 or more"


@each_case("workers", [0, -1, 5])
@each_case("call", [bounds, best_bound])
def test_the_workers_are_ranks_of_the_machine(call: Any, workers: int) -> None:
    message = refusal(lambda: call(ALL_REDUCE, MACHINE, workers, 1e6))
    assert message == f"workers are {workers}: ring has 4 ranks, expected 1 to 4"


@pytest.mark.parametrize("workers", [2.5, float("nan"), "four"])
def test_the_workers_are_a_whole_number(workers: Any) -> None:
    for call in (
        lambda: limits(ALL_REDUCE, MACHINE, workers),
        lambda: bounds(ALL_REDUCE, MACHINE, workers, 1e6),
    ):
        assert refusal(call) == f"workers is {workers!r}: expected a whole number, like 1"


def test_no_bytes_take_the_latency() -> None:
    assert best_bound(ALL_REDUCE, MACHINE, 4, 0.0).seconds == 2e-6


def test_one_worker_needs_no_time() -> None:
    assert best_bound(ALL_REDUCE, MACHINE, np.int64(1), 1e6).seconds == 0  # type: ignore[arg-type]
