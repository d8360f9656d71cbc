"""The best bound on every shape and on machines of nodes, by hand."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from best_bounds import best, ports
from grouped_cases import each_case
from simulator.collectives import find
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
from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

# The best bound on every shape: V = 12, 1 B/s a link.

RING = {ALL_REDUCE: 9.0, REDUCE_SCATTER: 4.5, ALL_GATHER: 4.5, REDUCE: 6.0, BROADCAST: 6.0}
PORT = {ALL_REDUCE: 18.0, REDUCE_SCATTER: 9.0, ALL_GATHER: 9.0, REDUCE: 12.0, BROADCAST: 12.0}
ENDS = {ALL_REDUCE: 12.0, REDUCE_SCATTER: 9.0, ALL_GATHER: 9.0, REDUCE: 12.0, BROADCAST: 12.0}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        # Pairs: 16 links for 3 bytes each over 8; and a quarter of what goes to the next rank goes
        # the other way round.
        (shapes.ring, RING | {ALL_TO_ALL: 6, SEND_RECV: 9}),
        # The same ring, ranks in another order: 0 and 2 send 24 to 1 and 3 over two wires.
        (shapes.grid, RING | {ALL_TO_ALL: 6, SEND_RECV: 12}),
        (shapes.torus, RING | {ALL_TO_ALL: 6, SEND_RECV: 12}),
        (shapes.hypercube, RING | {ALL_TO_ALL: 6, SEND_RECV: 12}),
        (shapes.star, PORT | {ALL_TO_ALL: 9, SEND_RECV: 12}),
        (shapes.full_mesh_one_port, PORT | {ALL_TO_ALL: 9, SEND_RECV: 12}),
        (shapes.leaf_spine, PORT | {ALL_TO_ALL: 9, SEND_RECV: 12}),
        (shapes.fat_tree, PORT | {ALL_TO_ALL: 9, SEND_RECV: 12}),
        # Half of what goes to the next rank goes by way of the two others, over two wires: 4 * (6 +
        # 2 * 6) over 12.
        (
            shapes.full_mesh,
            {
                ALL_REDUCE: 6,
                REDUCE_SCATTER: 3,
                ALL_GATHER: 3,
                REDUCE: 4,
                BROADCAST: 4,
                ALL_TO_ALL: 3,
                SEND_RECV: 6,
            },
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
        assert best(collective, shape(4, bandwidth=1.0))[1] == pytest.approx(seconds, rel=1e-9), (
            collective.name
        )


def dumbbell(ends: int, *, neck: float = 1.0) -> Topology:
    """Two switches with `ends` ranks each, 10 B/s, and a wire between them."""
    builder = TopologyBuilder("dumbbell")
    hubs = [builder.device(f"hub{side}", "switch") for side in range(2)]
    gpus = [builder.device(f"gpu{side}{k}") for side in range(2) for k in range(ends)]
    for k, gpu in enumerate(gpus):
        builder.connect(gpu, hubs[k // ends], Link(10.0))
    builder.connect(hubs[0], hubs[1], Link(neck))
    return builder.build(gpus)


@each_case(
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
)
def test_half_of_the_ranks_behind_one_wire(collective: Collective, seconds: float) -> None:
    assert best(collective, dumbbell(3), workers=6) == (
        "cut of 3 of 6 ranks",
        pytest.approx(seconds),
    )
    slow_down = replace(dumbbell(3), medium_bandwidth=np.array([10.0] * 12 + [0.5, 1.0]))
    slower = seconds if collective == REDUCE else 2 * seconds
    assert best(collective, slow_down, workers=6)[1] == pytest.approx(slower), (
        "from side 0, the root's, at 0.5 B/s"
    )


def nodes(count: int, *, size: int = 2, in_network: bool = False) -> Topology:
    """Nodes of GPUs on a switch at 10 B/s, each on the one network switch at 1 B/s."""
    builder = TopologyBuilder("nodes")
    top = builder.device("top", "switch", in_network=in_network)
    gpus = []
    for node in range(count):
        hub = builder.device(f"hub{node}", "switch", node=node)
        builder.connect(hub, top, Link(1.0))
        gpus += [builder.device(f"gpu{node}{k}", node=node) for k in range(size)]
        for gpu in gpus[-size:]:
            builder.connect(gpu, hub, Link(10.0))
    return builder.build(gpus)


@pytest.mark.parametrize(
    ("collective", "seconds"),
    [
        (ALL_GATHER, 1998 / 2000),
        (REDUCE_SCATTER, 1998 / 2000),
        (BROADCAST, 1),
        (REDUCE, 1),
        (ALL_TO_ALL, 2 * 0.999),
    ],
    ids=lambda value: value.name if isinstance(value, Collective) else "",
)
def test_nodes_are_cut_off_however_many_there_are(collective: Collective, seconds: float) -> None:
    assert best(collective, nodes(1000), 2000, nbytes=1.0) == (
        "cut of 2 of 2000 ranks",
        pytest.approx(seconds),
    )


def test_many_ranks_are_cut_in_half() -> None:
    # On a line of 2000, 1000 * 1000 pairs cross the wire in the middle; a ring is twice as wide.
    line, ring = (shape(2000, bandwidth=1.0) for shape in (shapes.line, shapes.ring))
    slow_back = replace(line, medium_bandwidth=np.tile([1.0, 0.25], 1999))
    for topology, seconds in ((line, 500), (ring, 250), (slow_back, 2000)):
        bound = best(ALL_TO_ALL, topology, 2000, nbytes=1.0)
        assert bound == ("cut of 1000 of 2000 ranks", pytest.approx(seconds))


@pytest.mark.parametrize(
    ("collective", "seconds"), [(BROADCAST, 10), (REDUCE, 100), (ALL_REDUCE, 100)]
)
def test_the_halves_of_many_ranks_are_cut_in_the_direction_of_the_data(
    collective: Collective, seconds: float
) -> None:
    # Of a ring of 2000 two wires on opposite sides are slow: 0.05 B/s from the root's half, and
    # 0.005 B/s back to it.
    ring = shapes.ring(2000, bandwidth=1.0)
    first = (ring.source < 1000).astype(int) - (ring.target < 1000).astype(int)
    slow = replace(ring, medium_bandwidth=np.select([first > 0, first < 0], [0.05, 0.005], 1.0))
    assert best(collective, slow, 2000, nbytes=1.0)[1] == pytest.approx(seconds)


def test_links_of_many_ranks_are_counted() -> None:
    # A torus of 21 x 21: 110/21 links on the average in each dimension, over 4 links a rank.
    name, seconds = best(ALL_TO_ALL, shapes.torus(441, bandwidth=1.0), 441, nbytes=1.0)
    assert (name, seconds) == ("all links", pytest.approx(2 * 110 / 21 / 4))


def test_pairs_find_the_best_way() -> None:
    ring = shapes.ring(6, bandwidth=1.0)
    assert best(SEND_RECV, ring, 6, 6.0) == ("best routing", pytest.approx(5))
    assert best(ALL_TO_ALL, ring, 6, 6.0) == ("all links", pytest.approx(6 * 9 / 12))
    # Four times as fast forwards: 2/7 byte of the 6 goes the five links back.
    fast_forwards = replace(ring, medium_bandwidth=np.tile([4.0, 1.0], 6))
    assert best(SEND_RECV, fast_forwards, 6, 6.0) == ("best routing", pytest.approx(5 * 2 / 7))


# Switches that reduce and multicast.


@each_case(
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
)
def test_through_a_switch_that_reduces(collective: Collective, seconds: float) -> None:
    star = shapes.star(4, bandwidth=1.0)
    reducing = replace(star, in_network=np.arange(5) == 4)
    assert best(collective, reducing)[1] == pytest.approx(seconds)
    assert max(ports(collective, reducing)) <= max(ports(collective, star))


def test_sharp_meets_the_bound_on_its_switch() -> None:
    # In sixteen pieces, up and down: V and one piece more.
    star = shapes.star(4, bandwidth=1.0)
    reducing = replace(star, in_network=np.arange(5) == 4)
    fit = find("sharp").fit
    assert fit is not None
    fitted = fit(reducing, 4, 16.0)
    assert simulate(fitted.schedule, fitted.topology).makespan == pytest.approx(17)
    assert (
        best(ALL_REDUCE, reducing, 4, 16.0)[1]
        == best(ALL_REDUCE, fitted.topology, 4, 16.0)[1]
        == 16
    )
