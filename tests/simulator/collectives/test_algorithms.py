"""Algorithms by name, of packages, on one rank; their phases and how many operations they have."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grouped_cases import each_case
from refusals import refusal
from simulator.collectives import (
    algorithms,
    every_algorithm,
    find,
    installed_algorithms,
    of_collective,
)
from simulator.collectives.algorithm_options import with_values
from simulator.collectives.collective import ALL_GATHER, ALL_REDUCE
from simulator.collectives.operation_counts import bounds, estimate
from simulator.collectives.roots import from_root
from topologies.catalogue import find as machine


@each_case("name", sorted({a.collective.name for a in algorithms().values()} - {*algorithms()}))
def test_a_collective_lists_its_algorithms(name: str) -> None:
    listed = [key for key, algorithm in algorithms().items() if algorithm.collective.name == name]
    either = f"one of {', '.join(listed)}" if len(listed) > 1 else listed[0]
    assert refusal(find, name) == f"{name!r} is a collective and no algorithm: choose {either}"


@each_case("name", ["allreduce", "all-reduce", "AllReduce", "ALL_REDUCE"])
def test_other_spellings_of_a_collective_list_its_algorithms(name: str) -> None:
    words = f"{name!r} is a collective and no algorithm: choose one of ring, rings,"
    assert refusal(find, name).startswith(words)


def test_a_misspelt_algorithm_gets_the_nearest_name_or_the_list() -> None:
    lists = "simctl list algos lists them"
    assert refusal(find, "rnig") == f"no algorithm 'rnig': did you mean 'ring'? ({lists})"
    assert refusal(find, "???") == f"no algorithm '???': {lists}"


def test_a_collective_has_algorithms_in_any_spelling() -> None:
    assert of_collective("All-to-All") == of_collective("all_to_all")
    assert find("pairwise") in of_collective("alltoall")
    assert refusal(of_collective, "brodcast").startswith(
        "no collective 'brodcast': did you mean 'broadcast'? (there are all_reduce,"
    )


SOURCE = """
from simulator.collectives.declaration import algorithm
from simulator.schedules.schedule_builder import ScheduleBuilder

@algorithm("broadcast")
def fan(ranks, nbytes):
    star = ScheduleBuilder(ranks, nbytes)
    for rank in range(1, ranks):
        star.copy(0, rank, slot=0)
    return star.build()

from dataclasses import replace

ring = replace(fan, name="ring")
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, with a package whose entry points the tests write."""
    (tmp_path / "simctl_fan_package.py").write_text(SOURCE)
    (tmp_path / "fan-1.0.dist-info").mkdir()
    (tmp_path / "fan-1.0.dist-info" / "METADATA").write_text("Name: fan\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed_algorithms.cache_clear()
    yield tmp_path / "fan-1.0.dist-info" / "entry_points.txt"
    sys.modules.pop("simctl_fan_package", None)
    installed_algorithms.cache_clear()


def test_an_entry_point_is_an_algorithm(packages: Path) -> None:
    packages.write_text("[simctl.algorithms]\nfan = simctl_fan_package:fan\n")
    fan = find("fan")
    assert fan.build(4, 8.0).volume == 24.0
    assert fan.origin == "fan's entry point 'fan'"
    assert "fan" in every_algorithm()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("simctl_fan_package:ring", "another algorithm is called 'ring' already"),
        ("simctl_fan_package:SOURCE", "AttributeError"),
        ("simctl_fan_package:algorithm", "is no algorithm"),
        ("no_such_module:x", "ModuleNotFoundError"),
    ],
)
def test_an_entry_point_that_is_no_algorithm_is_refused(
    packages: Path, value: str, words: str
) -> None:
    packages.write_text(f"[simctl.algorithms]\nfan = {value}\n")
    assert words in refusal(installed_algorithms)


def test_a_rank_alone_sends_nothing() -> None:
    sending = []
    for name, algorithm in algorithms().items():
        schedule = algorithm.build(1, 64.0)
        if schedule.ranks == 1 and schedule.remote.any():
            sending.append(name)
    assert sending == []


PHASES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("reduce-scatter", "all-gather"): ("ring", "rings", "gloo_ring"),
    ("reduce-scatter",): ("ring_reduce_scatter", "rings_reduce_scatter"),
    ("all-gather",): (
        "ring_all_gather",
        "rings_all_gather",
        "gloo_all_gather",
        "neighbor_exchange",
    ),
    ("reduce-scatter", "gather"): ("gloo_reduce",),
    ("broadcast",): (
        "gloo_broadcast",
        "tree_broadcast",
        "binary_tree_broadcast",
        "chain_broadcast",
        "chains_broadcast",
    ),
    ("scatter",): ("gloo_scatter",),
    ("gather",): ("gloo_gather",),
    ("exchange", "unpack"): ("gloo_all_to_all", "pairwise"),
    ("send", "unpack"): ("gloo_send_recv", "shift"),
    ("exchange", "merge"): ("naive",),
    ("root 0", "root 1", "root 2", "root 3", "root 4", "root 5", "result"): ("naive_serial",),
    ("push", "pull"): ("parameter_server",),
    ("push", "merge", "pull"): ("parameter_server_apart",),
    ("reduce", "broadcast"): ("tree", "binary_tree", "double_tree"),
    ("reduce",): ("tree_reduce", "binary_tree_reduce", "chain_reduce", "chains_reduce"),
    ("broadcast", "exchange"): ("split_binary_broadcast",),
    ("fold", "round 0", "round 1", "unfold"): ("recursive_doubling",),
    ("fold", "all-gather", "unfold"): ("recursive_doubling_all_gather",),
    ("fold", "reduce-scatter", "all-gather", "unfold"): ("halving_doubling",),
    ("fold", "reduce-scatter", "unfold"): ("recursive_halving_reduce_scatter",),
    ("reduce-scatter in nodes", "all-gather in nodes"): ("two_level",),
    ("reduce in the switches", "multicast"): ("sharp", "nvls"),
}


def test_every_operation_has_a_phase() -> None:
    for name, algorithm in algorithms().items():
        assert all(algorithm.build(8, 64.0).phases), name


@each_case(("phases", "names"), PHASES.items())
def test_the_phases_of_six_ranks_are_these(phases: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert {name: find(name).build(6, 60.0).phases for name in names} == dict.fromkeys(
        names, phases
    )


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
