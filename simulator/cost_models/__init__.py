"""Closed forms: time, volume, steps and memory of each algorithm, with their assumptions and
sources.

Notation: p ranks, V bytes each, α the latency of a route, g the gap of a message, β the bandwidth
of a port, γ the seconds to merge a byte; x(n) = g + n/β. With g = 0 this is the postal model, with
α = 0 Hockney's one-port model, the one of MPICH's formulas. Every form below holds in both, and for
both together. Simulation shares no code with it.
"""

from simulator.cost_models.cost_model import CostModel, is_power_of_two, log2_ceil, log2_floor
from simulator.cost_models.gloo import (
    GLOO_ALL_GATHER,
    GLOO_ALL_TO_ALL,
    GLOO_BROADCAST,
    GLOO_GATHER,
    GLOO_REDUCE,
    GLOO_RING,
    GLOO_SCATTER,
    GLOO_SEND_RECV,
)
from simulator.cost_models.in_network import nvls, sharp
from simulator.cost_models.neighbors import (
    NEIGHBOR_EXCHANGE,
    RING_ALL_GATHER,
    RING_ALL_REDUCE,
    RING_REDUCE_SCATTER,
    SHIFT,
    chain_broadcast,
    chain_reduce,
    rings,
)
from simulator.cost_models.servers import (
    NAIVE,
    NAIVE_SERIAL,
    PAIRWISE_ALL_TO_ALL,
    PARAMETER_SERVER,
    PARAMETER_SERVER_APART,
)
from simulator.cost_models.trees import (
    HALVING_DOUBLING,
    RECURSIVE_DOUBLING,
    RECURSIVE_DOUBLING_ALL_GATHER,
    RECURSIVE_HALVING_REDUCE_SCATTER,
    TREE_ALL_REDUCE,
    TREE_BROADCAST,
    TREE_REDUCE,
    binary_tree_all_reduce,
    binary_tree_broadcast,
    binary_tree_reduce,
    double_tree,
)

__all__ = [
    "GLOO_ALL_GATHER",
    "GLOO_ALL_TO_ALL",
    "GLOO_BROADCAST",
    "GLOO_GATHER",
    "GLOO_REDUCE",
    "GLOO_RING",
    "GLOO_SCATTER",
    "GLOO_SEND_RECV",
    "HALVING_DOUBLING",
    "NAIVE",
    "NAIVE_SERIAL",
    "NEIGHBOR_EXCHANGE",
    "PAIRWISE_ALL_TO_ALL",
    "PARAMETER_SERVER",
    "PARAMETER_SERVER_APART",
    "RECURSIVE_DOUBLING",
    "RECURSIVE_DOUBLING_ALL_GATHER",
    "RECURSIVE_HALVING_REDUCE_SCATTER",
    "RING_ALL_GATHER",
    "RING_ALL_REDUCE",
    "RING_REDUCE_SCATTER",
    "SHIFT",
    "TREE_ALL_REDUCE",
    "TREE_BROADCAST",
    "TREE_REDUCE",
    "CostModel",
    "binary_tree_all_reduce",
    "binary_tree_broadcast",
    "binary_tree_reduce",
    "chain_broadcast",
    "chain_reduce",
    "double_tree",
    "is_power_of_two",
    "log2_ceil",
    "log2_floor",
    "nvls",
    "rings",
    "sharp",
]
