"""What the literature claims: which algorithms have the fewest steps, and which move the least."""

from collections.abc import Callable

import pytest

from grouped_cases import each_case
from simulator.collectives import find
from simulator.cost_models import log2_ceil
from simulator.cost_models.cost_model import is_power_of_two

FEWEST_STEPS: dict[str, Callable[[int], int]] = {
    "bruck_all_gather": log2_ceil,
    "bruck_all_to_all": log2_ceil,
    "pat_all_gather": log2_ceil,
    "pat_reduce_scatter": log2_ceil,
    "tree_broadcast": log2_ceil,
    "bine_broadcast": log2_ceil,
    "tree_reduce": log2_ceil,
    "pairwise": lambda p: 1,
    "naive": lambda p: 1,
}
"""⌈log2 p⌉ steps if a rank sends one message at a time, and one if it sends all at once."""
FEWEST_AT_POWERS_OF_TWO = (
    "recursive_doubling",
    "recursive_doubling_all_gather",
    "recursive_halving_reduce_scatter",
    "bine_all_gather",
    "bine_reduce_scatter",
)
LEAST_VOLUME = [
    "ring",
    "ring_all_gather",
    "ring_reduce_scatter",
    "rings",
    "two_level",
    "blue_connect",
    "torus_rings",
    "two_shot",
    "sharded_parameter_server",
    "bruck_all_gather",
    "pat_all_gather",
    "pat_reduce_scatter",
    "neighbor_exchange",
    "pairwise",
    "pairwise_sync",
    "linear_all_to_all",
    "tree_broadcast",
    "tree_reduce",
    "chain_broadcast",
    "chain_reduce",
    "binary_tree_broadcast",
    "split_binary_broadcast",
    "k_nomial_broadcast",
    "bine_broadcast",
    "scatter_allgather_broadcast",
    "scatter_allgather_ring_broadcast",
    "linear_broadcast",
    "halving_doubling",
]
LEAST_A_RANK = [
    "ring",
    "ring_all_gather",
    "ring_reduce_scatter",
    "two_level",
    "blue_connect",
    "two_shot",
    "bruck_all_gather",
    "sharded_parameter_server",
    "pat_all_gather",
    "pat_reduce_scatter",
    "neighbor_exchange",
    "pairwise",
]
"""Algorithms in which every rank sends as much as every other."""
RANKS = (2, 3, 5, 8, 12, 17)


@pytest.mark.parametrize("name", FEWEST_STEPS)
def test_these_have_the_fewest_steps(name: str) -> None:
    for ranks in RANKS:
        assert find(name).build(ranks, 1.0).steps == FEWEST_STEPS[name](ranks)


@each_case("name", FEWEST_AT_POWERS_OF_TWO)
def test_these_have_the_fewest_steps_at_powers_of_two(name: str) -> None:
    for ranks in filter(is_power_of_two, RANKS):
        assert find(name).build(ranks, 1.0).steps == log2_ceil(ranks)


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
