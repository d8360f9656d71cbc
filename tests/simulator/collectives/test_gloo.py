"""Gloo's ring: segments that are sent when their receiver is ready."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import semantics
from simulator.collectives import find
from simulator.collectives.collective import ALL_REDUCE
from simulator.collectives.gloo import gloo_ring_all_reduce
from simulator.engines import simulate
from simulator.fabric import observe
from simulator.timeline import Timeline
from topologies.builder import TopologyBuilder
from topologies.shapes import full_mesh, star
from topologies.topology import Topology

Places = npt.NDArray[np.intp]
COST = find("gloo_ring").cost
any_ranks, any_segments = st.integers(2, 9), st.integers(2, 5)


@given(any_ranks, any_segments, st.integers(0, 1000))
def test_it_is_an_all_reduce_whatever_the_segments(ranks: int, segments: int, seed: int) -> None:
    schedule = gloo_ring_all_reduce(ranks, 64.0, segments=segments)
    semantics.check(schedule, ALL_REDUCE, seed)
    assert schedule.volume == pytest.approx(2 * (ranks - 1) * 64.0)
    assert schedule.steps == 4 * -(-segments * (ranks - 1) // 2)


def test_two_ranks_by_hand() -> None:
    # 1 s to say ready, then two segments of 3 s after each other and 1 s on the way; and so again for the all-gather.
    time = simulate(gloo_ring_all_reduce(2, 12.0), star(2, bandwidth=1.0, latency=0.5)).makespan
    assert time == 2 * (1 + 3 + 3 + 1)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_a_small_step_costs_two_latencies(ranks: int) -> None:
    schedule = gloo_ring_all_reduce(ranks, 1.0)
    assert simulate(schedule, star(ranks, bandwidth=float("inf"), latency=0.5)).makespan == 2 * (ranks - 1) * 2


@given(st.integers(3, 9), st.floats(0, 1e-2), st.floats(0, 1e-2), st.floats(1e3, 1e9))
def test_where_signals_have_wires_of_their_own_it_takes_its_closed_form(
    ranks: int, latency: float, gap: float, nbytes: float
) -> None:
    """On a mesh data go one way and signals the other."""
    mesh = full_mesh(ranks, bandwidth=1e9, latency=latency, gap=gap)
    timeline = simulate(gloo_ring_all_reduce(ranks, nbytes), mesh)
    assert timeline.makespan == pytest.approx(COST.time(observe(timeline.routed), ranks, nbytes), rel=1e-9)


def test_through_a_switch_signals_wait_behind_whole_segments() -> None:
    timeline = simulate(gloo_ring_all_reduce(4, 8e6), star(4, bandwidth=1e9, latency=1e-4))
    formula = COST.time(observe(timeline.routed), 4, 8e6)
    assert formula * 1.01 < timeline.makespan < formula * 1.5
    assert COST.holds(observe(timeline.routed)) == "ready signals wait behind data"


def test_enough_bytes_make_it_the_ring() -> None:
    slow = star(4, bandwidth=1e9, latency=1e-6)
    gloo, ring = (simulate(find(name).build(4, 2.0**30), slow).makespan for name in ("gloo_ring", "ring"))
    assert ring < gloo < 1.001 * ring


def uneven(seed: int, ranks: int) -> Topology:
    """Links of one switch that differ in bandwidth and latency, and ranks that merge slowly."""
    rng = np.random.default_rng(seed)
    builder = TopologyBuilder("uneven")
    switch = builder.device("switch", "switch")
    gpus = [builder.device(f"gpu{rank}", reduction=float(rng.integers(0, 3))) for rank in range(ranks)]
    for gpu in gpus:
        builder.connect(gpu, switch, bandwidth=float(rng.integers(1, 9)), latency=float(rng.integers(0, 9)))
    return builder.build(gpus)


def messages(timeline: Timeline) -> tuple[Places, Places]:
    """The ready signals, and the data that each of them lets go: the next that goes the other way."""
    schedule = timeline.schedule
    ready, data = (np.flatnonzero((schedule.source < 0) == signals) for signals in (True, False))
    ranks = schedule.ranks
    released = data.reshape(-1, ranks)[:, (np.arange(ranks) + 1) % ranks].ravel()
    assert np.array_equal(schedule.peer[released], schedule.rank[ready])
    return ready, released


@given(st.integers(0, 1000), any_ranks, any_segments)
def test_data_leave_when_the_receiver_is_ready_and_it_has_two_inboxes(seed: int, ranks: int, segments: int) -> None:
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
def test_the_all_gather_is_posted_when_the_reduce_scatter_is_done(ranks: int, segments: int) -> None:
    timeline = simulate(gloo_ring_all_reduce(ranks, 32.0, segments=segments), uneven(ranks, ranks))
    schedule = timeline.schedule
    gathers = schedule.phase == schedule.phases.index("all-gather")
    for rank in range(ranks):
        ends = timeline.finish[~gathers & (schedule.source >= 0) & ((schedule.rank == rank) | (schedule.peer == rank))]
        assert timeline.ready[gathers & (schedule.rank == rank)].min() >= ends.max()
