"""Bounds: what no schedule can beat, and none does."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.bounds import best_bound, bounds, port_groups
from simulator.collectives import algorithms, find
from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    REDUCE,
    REDUCE_SCATTER,
    SEND_RECV,
    Collective,
)
from simulator.engines import simulate
from topologies import shapes
from topologies.builder import TopologyBuilder
from topologies.topology import Floats, Topology


def limits(collective: Collective, topology: Topology, workers: int = 4, nbytes: float = 12.0) -> list[float]:
    """Seconds of the bounds: latency, injection port, ejection port, all ports."""
    found = bounds(collective, topology, workers, nbytes)
    assert [bound.name for bound in found] == ["latency", "injection port", "ejection port", "all ports"]
    return [bound.seconds for bound in found]


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
    assert limits(ALL_REDUCE, shape(4, bandwidth=1.0, latency=1.0)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("collective", "expected"),
    [
        (ALL_REDUCE, [2, 12, 12, 18]),
        # A rank gives away 3/4 of its input and gets at least 1/4 of V, its result; 3 V in all.
        (REDUCE_SCATTER, [2, 9, 3, 9]),
        (ALL_GATHER, [2, 3, 9, 9]),
        # Whoever is not the root gives V or gets V.
        (REDUCE, [2, 12, 0, 9]),
        (BROADCAST, [2, 0, 12, 9]),
        (ALL_TO_ALL, [2, 9, 9, 9]),
        (SEND_RECV, [2, 12, 12, 12]),
    ],
    ids=lambda value: value.name if isinstance(value, Collective) else "",
)
def test_every_collective_through_a_star(collective: Collective, expected: list[float]) -> None:
    assert limits(collective, shapes.star(4, bandwidth=1.0, latency=1.0)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("collective", "seconds"),
    [(ALL_REDUCE, 4), (ALL_TO_ALL, 4), (REDUCE, 4), (BROADCAST, 4), (SEND_RECV, 4)],
    ids=lambda value: value.name if isinstance(value, Collective) else "",
)
def test_on_a_line_something_must_travel_from_end_to_end(collective: Collective, seconds: float) -> None:
    assert limits(collective, shapes.line(5, bandwidth=1.0, latency=1.0), workers=5)[0] == seconds


def test_a_rooted_collective_counts_its_latency_from_the_root() -> None:
    # The root in the middle: 1 and 3 hops to the ends, 4 from end to end.
    line = shapes.line(5, bandwidth=1.0, latency=1.0)
    centred = replace(line, placement=np.array([1, 0, 2, 3, 4], dtype=np.int32))
    assert limits(BROADCAST, centred, workers=5)[0] == 3
    assert limits(REDUCE, centred, workers=5)[0] == 3
    assert limits(ALL_GATHER, centred, workers=5)[0] == 4
    assert limits(SEND_RECV, centred, workers=5)[0] == 3, "from the end to the root: 4 hops to the right, 3 back"


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
    assert limits(ALL_REDUCE, uneven_star(slow=2)) == pytest.approx([4, 48, 48, 72 / 3.25])
    assert best_bound(ALL_REDUCE, uneven_star(slow=2), 4, 12.0).name == "injection port"
    assert limits(BROADCAST, uneven_star(slow=2)) == pytest.approx([4, 0, 48, 36 / 3.25])


def test_the_root_of_a_broadcast_need_not_receive() -> None:
    assert limits(BROADCAST, uneven_star(slow=0)) == pytest.approx([4, 0, 12, 36 / 3.25])
    assert limits(REDUCE, uneven_star(slow=0)) == pytest.approx([4, 12, 0, 36 / 3.25])


def test_only_workers_must_send_but_servers_may_help() -> None:
    # A fifth device on the star adds a port to all, and no worker.
    topology = shapes.star(5, bandwidth=1.0, latency=1.0)
    assert limits(ALL_REDUCE, topology, workers=4) == pytest.approx([2, 12, 12, 72 / 5])


def test_a_half_duplex_wire_counts_once_a_direction() -> None:
    builder = TopologyBuilder("half duplex")
    one, other = builder.device("one"), builder.device("other")
    wire = builder.medium("wire", 1.0)
    builder.link(one, other, bandwidth=2.0, media=(wire,))
    builder.link(other, one, bandwidth=2.0, media=(wire,))
    # 24 bytes in all cross one wire of 1 B/s, whoever sends.
    assert limits(ALL_REDUCE, builder.build([one, other]), workers=2) == [0, 12, 12, 24]


def test_the_best_bound_is_the_highest() -> None:
    star = shapes.star(4, bandwidth=1.0, latency=1.0)
    assert best_bound(ALL_REDUCE, star, 4, 12.0) == ("all ports", 18.0)
    assert best_bound(ALL_REDUCE, star, 4, 1e-3) == ("latency", 2.0)


def test_ports_are_listed_by_rank() -> None:
    topology = shapes.line(3, bandwidth=1.0)
    names = topology.medium_names
    leaving = [[names[k] for k in links] for links in port_groups(topology, topology.source)]
    assert leaving == [["gpu0->gpu1"], ["gpu1->gpu0", "gpu1->gpu2"], ["gpu2->gpu1"]]


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
    assert max(limits(ALL_REDUCE, topology)) <= seconds


def test_ranks_on_one_device_alone_have_no_bound() -> None:
    builder = TopologyBuilder("one device")
    builder.device("a")
    topology = builder.build(["a", "a"])
    assert simulate(find("ring").build(2, 12.0), topology).makespan == 0
    assert limits(ALL_REDUCE, topology, workers=2) == [0, 0, 0, 0]


def test_a_rank_beside_the_root_is_spared_as_the_root_is() -> None:
    # Ranks 0 and 1 share a device that sends slowly: neither has to send.
    slow = TopologyBuilder("slow root")
    for name in ("a", "b"):
        slow.device(name)
    slow.link("a", "b", bandwidth=1 / 8)
    slow.link("b", "a", bandwidth=1.0)
    sends_slowly = slow.build(["a", "a", "b"])
    assert simulate(find("tree_reduce").build(3, 12.0), sends_slowly).makespan == 12
    assert max(limits(REDUCE, sends_slowly, workers=3)) <= 12


def test_a_broadcast_needs_no_way_back() -> None:
    # 0 -> 1 -> 2 and nothing leads back: twice 12 s and a latency.
    builder = TopologyBuilder("one way")
    gpus = [builder.device(f"gpu{rank}") for rank in range(3)]
    builder.link("gpu0", "gpu1", bandwidth=1.0, latency=1.0)
    builder.link("gpu1", "gpu2", bandwidth=1.0, latency=1.0)
    topology = builder.build(gpus)
    assert simulate(find("tree_broadcast").build(3, 12.0), topology).makespan == 26
    assert limits(BROADCAST, topology, workers=3) == [2, 0, 12, 12]


# The law: nothing beats a bound.


def check(name: str, ranks: int, topology: Topology) -> None:
    algorithm = find(name)
    seconds = simulate(algorithm.build(ranks, 12.0), topology).makespan
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


@pytest.mark.parametrize("name", sorted(algorithms()))
@pytest.mark.parametrize("shape", list(shapes.SHAPES.values()))
@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_no_algorithm_beats_a_bound_on_any_shape(name: str, shape: Callable[..., Topology], ranks: int) -> None:
    servers = find(name).servers
    for latency, gap in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)):
        regular = shape(ranks + servers, bandwidth=2.0, latency=latency, gap=gap)
        check(name, ranks, regular)
        check(name, ranks, irregular(regular, np.random.default_rng(ranks)))


@given(
    st.sampled_from(sorted(algorithms())),
    st.sampled_from(list(shapes.SHAPES.values())),
    st.integers(2, 9),
    st.integers(0, 2**32),
)
def test_no_algorithm_beats_a_bound_with_any_parameters(
    name: str, shape: Callable[..., Topology], ranks: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    latency, gap, reduction = rng.exponential(size=3) * rng.integers(0, 2, 3)
    regular = shape(ranks + find(name).servers, bandwidth=1.0, latency=latency, gap=gap, reduction=reduction)
    check(name, ranks, irregular(regular, rng))


@given(st.sampled_from(sorted(algorithms())), st.integers(2, 6), st.integers(0, 2**32))
def test_no_algorithm_beats_a_bound_on_a_machine_with_shared_media_and_devices(
    name: str, ranks: int, seed: int
) -> None:
    random = Random(seed)
    builder = TopologyBuilder("random")
    needed = ranks + find(name).servers
    names = [builder.device(f"d{k}") for k in range(needed + random.randint(0, 3))]
    shared = [builder.medium(f"m{k}", random.uniform(0.3, 3)) for k in range(3)]
    ends = {(random.randrange(k), k) for k in range(1, len(names))}
    ends |= {
        (one, other)
        for one in range(len(names))
        for other in range(one)
        if random.random() < 0.2 and (other, one) not in ends
    }
    for one, other in sorted(ends):
        for source, target in ((one, other), (other, one)):
            builder.link(
                names[source],
                names[target],
                bandwidth=random.choice((1.0, random.uniform(0.3, 3), float("inf"))),
                latency=random.choice((0.0, random.random())),
                media=random.sample(shared, random.choice((0, 0, 1, 2))),
            )
    check(name, ranks, builder.build(random.sample(names, needed)))
    check(name, ranks, builder.build(random.choices(names, k=needed)))
