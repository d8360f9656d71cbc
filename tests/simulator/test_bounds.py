"""Bounds: what no schedule can beat, and none does."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simulator.bounds as module
from simulator.bounds import Limit, best_bound, bounds, limits, needs
from simulator.collectives import algorithms, find
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
from simulator.schedule import Schedule
from topologies import shapes
from topologies.builder import TopologyBuilder
from topologies.capacity import congestion
from topologies.errors import InputError
from topologies.topology import Floats, Topology

COLLECTIVES = (ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, REDUCE, BROADCAST, ALL_TO_ALL, SEND_RECV)
PORTS = ["latency", "injection port", "ejection port", "all ports"]


def ports(collective: Collective, topology: Topology, workers: int = 4, nbytes: float = 12.0) -> list[float]:
    """Seconds of the bounds that there always are: latency, injection port, ejection port, all ports."""
    found = bounds(collective, topology, workers, nbytes)
    assert [bound.name for bound in found[:4]] == PORTS
    assert [bound.seconds for bound in found[4:]] == sorted(bound.seconds for bound in found[4:])
    return [bound.seconds for bound in found[:4]]


def best(collective: Collective, topology: Topology, workers: int = 4, nbytes: float = 12.0) -> tuple[object, object]:
    """Name and seconds of the best bound, without latency."""
    return best_bound(collective, replace(topology, latency=0 * topology.latency), workers, nbytes)


# By hand: p = 4, V = 12 bytes, 1 B/s and 1 s of latency a link.


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        # Two links a rank, the farthest two links away: 12/2 through a rank's links, 72 bytes through 8 links.
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
def test_an_all_reduce_on_every_shape(shape: Callable[..., Topology], expected: list[float]) -> None:
    assert ports(ALL_REDUCE, shape(4, bandwidth=1.0, latency=1.0)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("collective", "expected"),
    [
        (ALL_REDUCE, [2, 12, 12, 18]),
        # A rank gives away 3/4 of its input and gets at least 1/4 of V, its result; 3 V in all.
        (REDUCE_SCATTER, [2, 9, 3, 9]),
        (ALL_GATHER, [2, 3, 9, 9]),
        # Whoever is not the root gives V or gets V, through three ports; the root gets it or gives it.
        (REDUCE, [2, 12, 12, 12]),
        (BROADCAST, [2, 12, 12, 12]),
        (SCATTER, [2, 9, 3, 9]),
        (GATHER, [2, 3, 9, 9]),
        (ALL_TO_ALL, [2, 9, 9, 9]),
        (SEND_RECV, [2, 12, 12, 12]),
    ],
    ids=lambda value: value.name if isinstance(value, Collective) else "",
)
def test_every_collective_through_a_star(collective: Collective, expected: list[float]) -> None:
    assert ports(collective, shapes.star(4, bandwidth=1.0, latency=1.0)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("collective", "seconds"),
    [(ALL_REDUCE, 4), (ALL_TO_ALL, 4), (REDUCE, 4), (BROADCAST, 4), (SEND_RECV, 4)],
    ids=lambda value: value.name if isinstance(value, Collective) else "",
)
def test_on_a_line_something_must_travel_from_end_to_end(collective: Collective, seconds: float) -> None:
    assert ports(collective, shapes.line(5, bandwidth=1.0, latency=1.0), workers=5)[0] == seconds


def test_a_rooted_collective_counts_its_latency_from_the_root() -> None:
    # The root in the middle: 1 and 3 hops to the ends, 4 from end to end.
    line = shapes.line(5, bandwidth=1.0, latency=1.0)
    centred = replace(line, placement=np.array([1, 0, 2, 3, 4], dtype=np.int32))
    assert ports(BROADCAST, centred, workers=5)[0] == 3
    assert ports(REDUCE, centred, workers=5)[0] == 3
    assert ports(ALL_GATHER, centred, workers=5)[0] == 4
    assert ports(SEND_RECV, centred, workers=5)[0] == 3, "from the end to the root: 4 hops to the right, 3 back"


def uneven_star(slow: int) -> Topology:
    """Four ranks on a switch at 1 B/s, one of them at 1/4 B/s and 3 s of latency."""
    builder = TopologyBuilder("uneven star")
    gpus = [builder.device(f"gpu{rank}") for rank in range(4)]
    switch = builder.device("switch", "switch")
    for rank, gpu in enumerate(gpus):
        builder.connect(gpu, switch, bandwidth=0.25 if rank == slow else 1.0, latency=3.0 if rank == slow else 1.0)
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
    one, other = builder.device("one"), builder.device("other")
    wire = builder.medium("wire", 1.0)
    builder.link(one, other, bandwidth=2.0, media=(wire,))
    builder.link(other, one, bandwidth=2.0, media=(wire,))
    # 24 bytes in all cross one wire of 1 B/s, whoever sends.
    assert ports(ALL_REDUCE, builder.build([one, other]), workers=2) == [0, 12, 12, 24]


def test_the_best_bound_is_the_highest() -> None:
    star = shapes.star(4, bandwidth=1.0, latency=1.0)
    assert best_bound(ALL_REDUCE, star, 4, 12.0) == ("all ports", 18.0)
    assert best_bound(ALL_REDUCE, star, 4, 1e-3) == ("latency", 2.0)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_the_ring_meets_the_bandwidth_bound_of_a_star(ranks: int) -> None:
    star = shapes.star(ranks, bandwidth=1.0)
    assert simulate(find("ring").build(ranks, 24.0), star).makespan == pytest.approx(
        best_bound(ALL_REDUCE, star, ranks, 24.0).seconds
    )


def test_ranks_that_share_a_device_need_no_port_between_them() -> None:
    # Two ranks on each of two devices: the tree moves V across once each way, in 24 s.
    builder = TopologyBuilder("two devices")
    builder.connect(builder.device("a"), builder.device("b"), bandwidth=1.0)
    topology = builder.build(["a", "a", "b", "b"])
    seconds = simulate(find("tree").build(4, 12.0), topology).makespan
    assert seconds == 24
    assert max(ports(ALL_REDUCE, topology)) <= seconds


def test_ranks_on_one_device_alone_have_no_bound() -> None:
    builder = TopologyBuilder("one device")
    builder.device("a")
    topology = builder.build(["a", "a"])
    assert simulate(find("ring").build(2, 12.0), topology).makespan == 0
    assert ports(ALL_REDUCE, topology, workers=2) == [0, 0, 0, 0]


def test_a_rank_beside_the_root_is_spared_as_the_root_is() -> None:
    # Ranks 0 and 1 share a device that sends slowly: neither has to send.
    slow = TopologyBuilder("slow root")
    for name in ("a", "b"):
        slow.device(name)
    slow.link("a", "b", bandwidth=1 / 8)
    slow.link("b", "a", bandwidth=1.0)
    sends_slowly = slow.build(["a", "a", "b"])
    assert simulate(find("tree_reduce").build(3, 12.0), sends_slowly).makespan == 12
    assert max(ports(REDUCE, sends_slowly, workers=3)) <= 12


def test_a_broadcast_needs_no_way_back() -> None:
    # 0 -> 1 -> 2 and nothing leads back: twice 12 s and a latency.
    builder = TopologyBuilder("one way")
    gpus = [builder.device(f"gpu{rank}") for rank in range(3)]
    builder.link("gpu0", "gpu1", bandwidth=1.0, latency=1.0)
    builder.link("gpu1", "gpu2", bandwidth=1.0, latency=1.0)
    topology = builder.build(gpus)
    assert simulate(find("tree_broadcast").build(3, 12.0), topology).makespan == 26
    assert ports(BROADCAST, topology, workers=3) == [2, 12, 12, 12]


# The best bound on every shape: V = 12, 1 B/s a link.

RING = {ALL_REDUCE: 9.0, REDUCE_SCATTER: 4.5, ALL_GATHER: 4.5, REDUCE: 6.0, BROADCAST: 6.0}
PORT = {ALL_REDUCE: 18.0, REDUCE_SCATTER: 9.0, ALL_GATHER: 9.0, REDUCE: 12.0, BROADCAST: 12.0}
ENDS = {ALL_REDUCE: 12.0, REDUCE_SCATTER: 9.0, ALL_GATHER: 9.0, REDUCE: 12.0, BROADCAST: 12.0}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        # Pairs: 16 links for 3 bytes each over 8; and a quarter of what goes to the next rank goes the other way round.
        (shapes.ring, RING | {ALL_TO_ALL: 6, SEND_RECV: 9}),
        # The same ring, ranks in another order: 0 and 2 send 24 to 1 and 3 over two wires.
        (shapes.grid, RING | {ALL_TO_ALL: 6, SEND_RECV: 12}),
        (shapes.torus, RING | {ALL_TO_ALL: 6, SEND_RECV: 12}),
        (shapes.hypercube, RING | {ALL_TO_ALL: 6, SEND_RECV: 12}),
        (shapes.star, PORT | {ALL_TO_ALL: 9, SEND_RECV: 12}),
        (shapes.full_mesh_one_port, PORT | {ALL_TO_ALL: 9, SEND_RECV: 12}),
        (shapes.leaf_spine, PORT | {ALL_TO_ALL: 9, SEND_RECV: 12}),
        (shapes.fat_tree, PORT | {ALL_TO_ALL: 9, SEND_RECV: 12}),
        # Half of what goes to the next rank goes by way of the two others, over two wires: 4 * (6 + 2 * 6) over 12.
        (
            shapes.full_mesh,
            {ALL_REDUCE: 6, REDUCE_SCATTER: 3, ALL_GATHER: 3, REDUCE: 4, BROADCAST: 4, ALL_TO_ALL: 3, SEND_RECV: 6},
        ),
        (
            shapes.bus,
            {
                ALL_REDUCE: 72,
                REDUCE_SCATTER: 36,
                ALL_GATHER: 36,
                REDUCE: 36,
                BROADCAST: 36,
                ALL_TO_ALL: 36,
                SEND_RECV: 48,
            },
        ),
        # Four pairs of 3 bytes over the wire in the middle; from 3 to 0 over all.
        (shapes.line, ENDS | {ALL_TO_ALL: 12, SEND_RECV: 12}),
        # The line 2 - 0 - 1 - 3: from 0 to 1 and from 2 to 3 over one wire.
        (shapes.tree, ENDS | {ALL_TO_ALL: 12, SEND_RECV: 24}),
    ],
)
def test_the_best_bound_of_every_collective_on_every_shape(
    shape: Callable[..., Topology], expected: dict[Collective, float]
) -> None:
    for collective, seconds in expected.items():
        assert best(collective, shape(4, bandwidth=1.0))[1] == pytest.approx(seconds, rel=1e-9), collective.name


def dumbbell(ends: int, *, neck: float = 1.0) -> Topology:
    """Two switches with `ends` ranks each, 10 B/s, and a wire between them."""
    builder = TopologyBuilder("dumbbell")
    hubs = [builder.device(f"hub{side}", "switch") for side in range(2)]
    gpus = [builder.device(f"gpu{side}{k}") for side in range(2) for k in range(ends)]
    for k, gpu in enumerate(gpus):
        builder.connect(gpu, hubs[k // ends], bandwidth=10.0)
    builder.connect(*hubs, bandwidth=neck)
    return builder.build(gpus)


@pytest.mark.parametrize(
    ("collective", "seconds"),
    [
        (ALL_REDUCE, 12),  # V each way
        (REDUCE_SCATTER, 6),  # what the three of the other side own, merged
        (ALL_GATHER, 6),  # three of six shards
        (REDUCE, 12),
        (BROADCAST, 12),
        (ALL_TO_ALL, 18),  # nine pairs of 2 bytes
        (SEND_RECV, 12),
    ],
    ids=lambda value: value.name if isinstance(value, Collective) else "",
)
def test_half_of_the_ranks_behind_one_wire(collective: Collective, seconds: float) -> None:
    assert best(collective, dumbbell(3), workers=6) == ("cut of 3 of 6 ranks", pytest.approx(seconds))
    slow_down = replace(dumbbell(3), medium_bandwidth=np.array([10.0] * 12 + [0.5, 1.0]))
    slower = seconds if collective == REDUCE else 2 * seconds
    assert best(collective, slow_down, workers=6)[1] == pytest.approx(slower), "from side 0, the root's, at 0.5 B/s"


def nodes(count: int, *, size: int = 2, in_network: bool = False) -> Topology:
    """Nodes of GPUs on a switch at 10 B/s, each on the one network switch at 1 B/s."""
    builder = TopologyBuilder("nodes")
    top = builder.device("top", "switch", in_network=in_network)
    gpus = []
    for node in range(count):
        hub = builder.device(f"hub{node}", "switch", node=node)
        builder.connect(hub, top, bandwidth=1.0)
        gpus += [builder.device(f"gpu{node}{k}", node=node) for k in range(size)]
        for gpu in gpus[-size:]:
            builder.connect(gpu, hub, bandwidth=10.0)
    return builder.build(gpus)


def test_an_all_reduce_moves_twice_the_sum_of_all_nodes_but_one() -> None:
    # 4 * V over 3 links out of the nodes.
    assert best(ALL_REDUCE, nodes(3), workers=6) == ("between 3 groups", pytest.approx(16))
    # Of one node the others may help: V must leave it.
    assert best(ALL_REDUCE, nodes(3), workers=4) == ("cut of 2 of 4 ranks", pytest.approx(12))
    assert best(ALL_REDUCE, nodes(1000), workers=2000)[1] == pytest.approx(2 * 12 * 999 / 1000)


@pytest.mark.parametrize(
    ("collective", "seconds"),
    [(ALL_GATHER, 1998 / 2000), (REDUCE_SCATTER, 1998 / 2000), (BROADCAST, 1), (REDUCE, 1), (ALL_TO_ALL, 2 * 0.999)],
    ids=lambda value: value.name if isinstance(value, Collective) else "",
)
def test_nodes_are_cut_off_however_many_there_are(collective: Collective, seconds: float) -> None:
    assert best(collective, nodes(1000), 2000, nbytes=1.0) == ("cut of 2 of 2000 ranks", pytest.approx(seconds))


def test_many_ranks_are_cut_in_half() -> None:
    # On a line of 2000, 1000 * 1000 pairs cross the wire in the middle; a ring is twice as wide.
    line, ring = (shape(2000, bandwidth=1.0) for shape in (shapes.line, shapes.ring))
    slow_back = replace(line, medium_bandwidth=np.tile([1.0, 0.25], 1999))
    for topology, seconds in ((line, 500), (ring, 250), (slow_back, 2000)):
        found = best(ALL_TO_ALL, topology, 2000, nbytes=1.0)
        assert found == ("cut of 1000 of 2000 ranks", pytest.approx(seconds))


def test_links_of_many_ranks_are_counted() -> None:
    # A torus of 21 x 21: 110/21 links on the average in each dimension, over 4 links a rank.
    name, seconds = best(ALL_TO_ALL, shapes.torus(441, bandwidth=1.0), 441, nbytes=1.0)
    assert (name, seconds) == ("all links", pytest.approx(2 * 110 / 21 / 4))


def test_shards_pass_what_is_between_two_groups() -> None:
    # Five on one side, two on the other: 1 B/s there, 2 B/s back.
    builder = TopologyBuilder("five and two")
    gpus = [builder.device(f"gpu{k}") for k in range(7)]
    for one in range(7):
        for other in range(one):
            if (one < 5) == (other < 5):
                builder.connect(gpus[one], gpus[other], bandwidth=10.0)
    for one in range(2):
        builder.link(gpus[one], gpus[one + 5], bandwidth=0.5)
        builder.link(gpus[one + 5], gpus[one], bandwidth=1.0)
    topology = builder.build(gpus)
    # An all-gather: the shards of five go there; a reduce-scatter: what the five own comes back, merged.
    assert best(ALL_GATHER, topology, 7, 7.0) == ("cut of 5 of 7 ranks", pytest.approx(5))
    assert best(REDUCE_SCATTER, topology, 7, 7.0) == ("cut of 5 of 7 ranks", pytest.approx(2.5))


def test_two_groups_may_share_what_leads_out() -> None:
    # A tree, in which the way out of two of three switches is one medium: eight of twelve shards over 0.5 B/s.
    builder = TopologyBuilder("shared way out")
    top = builder.device("top", "switch")
    shared = builder.medium("way out", 0.5)
    gpus = []
    for group in range(3):
        hub = builder.device(f"hub{group}", "switch")
        builder.link(hub, top, bandwidth=1.0 + group, media=(shared,) if group < 2 else ())
        builder.link(top, hub, bandwidth=10.0)
        gpus += [builder.device(f"gpu{group}{k}") for k in range(4)]
        for gpu in gpus[-4:]:
            builder.connect(gpu, hub, bandwidth=10.0)
    assert best(ALL_GATHER, builder.build(gpus), 12) == ("cut of 8 of 12 ranks", pytest.approx(16))


def test_pairs_find_the_best_way() -> None:
    ring = shapes.ring(6, bandwidth=1.0)
    assert best(SEND_RECV, ring, 6, 6.0) == ("best routing", pytest.approx(5))
    assert best(ALL_TO_ALL, ring, 6, 6.0) == ("all links", pytest.approx(6 * 9 / 12))
    # Four times as fast forwards: 2/7 byte of the 6 goes the five links back.
    fast_forwards = replace(ring, medium_bandwidth=np.tile([4.0, 1.0], 6))
    assert best(SEND_RECV, fast_forwards, 6, 6.0) == ("best routing", pytest.approx(5 * 2 / 7))


# Switches that reduce and multicast.


@pytest.mark.parametrize(
    ("collective", "seconds"),
    [
        (ALL_REDUCE, 12),  # V up and V down, and not 2(p - 1)/p of it
        (REDUCE_SCATTER, 9),  # what others own goes up
        (ALL_GATHER, 9),  # what others own comes down
        (REDUCE, 12),
        (BROADCAST, 12),
        (ALL_TO_ALL, 9),
        (SEND_RECV, 12),
    ],
    ids=lambda value: value.name if isinstance(value, Collective) else "",
)
def test_through_a_switch_that_reduces(collective: Collective, seconds: float) -> None:
    star = shapes.star(4, bandwidth=1.0)
    reducing = replace(star, in_network=np.arange(5) == 4)
    assert best(collective, reducing)[1] == pytest.approx(seconds)
    assert max(ports(collective, reducing)) <= max(ports(collective, star))


def test_a_network_that_reduces_spares_nodes_nothing_of_what_they_send() -> None:
    assert best(ALL_REDUCE, nodes(3, in_network=True), workers=6) == ("cut of 2 of 6 ranks", pytest.approx(12))


def test_sharp_meets_the_bound_on_its_switch() -> None:
    # In sixteen pieces, up and down: V and one piece more.
    star = shapes.star(4, bandwidth=1.0)
    reducing = replace(star, in_network=np.arange(5) == 4)
    fit = find("sharp").fit
    assert fit is not None
    fitted = fit(reducing, 4, 16.0)
    assert simulate(fitted.schedule, fitted.topology).makespan == pytest.approx(17)
    assert best(ALL_REDUCE, reducing, 4, 16.0)[1] == best(ALL_REDUCE, fitted.topology, 4, 16.0)[1] == 16


# What must be moved, and when to stop looking.


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda collective: collective.name)
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_ranks_by_themselves_need_what_the_collective_declares(collective: Collective, ranks: int) -> None:
    apart = needs(collective, np.arange(ranks, dtype=np.int32), ranks)
    assert apart.total == pytest.approx(collective.volume(ranks) if ranks > 1 else 0)
    for rank in range(1, ranks):
        assert apart.leave[rank] == pytest.approx(collective.sends(ranks))
        assert apart.enter[rank] == pytest.approx(collective.receives(ranks))


@given(st.sampled_from(COLLECTIVES), st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_needs_balance(collective: Collective, group: list[int]) -> None:
    """What is moved is what must leave or enter; together all need no more than ranks by themselves."""
    found = needs(collective, np.array(group, dtype=np.int32), 5)
    assert found.total >= max(found.leave.sum(), found.enter.sum()) - 1e-9
    assert found.total <= needs(collective, np.arange(len(group), dtype=np.int32), len(group)).total + 1e-9
    assert not found.leave[np.setdiff1d(np.arange(5), group)].any()
    assert not found.enter[np.setdiff1d(np.arange(5), group)].any()
    if len(set(group)) == 1:
        assert found.total == 0


def test_an_unknown_collective_has_no_bound() -> None:
    unknown = replace(ALL_REDUCE, name="gossip")
    assert {
        limit.per_byte + limit.fixed for limit in limits(unknown, shapes.ring(4, bandwidth=1.0, latency=1.0), 4)
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


@settings(deadline=None)
@given(st.sampled_from(COLLECTIVES), st.integers(2, 6), st.integers(0, 2**32))
def test_nothing_is_missed_by_not_looking_further(collective: Collective, ranks: int, seed: int) -> None:
    topology = random_machine(Random(seed), ranks, 0)
    shortly = max(limit.per_byte for limit in limits(collective, topology, ranks))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_is_met", lambda *_: False)
        at_length = max(limit.per_byte for limit in limits.__wrapped__(collective, topology, ranks))
    assert shortly == pytest.approx(at_length, rel=1e-9)
    task = module.Task(collective, topology, ranks)
    for share, pairs in module._plain_schedules(task):
        assert share * congestion(topology, *pairs) >= at_length * (1 - 1e-9), "no schedule is faster"


@settings(deadline=None)
@given(st.sampled_from(COLLECTIVES), st.integers(2, 6), st.integers(0, 2**32))
def test_no_set_of_devices_needs_longer(collective: Collective, ranks: int, seed: int) -> None:
    """All cuts of a small machine without shared media, each by what crosses it."""
    topology = random_machine(Random(seed), ranks, 0, media=False)
    highest = max(limit.per_byte for limit in limits(collective, topology, ranks))
    devices = len(topology.device_names)
    for subset in range(1, 2**devices - 1):
        outside = np.array([subset >> device & 1 for device in range(devices)], dtype=np.int32)
        leaving = (outside[topology.source] == 0) & (outside[topology.target] == 1)
        needed = needs(collective, outside[topology.placement[:ranks]], 2).leave[0]
        width = float(topology.bandwidth[leaving].sum())
        if needed > 0 and width < np.inf:
            assert highest * width >= needed * (1 - 1e-7)


# The law: nothing beats a bound.


@cache
def built(name: str, ranks: int) -> Schedule:
    return find(name).build(ranks, 12.0)


def check(name: str, ranks: int, topology: Topology) -> None:
    algorithm = find(name)
    seconds = simulate(built(name, ranks), topology).makespan
    for bound in bounds(algorithm.collective, topology, ranks, 12.0):
        assert bound.seconds <= seconds * (1 + 1e-9), bound


def irregular(topology: Topology, rng: np.random.Generator) -> Topology:
    def around(values: Floats) -> Floats:
        return np.asarray(values * rng.uniform(0.2, 5.0, len(values)))

    return replace(
        topology,
        latency=around(topology.latency),
        medium_gap=around(topology.medium_gap),
        medium_bandwidth=around(topology.medium_bandwidth),
        reduction=around(topology.reduction),
    )


PLAIN = [name for name in sorted(algorithms()) if not find(name).build(4, 1.0).switches]


def check_shape(name: str, shape: str, ranks: int, latency: float) -> None:
    """Regular and irregular, unless there is no such shape of so many ranks."""
    try:
        regular = shapes.SHAPES[shape](ranks + find(name).servers, bandwidth=2.0, latency=latency)
    except InputError:
        return
    check(name, ranks, regular)
    check(name, ranks, irregular(regular, np.random.default_rng(ranks)))


COUNTS = ((3, 0.0), (4, 1.0), (8, 0.0))


@pytest.mark.parametrize("name", PLAIN)
def test_no_algorithm_beats_a_bound_on_some_shapes(name: str) -> None:
    """Ranks and shapes by turns: with another algorithm a shape has other ranks."""
    for turn, shape in enumerate(shapes.SHAPES, PLAIN.index(name)):
        check_shape(name, shape, *COUNTS[turn % 3])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("shape", list(shapes.SHAPES))
def test_no_algorithm_beats_a_bound_on_any_shape(name: str, shape: str) -> None:
    for ranks, latency in COUNTS:
        check_shape(name, shape, ranks, latency)


@settings(deadline=None)
@given(st.sampled_from(PLAIN), st.sampled_from(list(shapes.SHAPES)), st.integers(2, 9), st.integers(0, 2**32))
def test_no_algorithm_beats_a_bound_with_any_parameters(name: str, shape: str, ranks: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    latency, gap, reduction = rng.exponential(size=3) * rng.integers(0, 2, 3)
    devices = ranks + find(name).servers
    if shape != "hypercube" or devices & (devices - 1) == 0:
        regular = shapes.SHAPES[shape](devices, bandwidth=1.0, latency=latency, gap=gap, reduction=reduction)
        check(name, ranks, irregular(regular, rng))


def random_machine(random: Random, ranks: int, switches: int, *, media: bool = True) -> Topology:
    """Links of several speeds, with shared media; ranks on devices of their own or together, more than are asked for;
    the last `switches` on devices that reduce."""
    builder = TopologyBuilder("random")
    names = [builder.device(f"d{k}", node=random.randint(-1, 1)) for k in range(ranks + random.randint(0, 3))]
    reducing = [builder.device(f"s{k}", "switch", in_network=True) for k in range(switches)]
    everything = names + reducing
    shared = [builder.medium(f"m{k}", random.uniform(0.3, 3)) for k in range(3 * media)]
    ends = {(random.randrange(k), k) for k in range(1, len(everything))}
    ends |= {(other, one) for one in range(len(everything)) for other in range(one) if random.random() < 0.2}
    for one, other in sorted(ends):
        for source, target in ((one, other), (other, one)):
            builder.link(
                everything[source],
                everything[target],
                bandwidth=random.choice((1.0, random.uniform(0.3, 3), float("inf"))),
                latency=random.choice((0.0, random.random())),
                media=random.sample(shared, random.choice((0, 0, 1, 2))) if media else (),
            )
    apart = random.sample(names, len(names))
    together = random.choices(names, k=ranks)
    chosen = (
        random.choice((apart[:ranks], apart, together)) if not switches else random.choice((apart[:ranks], together))
    )
    return builder.build([*chosen, *reducing])


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(sorted(algorithms())), st.integers(2, 6), st.integers(0, 2**32))
def test_no_algorithm_beats_a_bound_on_a_random_machine(name: str, ranks: int, seed: int) -> None:
    """With shared media, uneven bandwidths, ranks that help, several ranks on a device and switches that reduce."""
    schedule = find(name).build(ranks, 12.0)
    check(name, ranks, random_machine(Random(seed), schedule.ranks - schedule.switches, schedule.switches))
