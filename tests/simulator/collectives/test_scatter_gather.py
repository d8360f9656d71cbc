"""Scatter and gather, straight and along a tree."""

import pytest

from grouped_cases import each_case
from simulator.collectives import find
from simulator.engines import simulate
from topologies.shapes import star


@pytest.mark.parametrize("name", ["scatter", "gather"])
def test_a_tree_saves_latency_and_crosses_the_root_as_often(name: str) -> None:
    """log2 p messages in turn, not p - 1; the root's port carries 7/8 of V in both."""

    def seconds(kind: str, **machine: float) -> float:
        return simulate(find(f"{kind}_{name}").build(8, 8.0), star(8, **machine)).makespan

    assert seconds("linear", bandwidth=1.0) == seconds("binomial", bandwidth=1.0) == 7.0
    assert seconds("linear", bandwidth=1e9, gap=1.0) == pytest.approx(7.0)
    assert seconds("binomial", bandwidth=1e9, gap=1.0) == pytest.approx(3.0)


@each_case(("ranks", "chunks"), [(2, 1), (3, 2), (5, 5), (8, 12)])
def test_a_chunk_crosses_a_link_for_every_binary_one_of_its_rank(ranks: int, chunks: int) -> None:
    for name in ("binomial_scatter", "binomial_gather"):
        assert find(name).build(ranks, float(ranks)).volume == chunks


def test_a_subtree_that_is_ready_first_is_served_first() -> None:
    """Of five ranks, rank 4 alone is a subtree: its chunk does not wait for that of ranks 2 and
    3."""
    schedule = find("binomial_gather").build(5, 5.0)
    timeline = simulate(schedule, star(5, bandwidth=1.0))
    arrived = dict(zip(schedule.rank.tolist(), timeline.finish.tolist(), strict=True))
    assert arrived == {1: 1.0, 3: 1.0, 4: 2.0, 2: 4.0}
