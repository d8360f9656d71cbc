"""Rooted collectives from every root."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import NAMES
from refusals import refusal
from simulator.analysis.bounds import best_bound, bounds
from simulator.collectives import algorithms, find
from simulator.collectives.collective import BROADCAST, Fitted
from simulator.collectives.roots import from_root, members, turned
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.shapes import SHAPES, line, star
from topologies.topology import Topology

ROOTED = [name for name in NAMES if algorithms()[name].collective.root is not None]
every_rooted = pytest.mark.parametrize("name", ROOTED)


def test_these_collectives_have_roots() -> None:
    rooted = {algorithms()[name].collective.name for name in ROOTED}
    assert {"broadcast", "reduce", "scatter", "gather"} <= rooted


@every_rooted
@each_case("ranks", [2, 3, 6])
def test_promises_are_kept_from_every_root(name: str, ranks: int) -> None:
    algorithm = find(name)
    for root in range(ranks):
        rooted = from_root(algorithm, root)
        schedule = rooted.build(ranks, 1024.0)
        semantics.check(schedule, rooted.collective)
        assert schedule.volume == pytest.approx(rooted.cost.volume(ranks) * 1024.0)
        assert schedule.steps == rooted.cost.steps(ranks)
        if root:
            with pytest.raises(semantics.WrongResult):
                semantics.check(schedule, algorithm.collective)


@every_rooted
def test_a_root_takes_the_same_time_where_all_ranks_are_alike(name: str) -> None:
    machine = star(6, bandwidth=1e9, latency=1e-6, gap=1e-6)
    times = {
        simulate(from_root(find(name), root).build(6, 1e6), machine).makespan for root in range(6)
    }
    assert max(times) == pytest.approx(min(times), rel=1e-12)


@given(
    name=st.sampled_from(ROOTED),
    shape=st.sampled_from([shape for shape in SHAPES if shape != "hypercube"]),
    ranks=st.integers(2, 9),
    data=st.data(),
)
def test_nothing_beats_a_bound_from_any_root(
    name: str, shape: str, ranks: int, data: st.DataObject
) -> None:
    rooted = from_root(find(name), data.draw(st.integers(0, ranks - 1)))
    topology = SHAPES[shape](ranks, bandwidth=1e9, latency=1e-5)
    makespan = simulate(rooted.build(ranks, 1e6), topology).makespan
    for bound in bounds(rooted.collective, topology, ranks, 1e6):
        assert makespan >= bound.seconds * (1 - 1e-9), bound


def test_the_bound_is_that_of_the_root() -> None:
    """In a line, the ends are farther apart than the middle from either."""
    machine = line(5, bandwidth=1e9, latency=1.0)
    latencies = [
        best_bound(from_root(find("tree_broadcast"), root).collective, machine, 5, 1.0).seconds
        for root in range(5)
    ]
    assert latencies == [4.0, 3.0, 2.0, 3.0, 4.0]


def test_chunks_go_to_their_ranks() -> None:
    """The root of a scatter has chunk 0, the next rank chunk 1."""
    rooted = from_root(find("gloo_scatter"), 2)
    before = np.arange(9, dtype=np.uint64).reshape(3, 3)
    promised, values = rooted.collective.postcondition(before, None)
    assert [np.flatnonzero(row).tolist() for row in promised] == [[1], [2], [0]]
    assert values[2, 0] == before[2, 0]


def test_an_algorithm_that_is_made_for_a_machine_is_made_for_its_root() -> None:
    seen = list[int]()

    def fit(topology: Topology, ranks: int, nbytes: float) -> Fitted:
        seen.append(int(topology.placement[0]))
        chain = find("chain_broadcast")
        return Fitted(chain.schedule(ranks, nbytes), topology, chain.cost)

    from dataclasses import replace

    fitted = from_root(replace(find("chain_broadcast"), fit=fit), 2).on(
        star(4, bandwidth=1e9), 4, 8.0
    )
    assert seen == [int(star(4, bandwidth=1e9).placement[2])]
    assert fitted.topology.placement.tolist() == star(4, bandwidth=1e9).placement.tolist()
    assert fitted.schedule.sent().tolist() == [8.0, 0.0, 8.0, 8.0]


def test_ranks_are_counted_from_the_root() -> None:
    assert members(4, 3).tolist() == [3, 0, 1, 2]
    machine = star(5, bandwidth=1e9)
    assert turned(machine, 4, 3).placement.tolist() == machine.placement[[3, 0, 1, 2, 4]].tolist()


def test_a_rooted_algorithm_goes_to_other_processes() -> None:
    rooted = from_root(find("tree_broadcast"), 2)
    again = pickle.loads(pickle.dumps(rooted))
    assert again.collective == rooted.collective
    assert again.build(4, 1.0).sent().tolist() == rooted.build(4, 1.0).sent().tolist()


def test_roots_that_there_are_not_are_refused() -> None:
    chain = find("chain_broadcast")
    assert refusal(from_root, find("ring"), 1) == "ring is all_reduce, which has no root"
    assert refusal(from_root, chain, -1) == "the root is -1: ranks run from 0"
    assert refusal(from_root(chain, 4).build, 4, 1.0) == "the root is 4: 4 ranks run from 0 to 3"
    assert refusal(from_root, from_root(chain, 1), 2) == (
        "chain_broadcast starts from root 1 already"
    )
    assert from_root(chain, 0) is chain
    assert BROADCAST.root == 0
