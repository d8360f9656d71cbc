"""Times that can be worked out by hand, on machines whose links carry 1 B/s."""

from functools import partial

import pytest

from grouped_cases import each_case
from simulator.collectives import find
from simulator.engines import simulate
from topologies import shapes
from topologies.topology import Topology

star, mesh = partial(shapes.star, bandwidth=1.0), partial(shapes.full_mesh, bandwidth=1.0)
instant = partial(shapes.star, bandwidth=float("inf"), latency=0.5)
routes = partial(star, latency=0.5)
"""A route is 1 s long."""


@each_case(
    ("name", "machine", "nbytes", "seconds"),
    [
        # Pieces of 10 s: the root sends 8, the last is through at 81 s; rank 2 passes it on to 5,
        # then to 6.
        ("binary_tree_broadcast:segments=4", routes(7), 40.0, 81.0 + 20.0 + 1.0),
        ("k_nomial_broadcast:radix=2", routes(16), 1.0, 8.0),
        ("tree_broadcast", routes(16), 1.0, 8.0),
        # 16 ranks, radix 4: two levels of 1 s and a latency of 0.5 s. Of 4 ranks the root has three
        # children, and sends 2 segments of half a second to each.
        ("k_nomial_broadcast", mesh(16, latency=0.5), 1.0, 3.0),
        ("k_nomial_broadcast:segments=2", star(4), 1.0, 3.0),
        # 4 routes; pieces of 10 s, 4 + 3 of them one after the other.
        ("chain_broadcast:segments=4", routes(5), 40.0, 4 * 1.0 + 7 * 10.0),
        ("chain_reduce:segments=4", routes(5), 40.0, 4 * 1.0 + 7 * 10.0),
        # 2 pieces of 10 s to send and 30 s to merge: 2 (10 + 30), then 30 for the other.
        ("chain_reduce:segments=2", star(3, reduction=3.0), 20.0, 110.0),
        # Flags and reads take 1 s of latency each; with a port for each peer all is read at once.
        ("one_shot", routes(4), 4.0, 2 + 12),
        ("two_shot", routes(4), 4.0, 4 + 6),
        ("one_shot", mesh(4, latency=1.0), 4.0, 2 + 4),
        ("two_shot", mesh(4, latency=1.0), 4.0, 4 + 2),
        # A window of all messages waits for none. One by one, each of six takes 1 s for the route
        # and 1 s for its bytes.
        ("pairwise_sync:window=6", routes(7), 7.0, 7.0),
        ("pairwise_sync", routes(7), 7.0, 12.0),
        # Long messages cross a port twice, short ones take the latencies of both phases; who folds
        # gets V at the end.
        ("scatter_allgather_broadcast", star(8), 8.0, 14.0),
        ("scatter_allgather_ring_broadcast", star(8), 8.0, 14.0),
        ("scatter_allgather_broadcast", instant(8), 1.0, 6.0),
        ("scatter_allgather_ring_broadcast", instant(8), 1.0, 10.0),
        ("scatter_allgather_broadcast", star(5), 4.0, 10.0),
        # 8 s up and 8 s down, one step of which waits.
        ("double_tree", star(2), 16.0, 16.0),
        # An incast waits at the receiver's port; a pull takes a request more than a push.
        ("incast", routes(5), 10.0, 41.0),
        ("push", mesh(4, latency=2.0), 10.0, 12.0),
        ("pull", mesh(4, latency=2.0), 10.0, 14.0),
        # Twice 1 s to say ready and 1 s on the way, 16 s in two segments' halves, then 8 at once.
        ("gloo_reduce", routes(2), 8.0, 2 + 4 + 2 + 4),
        # Shards on all workers are as fast as a ring.
        ("sharded_parameter_server", star(8), 8.0, 14.0),
        ("sharded_parameter_server:shards=1", star(8), 8.0, 112.0),
        ("ring", star(8), 8.0, 14.0),
        ("ring", shapes.ring(8, bandwidth=1.0), 8.0, 14.0),
        ("ring:ways=2", shapes.ring(8, bandwidth=1.0), 8.0, 7.0),
    ],
)
def test_these_take_the_time_by_hand(
    name: str, machine: Topology, nbytes: float, seconds: float
) -> None:
    schedule = find(name).build(machine.ranks, nbytes)
    assert simulate(schedule, machine).makespan == seconds


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("recursive_doubling_all_gather", {2: 1, 3: 3, 4: 2, 5: 4, 8: 3, 9: 5, 16: 4}),
        ("recursive_halving_reduce_scatter", {2: 1, 3: 3, 4: 2, 5: 4, 8: 3, 9: 5, 16: 4}),
        ("neighbor_exchange", {2: 1, 3: 2, 4: 2, 6: 3, 7: 6, 8: 4, 16: 8}),
    ],
)
def test_a_small_message_takes_a_latency_a_step(name: str, steps: dict[int, int]) -> None:
    times = {p: simulate(find(name).build(p, 1.0), instant(p)).makespan for p in steps}
    assert times == steps
