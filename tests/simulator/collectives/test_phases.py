"""The phases of every algorithm: what pictures are coloured by."""

from grouped_cases import each_case
from simulator.collectives import algorithms

PHASES = {
    "ring": ("reduce-scatter", "all-gather"),
    "ring_reduce_scatter": ("reduce-scatter",),
    "ring_all_gather": ("all-gather",),
    "rings": ("reduce-scatter", "all-gather"),
    "rings_reduce_scatter": ("reduce-scatter",),
    "rings_all_gather": ("all-gather",),
    "gloo_ring": ("reduce-scatter", "all-gather"),
    "gloo_reduce": ("reduce-scatter", "gather"),
    "gloo_all_gather": ("all-gather",),
    "gloo_broadcast": ("broadcast",),
    "gloo_scatter": ("scatter",),
    "gloo_gather": ("gather",),
    "gloo_all_to_all": ("exchange", "unpack"),
    "gloo_send_recv": ("send", "unpack"),
    "naive": ("exchange", "merge"),
    "naive_serial": ("root 0", "root 1", "root 2", "root 3", "root 4", "root 5", "result"),
    "parameter_server": ("push", "pull"),
    "parameter_server_apart": ("push", "merge", "pull"),
    "tree": ("reduce", "broadcast"),
    "tree_reduce": ("reduce",),
    "tree_broadcast": ("broadcast",),
    "binary_tree": ("reduce", "broadcast"),
    "binary_tree_reduce": ("reduce",),
    "binary_tree_broadcast": ("broadcast",),
    "split_binary_broadcast": ("broadcast", "exchange"),
    "double_tree": ("reduce", "broadcast"),
    "chain_broadcast": ("broadcast",),
    "chain_reduce": ("reduce",),
    "chains_broadcast": ("broadcast",),
    "chains_reduce": ("reduce",),
    "recursive_doubling": ("fold", "round 0", "round 1", "unfold"),
    "recursive_doubling_all_gather": ("fold", "all-gather", "unfold"),
    "halving_doubling": ("fold", "reduce-scatter", "all-gather", "unfold"),
    "recursive_halving_reduce_scatter": ("fold", "reduce-scatter", "unfold"),
    "neighbor_exchange": ("all-gather",),
    "pairwise": ("exchange", "unpack"),
    "shift": ("send", "unpack"),
    "two_level": ("reduce-scatter in nodes", "all-gather in nodes"),
    "sharp": ("reduce in the switches", "multicast"),
    "nvls": ("reduce in the switches", "multicast"),
}


def test_every_operation_has_a_phase() -> None:
    for name, algorithm in algorithms().items():
        assert all(algorithm.build(8, 64.0).phases), name


@each_case("name", PHASES)
def test_the_phases_of_six_ranks_are_these(name: str) -> None:
    assert algorithms()[name].build(6, 60.0).phases == PHASES[name]
