"""Words for algorithms and protocols: every one that the measured index uses, and what NCCL's
variables may say."""

from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements.formats.forced_choices import ForcedChoice, forced_by, read_label
from experiments.spellings import canonical_algorithm, canonical_protocol
from grouped_cases import each_case
from simulator.collectives import algorithms


@each_case(
    ("label", "collective", "algorithm"),
    [
        ("", "all_reduce", ""),
        ("NCCL_ALGO=Ring", "all_reduce", "ring"),
        ("NCCL_ALGO=RING", "all_reduce", "ring"),
        ("NCCL_ALGO=Tree", "all_reduce", "tree"),
        ("NCCL_ALGO=NVLS", "all_reduce", "nvls"),
        ("Ring (NCCL_NVLS_ENABLE=0)", "all_reduce", "ring"),
        ("Ring (file name; NCCL_TREE_THRESHOLD=0 with NCCL 2.4.7)", "all_reduce", "ring"),
        ("Tree (by file name)", "all_reduce", "tree"),
        ("rabenseifner_over", "all_reduce", "halving_doubling"),
        ("recursive_doubling_mpich", "all_reduce", "recursive_doubling"),
        ("recursive_doubling_ompi", "all_gather", "recursive_doubling_all_gather"),
        ("ring_ompi", "all_reduce", "ring"),
        ("ring_ompi", "all_gather", "ring_all_gather"),
        ("ring_ompi", "reduce_scatter", "ring_reduce_scatter"),
        ("ring_segmented_ompi", "all_reduce", "segmented_ring"),
        ("default-segmented_ring", "all_reduce", "segmented_ring"),
        ("recursive_halving_ompi", "reduce_scatter", "recursive_halving_reduce_scatter"),
        ("neighbor_ompi", "all_gather", "neighbor_exchange"),
        ("binary", "broadcast", "binary_tree_broadcast"),
        ("split_binary_tree_ompi", "broadcast", "split_binary_broadcast"),
        ("binary_tree", "all_reduce", "binary_tree"),
        ("binomial_ompi", "broadcast", "tree_broadcast"),
        ("knomial_ompi", "broadcast", "k_nomial_broadcast"),
        ("pipeline_ompi", "broadcast", "chain_broadcast"),
        ("scatter_allgather_ompi", "broadcast", "scatter_allgather_broadcast"),
        ("scatter_allgather_ring_ompi", "broadcast", "scatter_allgather_ring_broadcast"),
        ("bruck_ompi", "all_gather", "bruck_all_gather"),
        ("modified_bruck_ompi", "all_to_all", "bruck_all_to_all"),
        ("linear_ompi", "all_to_all", "linear_all_to_all"),
        ("linear_ompi", "broadcast", "linear_broadcast"),
        ("linear_sync_ompi", "all_to_all", "pairwise_sync"),
        ("allgather_reduce_ompi", "all_reduce", "allgather_reduce"),
        ("default-ring", "all_reduce", "ring"),
        ("default-trix6", "all_reduce", "trix6"),
        ("default-default", "all_reduce", ""),
        ("default_ompi", "all_reduce", ""),
        ("default_mpich", "all_reduce", ""),
        ("MPI default", "all_reduce", ""),
        ("Open MPI default decision", "all_reduce", ""),
        ("not stated (default)", "all_reduce", ""),
        ("auto", "all_reduce", ""),
        ("auto (Ring at 4, NVLS from 5)", "all_reduce", ""),
        ("point-to-point", "send_recv", ""),
        ("osu_latency (one way)", "send_recv", ""),
        (
            "label NVLSTree, NOT effective: times equal Ring or Tree (NCCL fell back)",
            "all_reduce",
            "",
        ),
    ],
)
def test_every_word_of_the_index_is_understood(label: str, collective: str, algorithm: str) -> None:
    assert read_label(label, collective).algorithm == algorithm


def test_a_label_without_effect_says_so() -> None:
    assert read_label("label NVLS, NOT effective", "all_reduce").notes == (
        "the label of the algorithm had no effect: the library chose",
    )


@each_case(
    ("algo", "proto", "collective", "label"),
    [
        ("Ring", "LL128", "all_reduce", ForcedChoice("ring", "LL128")),
        ("ring", "simple", "all_gather", ForcedChoice("ring_all_gather", "Simple")),
        ("allreduce:tree;broadcast:ring", "", "broadcast", ForcedChoice("ring")),
        ("allreduce:tree", "", "broadcast", ForcedChoice()),
        ("NVLSTree", "", "all_reduce", ForcedChoice("NVLSTree")),
        (
            "^Tree",
            "",
            "all_reduce",
            ForcedChoice(notes=("NCCL_ALGO=^Tree leaves NCCL the choice",)),
        ),
        (
            "",
            "LL,Simple",
            "all_reduce",
            ForcedChoice(notes=("NCCL_PROTO=LL,Simple leaves NCCL the choice",)),
        ),
        (
            "Tree",
            "LL",
            "all_gather",
            ForcedChoice("", "LL", ("NCCL_ALGO=Tree has no effect on all_gather",)),
        ),
        (
            "Ring",
            "",
            "all_to_all",
            ForcedChoice(notes=("NCCL_ALGO=Ring has no effect on all_to_all",)),
        ),
    ],
)
def test_what_nccls_variables_leave_of_its_choice(
    algo: str, proto: str, collective: str, label: ForcedChoice
) -> None:
    assert forced_by(algo, proto, collective) == label


def test_an_algorithm_of_ours_keeps_its_name() -> None:
    for name, algorithm in algorithms().items():
        assert canonical_algorithm(name, algorithm.collective.name) == name


@given(st.text(max_size=60), st.sampled_from(["all_reduce", "all_gather", "unknown"]))
def test_any_word_has_one_name(word: str, collective: str) -> None:
    label = read_label(word, collective)
    assert canonical_algorithm(label.algorithm, collective) == label.algorithm
    assert canonical_protocol(canonical_protocol(word)) == canonical_protocol(word)
