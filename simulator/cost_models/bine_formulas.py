"""Formulas of Bine's trees and exchanges: those of binomial ones where all routes are alike."""

from dataclasses import replace

from simulator.cost_models import trees
from simulator.cost_models.cost_model import is_power_of_two

SOURCE = "De Sensi et al., SC 2025, arXiv 2508.17311"
BROADCAST = replace(trees.TREE_BROADCAST, source=SOURCE)
REDUCE = replace(trees.TREE_REDUCE, source=SOURCE)
ALL_GATHER = replace(
    trees.RECURSIVE_DOUBLING_ALL_GATHER,
    source=SOURCE,
    peak=lambda p, nbytes: (2 if is_power_of_two(p) else 1) * nbytes,
    redundant=lambda p, nbytes: ((2 if is_power_of_two(p) else 1) * p - 1) * nbytes,
)
REDUCE_SCATTER = replace(
    trees.RECURSIVE_HALVING_REDUCE_SCATTER,
    source=SOURCE,
    peak=lambda p, nbytes: (2.5 if is_power_of_two(p) else 2) * nbytes,
    redundant=lambda p, nbytes: (1.5 * p if is_power_of_two(p) else p - 1) * nbytes,
)
