"""How many operations a schedule has, before it is built."""

import pytest

from simulator.collectives import algorithms, find
from simulator.collectives.algorithm_options import with_values
from simulator.collectives.collective import ALL_GATHER, ALL_REDUCE
from simulator.collectives.operation_counts import bounds, estimate
from simulator.collectives.roots import from_root
from topologies.catalogue import find as machine

PLAIN = [name for name in algorithms() if not name.startswith("optimal")]
"""Algorithms whose schedules for no machine are as large as for a machine."""


@pytest.mark.parametrize("ranks", [16, pytest.param(64, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", PLAIN)
def test_operations_are_estimated(name: str, ranks: int) -> None:
    algorithm = find(name)
    counted = len(algorithm.build(ranks, 1.0))
    assert estimate(algorithm, ranks) == pytest.approx(counted, rel=0.15)


@pytest.mark.parametrize("name", [name for name in PLAIN if algorithms()[name].operations])
def test_declared_operations_are_those_of_the_schedule(name: str) -> None:
    listed = algorithms()[name]
    variants = [with_values(listed, {key: 2}) for key in listed.options]
    for algorithm in (listed, *variants):
        for ranks in filter(algorithm.defined, (2, 3, 12, 13)):
            assert estimate(algorithm, ranks) == len(algorithm.build(ranks, 1.0)), algorithm.name


def test_another_root_counts_alike() -> None:
    tree = find("tree_broadcast")
    assert estimate(from_root(tree, 40), 64) == estimate(tree, 64)


@pytest.mark.parametrize("name", ["optimal", "optimal_all_gather", "optimal_reduce_scatter"])
def test_segments_of_trees_are_counted_as_on_a_machine(name: str) -> None:
    """Besides messages, ranks have an operation in each turn."""
    star = machine("star").with_links(1e9, 0.0).build(16, 0)
    for text in (name, f"{name}:segments=8"):
        built = len(find(text).on(star, 16, 1.0).schedule)
        assert estimate(find(text), 16) == pytest.approx(built, rel=0.1)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 13])
def test_estimates_are_no_more_than_what_is_built(ranks: int) -> None:
    star = machine("star").with_links(1e9, 0.0).build(max(ranks, 2), 1)
    for name, algorithm in algorithms().items():
        known = algorithm.collective in (ALL_REDUCE, ALL_GATHER) and algorithm.defined(ranks)
        if known and algorithm.fit is None:
            built = len(algorithm.build(ranks, 1.0)) if ranks > 1 else 0
            assert max(bounds(algorithm, star, ranks)) <= built, name
            if algorithm.operations is not None:
                assert list(bounds(algorithm, star, ranks)) == [built], name


@pytest.mark.parametrize(
    ("name", "topology", "ranks"), [("rings", "dgx1", 8), ("nvls", "hgx_h100:nodes=2", 16)]
)
def test_estimates_of_what_is_made_for_a_machine(name: str, topology: str, ranks: int) -> None:
    built = machine(topology).build(ranks)
    algorithm = algorithms()[name]
    assert algorithm.fit is not None
    operations = len(algorithm.fit(built, ranks, 1.0).schedule)
    sizes = list(bounds(algorithm, built, ranks))
    assert sizes == sorted(sizes)
    assert sizes[-1] <= operations
    assert name != "rings" or sizes[-1] == operations
