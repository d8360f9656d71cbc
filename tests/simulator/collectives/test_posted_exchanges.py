"""Posted exchanges by hand, and slots of unequal sizes."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.analysis import memory
from simulator.analysis.bounds import best_bound
from simulator.collectives import find
from simulator.collectives.roots import from_root
from simulator.engines import simulate
from topologies.shapes import SHAPES, full_mesh, nodes, star


def test_an_incast_waits_at_the_receivers_port() -> None:
    machine = star(5, bandwidth=1.0, latency=0.5)
    assert simulate(find("incast").build(5, 10.0), machine).makespan == 41.0


def test_a_pull_takes_a_request_more_than_a_push() -> None:
    machine = full_mesh(4, bandwidth=1.0, latency=2.0)
    push, pull = (
        simulate(find(name).build(4, 10.0), machine).makespan for name in ("push", "pull")
    )
    assert (push, pull) == (12.0, 14.0)


def test_a_push_from_another_root_goes_to_the_next_rank() -> None:
    schedule = from_root(find("push"), 3).build(4, 10.0)
    assert (schedule.rank.tolist(), schedule.peer.tolist()) == ([3], [0])
    assert schedule.shares.tolist() == [[0, 1], [0, 0], [0, 0], [1, 0]]


def test_ranks_hold_what_they_send_and_receive() -> None:
    schedule = find("incast").build(4, 10.0)
    usage = memory.trace(schedule, simulate(schedule, star(4, bandwidth=1.0)))
    assert usage.peaks.tolist() == [30.0, 10.0, 10.0, 10.0]
    assert usage.peak_redundant == 30.0


@pytest.mark.parametrize("name", ["halo", "neighbors"])
def test_neighbors_on_their_own_grid_wait_for_nobody(name: str) -> None:
    machine = SHAPES["torus" if name == "neighbors" else "grid"](16, bandwidth=1.0)
    algorithm = find(name)
    makespan = simulate(algorithm.build(16, 16.0), machine).makespan
    assert makespan == best_bound(algorithm.collective, machine, 16, 16.0).seconds == 4.0


def test_a_bisection_loads_the_trunk() -> None:
    """On a line of four, both messages of each half cross the middle wire."""
    machine = SHAPES["line"](4, bandwidth=1.0)
    algorithm = find("bisection")
    assert simulate(algorithm.build(4, 8.0), machine).makespan == 16.0
    assert best_bound(algorithm.collective, machine, 4, 8.0).seconds == 16.0


@given(nbytes=st.floats(1.0, 1e9), bandwidth=st.floats(1e3, 1e12), latency=st.floats(0.0, 1e-3))
def test_a_ping_pong_of_one_pair_is_a_shift(
    nbytes: float, bandwidth: float, latency: float
) -> None:
    machine = nodes(2, per_node=1, bandwidth=bandwidth, latency=latency)
    ping_pong, shift = (
        simulate(find(name).build(2, nbytes), machine).makespan for name in ("ping_pong", "shift")
    )
    assert ping_pong == pytest.approx(shift, rel=1e-12)


@pytest.mark.parametrize("pairs", [1, 2, 3, 4, 5, 8])
def test_pairs_that_ping_pong_share_the_port_of_their_node(pairs: int) -> None:
    """Every other pair sends back, and takes nothing from those that send forward."""
    machine = nodes(2 * pairs, per_node=pairs, bandwidth=1.0)
    algorithm = find("ping_pong")
    makespan = simulate(algorithm.build(2 * pairs, 10.0), machine).makespan
    assert makespan == 10.0 * ceil(pairs / 2)
    assert best_bound(algorithm.collective, machine, 2 * pairs, 10.0).seconds == makespan
