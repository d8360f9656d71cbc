"""Packed trees."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from grouped_cases import each_case
from random_networks import NAMES, V, bound, random_network, seconds, study
from simulator.analysis.bounds import best_bound
from simulator.collectives import algorithms, find, of_collective
from simulator.collectives.optimal import plan
from simulator.collectives.roots import from_root
from simulator.cost_models import log2_ceil
from simulator.cost_models.cost_model import is_power_of_two
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.schedule import Schedule
from topologies.catalogue import find as machine
from topologies.clusters import cluster
from topologies.errors import InputError
from topologies.readers.files import read
from topologies.shapes import line, star
from topologies.topology import Topology

EXAMPLES = Path(__file__).parents[3] / "examples"
every_name = pytest.mark.parametrize("name", NAMES)
SAMPLE = (4,)
MORE = (1, 3, 9, *range(0, 200, 6))
FINE = 4, 18, 102
"""Networks that also have many segments."""


@pytest.mark.parametrize("seeds", [SAMPLE, pytest.param(MORE, marks=pytest.mark.exhaustive)])
@every_name
def test_random_networks(name: str, seeds: Sequence[int]) -> None:
    """The tightest cut is reached within the fill, and within two percent with many segments. No
    other algorithm is faster."""
    for seed in seeds:
        result = study(seed, name, fine=seed in FINE)
        assert not result["failures"], result


@every_name
def test_a_torus_with_a_broken_link(name: str) -> None:
    """Where a ring loses half of its bandwidth, trees lose what the cut says."""
    broken = read(EXAMPLES / "torus_broken_link.yaml")
    algorithm = find(f"{name}:segments=128")
    assert seconds(algorithm, broken) <= bound(algorithm, broken) * 1.08


@pytest.mark.parametrize(
    ("name", "topology"),
    [
        pytest.param(
            name,
            topology,
            marks=[pytest.mark.exhaustive] * (topology != "dgx1" or name == "optimal"),
        )
        for name in NAMES
        for topology in ("dgx1", "mi300x", "hgx_h100", "star")
    ],
)
def test_no_listed_algorithm_is_faster_on_a_machine(name: str, topology: str) -> None:
    """With latencies, at 64 MiB, by the best of a few numbers of segments and trees. Switches that
    reduce are faster yet."""
    built = machine(topology).build(8, 0)
    others = []
    for other in of_collective(find(name).collective.name):
        with suppress(InputError):  # not for this machine
            if other.name not in NAMES and not other.servers:
                fitted = other.on(built, 8, V)
                if not fitted.schedule.switches:
                    others.append(simulate(fitted.schedule, fitted.topology, "compiled").makespan)
    options = (
        *("segments=64", "segments=32", "trees=2", "trees=1"),
        *("segments=32,trees=4", "segments=256,trees=1"),
    )
    assert min(seconds(find(f"{name}:{option}"), built) for option in options) <= min(others)


@pytest.mark.parametrize("segments", [1, 6])
@every_name
def test_the_formula_counts_the_steps_on_a_machine(name: str, segments: int) -> None:
    built = machine("dgx1").build(8, 0)
    fitted = find(f"{name}:segments={segments},trees=4").on(built, 8, V)
    assert fitted.schedule.steps == fitted.cost.steps(8)
    assert fitted.schedule.volume == pytest.approx(fitted.cost.volume(8) * V)


@pytest.mark.parametrize(("name", "seed"), [("optimal_broadcast", 81), ("optimal", 138)])
def test_ways_between_the_same_ranks_keep_apart(name: str, seed: int) -> None:
    """Several ways lead between two ranks here, also in both phases of an all-reduce."""
    network, algorithm = random_network(seed), find(name)
    depth = plan(algorithm.collective.name, network, network.ranks).depth
    fitted = algorithm.on(network, network.ranks, V)
    time = simulate(fitted.schedule, fitted.topology, "compiled").makespan
    assert time <= bound(algorithm, network) * (1 + (depth - 1) / 64)


def test_another_root_takes_the_same_links() -> None:
    algorithm = from_root(find("optimal_broadcast"), 3)
    built = machine("dgx1").build(8, 0)
    assert seconds(algorithm, built) <= 1.15 * best_bound(algorithm.collective, built, 8, V).seconds


def test_one_root_suffices_on_a_line() -> None:
    algorithm = find("optimal:segments=64")
    assert seconds(algorithm, line(4, bandwidth=V)) == pytest.approx(1 + 3 / 64)


def test_words_tell_what_was_packed_and_that_switches_only_forward() -> None:
    words = find("optimal_all_gather").on(machine("dgx1").build(8, 0), 8, V).chosen
    assert words[0] == "all-gather: 128 trees from 8 roots, up to 7 deep"
    assert words[1].startswith("64 segments; 151 GB/s of V together, 0.18% below the tightest cut")
    words = find("optimal_broadcast:trees=1").on(machine("hgx_h100").build(8, 0), 8, V).chosen
    assert words[-1] == "switches that reduce or multicast only forward: nvls and sharp use them"


def test_too_many_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="up to 128 ranks"):
        find("optimal").on(machine("star").with_links(1e9, 0.0).build(129, 0), 129, V)


@every_name
@pytest.mark.parametrize("ranks", [1, 2])
def test_few_ranks(name: str, ranks: int) -> None:
    star = machine("star").with_links(1e9, 0.0).build(2, 0)
    schedule: Schedule = algorithms()[name].on(star, ranks, V).schedule
    semantics.check(schedule, find(name).collective)


LOGARITHMIC = [
    *("bruck_all_gather", "bruck_all_to_all", "pat_all_gather", "pat_reduce_scatter"),
    *("tree_broadcast", "bine_broadcast", "tree_reduce"),
]
"""⌈log2 p⌉ steps if a rank sends one message at a time, and one if it sends all at once."""
FEWEST_AT_POWERS_OF_TWO = [
    *("recursive_doubling", "recursive_doubling_all_gather"),
    *("recursive_halving_reduce_scatter", "bine_all_gather", "bine_reduce_scatter"),
]
LEAST_VOLUME = [
    *("rings", "torus_rings", "pairwise_sync", "linear_all_to_all", "halving_doubling"),
    *("tree_broadcast", "tree_reduce", "chain_broadcast", "chain_reduce", "linear_broadcast"),
    *("binary_tree_broadcast", "split_binary_broadcast", "k_nomial_broadcast"),
    *("bine_broadcast", "scatter_allgather_broadcast", "scatter_allgather_ring_broadcast"),
]
LEAST_A_RANK = [
    *("ring", "ring_all_gather", "ring_reduce_scatter", "two_level", "blue_connect"),
    *("two_shot", "bruck_all_gather", "sharded_parameter_server", "pat_all_gather"),
    *("pat_reduce_scatter", "neighbor_exchange", "pairwise"),
]
"""Algorithms in which every rank sends as much as every other."""
RANKS = (2, 3, 5, 7, 8, 12, 13, 17, 33)


@each_case("name", [*LOGARITHMIC, *FEWEST_AT_POWERS_OF_TWO, "pairwise", "naive"])
def test_these_have_the_fewest_steps(name: str) -> None:
    for ranks in filter(is_power_of_two, RANKS) if name in FEWEST_AT_POWERS_OF_TWO else RANKS:
        steps = 1 if name in ("pairwise", "naive") else log2_ceil(ranks)
        assert find(name).build(ranks, 1.0).steps == steps


@pytest.mark.parametrize("name", LEAST_VOLUME)
def test_these_move_the_least(name: str) -> None:
    for ranks in RANKS:
        least = find(name).collective.volume(ranks) * 1024.0
        assert find(name).build(ranks, 1024.0).volume == pytest.approx(least)


@pytest.mark.parametrize("name", LEAST_A_RANK)
def test_every_rank_of_these_sends_an_equal_part_of_the_least(name: str) -> None:
    for ranks in RANKS:
        equal = find(name).collective.volume(ranks) * 1024.0 / ranks
        sent = find(name).build(ranks, 1024.0).sent()
        assert sent.tolist() == pytest.approx([equal] * ranks)


@each_case(
    ("short", "long", "topology", "sizes"),
    [
        (
            "bruck_all_to_all",
            "pairwise",
            star(32, bandwidth=1e9, latency=1e-6, gap=1e-6),
            (1e3, 1e7),
        ),
        (
            "tree_broadcast",
            "scatter_allgather_broadcast",
            star(16, bandwidth=1e9, latency=1e-6),
            (1e3, 1e7),
        ),
        ("multimem_one_shot", "nvls:segments=1", cluster("hgx_h100"), (1e3, 1e9)),
    ],
)
def test_these_are_better_for_short_messages_alone(
    short: str, long: str, topology: Topology, sizes: tuple[float, float]
) -> None:
    def time(name: str, nbytes: float) -> float:
        fitted = find(name).on(topology, topology.ranks, nbytes)
        return simulate(fitted.schedule, fitted.topology).makespan

    assert [time(short, nbytes) < time(long, nbytes) for nbytes in sizes] == [True, False]
