"""Gloo's operations: segments round a ring and what goes straight to its rank, sent when the
receiver is ready."""

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import tries
from simulator.collectives import find
from simulator.collectives.collective import ALL_REDUCE, DECLARED, REDUCE, Algorithm
from simulator.collectives.gloo import gloo_ring_all_reduce, gloo_ring_reduce, segments
from simulator.cost_models.fabric import observe
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.rendezvous import rendezvous
from simulator.schedules.timeline import Timeline
from topologies.link import Link
from topologies.shapes import SHAPES, full_mesh, star
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

Places = npt.NDArray[np.intp]
COST = find("gloo_ring").cost
GLOO = [*DECLARED["simulator.collectives.gloo"].values()]
any_ranks, any_segments = st.integers(2, 9), st.integers(2, 5)


@given(any_ranks, any_segments, st.integers(0, 1000))
def test_it_is_an_all_reduce_whatever_the_segments(ranks: int, segments: int, seed: int) -> None:
    schedule = gloo_ring_all_reduce(ranks, 64.0, segments=segments)
    semantics.check(schedule, ALL_REDUCE, seed)
    assert schedule.volume == pytest.approx(2 * (ranks - 1) * 64.0)
    assert schedule.steps == 4 * -(-segments * (ranks - 1) // 2)


def test_two_ranks_by_hand() -> None:
    # 1 s to say ready, then two segments of 3 s after each other and 1 s on the way; and so again
    # for the all-gather.
    time = simulate(gloo_ring_all_reduce(2, 12.0), star(2, bandwidth=1.0, latency=0.5)).makespan
    assert time == 2 * (1 + 3 + 3 + 1)


@pytest.mark.parametrize(("name", "plain"), [("all_to_all", "pairwise"), ("send_recv", "shift")])
def test_what_goes_straight_takes_the_time_of_any_messages_by_rendezvous(
    name: str, plain: str
) -> None:
    for shape, ranks in product(("star", "ring", "bus", "nodes"), (2, 5, 8)):
        topology = SHAPES[shape](ranks, bandwidth=1e9, latency=3e-4, gap=2e-3, reduction=3e-9)
        schedules = (
            find(f"gloo_{name}").build(ranks, 1e6),
            rendezvous(find(plain).build(ranks, 1e6)),
        )
        straight, general = (simulate(schedule, topology).makespan for schedule in schedules)
        assert straight == general, (shape, ranks)


@pytest.mark.parametrize("algorithm", GLOO, ids=lambda algorithm: algorithm.name)
@given(st.integers(3, 9), st.floats(0, 1e-2), st.floats(0, 1e-2), st.floats(1e3, 1e9))
@tries(6, 25)
def test_where_signals_have_wires_of_their_own_each_takes_its_closed_form(
    algorithm: Algorithm, ranks: int, latency: float, gap: float, nbytes: float
) -> None:
    """On a mesh data go one way and signals the other."""
    mesh = full_mesh(ranks, bandwidth=1e9, latency=latency, gap=gap)
    timeline = simulate(algorithm.build(ranks, nbytes), mesh)
    assert timeline.makespan == pytest.approx(
        algorithm.cost.time(observe(timeline.routed), ranks, nbytes), rel=1e-9
    )


@pytest.mark.parametrize("name", ["broadcast", "scatter", "gather", "all_to_all", "send_recv"])
@given(st.integers(2, 9), st.floats(0, 1e-2), st.floats(1e3, 1e9))
@tries(6, 25)
def test_what_goes_straight_takes_its_closed_form_through_a_switch_too(
    name: str, ranks: int, latency: float, nbytes: float
) -> None:
    algorithm = find(f"gloo_{name}")
    timeline = simulate(algorithm.build(ranks, nbytes), star(ranks, bandwidth=1e9, latency=latency))
    assert timeline.makespan == pytest.approx(
        algorithm.cost.time(observe(timeline.routed), ranks, nbytes), rel=1e-9
    )


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_broadcast_to_all_children_at_once_takes_half_as_many_messages_more_as_there_are_levels(
    levels: int,
) -> None:
    """Level by level the root's port carries L, L - 1, ... copies side by side: L(L + 1)/2 messages
    instead of L."""
    ranks = 1 << levels
    timeline = simulate(
        find("gloo_broadcast").build(ranks, 1.0), star(ranks, bandwidth=1.0), sharing="fair"
    )
    assert timeline.makespan == pytest.approx(levels * (levels + 1) / 2)


def test_a_broadcast_goes_from_r_to_r_and_a_power_of_two() -> None:
    tree = find("gloo_broadcast").build(6, 1.0)
    data = tree.source >= 0
    assert [*zip(tree.rank[data].tolist(), tree.peer[data].tolist(), strict=True)] == [
        *((0, 1), (0, 2), (1, 3)),
        *((0, 4), (1, 5)),
    ]


def test_segments_have_at_most_a_mebibyte_and_a_chunk_two_of_them() -> None:
    assert [segments(4, mebibytes * 2.0**20) for mebibytes in (1e-6, 8, 8.1, 16, 17)] == [
        2,
        2,
        3,
        4,
        5,
    ]


@given(any_ranks, st.integers(2, 5), st.integers(0, 1000))
def test_a_reduce_of_long_chunks_sends_all_segments_but_two_once_too_often(
    ranks: int, parts: int, seed: int
) -> None:
    schedule = gloo_ring_reduce(ranks, 60.0, segments=parts)
    semantics.check(schedule, REDUCE, seed)
    needed = (ranks - 1) * 60 * (1 + 1 / ranks)
    assert schedule.volume == pytest.approx(needed + 60 * (parts - 2) / parts)


def test_through_a_switch_signals_wait_behind_whole_segments() -> None:
    timeline = simulate(gloo_ring_all_reduce(4, 8e6), star(4, bandwidth=1e9, latency=1e-4))
    formula = COST.time(observe(timeline.routed), 4, 8e6)
    assert formula * 1.01 < timeline.makespan < formula * 1.5
    assert COST.holds(observe(timeline.routed)) == "ready signals wait behind data"


def uneven(seed: int, ranks: int) -> Topology:
    """Links of one switch that differ in bandwidth and latency, and ranks that merge slowly."""
    rng = np.random.default_rng(seed)
    builder = TopologyBuilder("uneven")
    switch = builder.device("switch", "switch")
    gpus = [
        builder.device(f"gpu{rank}", reduction=float(rng.integers(0, 3))) for rank in range(ranks)
    ]
    for gpu in gpus:
        builder.connect(gpu, switch, Link(float(rng.integers(1, 9)), float(rng.integers(0, 9))))
    return builder.build(gpus)


def messages(timeline: Timeline) -> tuple[Places, Places]:
    """The ready signals, and the data that each of them lets go: the next that goes the other
    way."""
    schedule = timeline.schedule
    ready, data = (np.flatnonzero((schedule.source < 0) == signals) for signals in (True, False))
    ranks = schedule.ranks
    released = data.reshape(-1, ranks)[:, (np.arange(ranks) + 1) % ranks].ravel()
    assert np.array_equal(schedule.peer[released], schedule.rank[ready])
    return ready, released


@given(st.integers(0, 1000), any_ranks, any_segments)
def test_data_leave_when_the_receiver_is_ready_and_it_has_two_inboxes(
    seed: int, ranks: int, segments: int
) -> None:
    timeline = simulate(gloo_ring_all_reduce(ranks, 32.0, segments=segments), uneven(seed, ranks))
    schedule = timeline.schedule
    ready, data = messages(timeline)
    for signal, released in zip(ready.tolist(), data.tolist(), strict=True):
        assert signal in schedule.predecessors(released)
        assert timeline.start[released] >= timeline.finish[signal]
    for rank in range(ranks):
        mine = schedule.rank[ready] == rank
        posted, filled = timeline.ready[ready[mine]], timeline.finish[data[mine]]
        assert np.all(posted[2:] >= filled[:-2])


@given(any_ranks, any_segments)
def test_the_all_gather_is_posted_when_the_reduce_scatter_is_done(
    ranks: int, segments: int
) -> None:
    timeline = simulate(gloo_ring_all_reduce(ranks, 32.0, segments=segments), uneven(ranks, ranks))
    schedule = timeline.schedule
    gathers = schedule.phase == schedule.phases.index("all-gather")
    for rank in range(ranks):
        ends = timeline.finish[
            ~gathers & (schedule.source >= 0) & ((schedule.rank == rank) | (schedule.peer == rank))
        ]
        assert timeline.ready[gathers & (schedule.rank == rank)].min() >= ends.max()
