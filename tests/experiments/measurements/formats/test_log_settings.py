"""What logs and labels force, and the library that a log names."""

from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements.formats.log_settings import ForcedChoice, forced_by, read_label
from experiments.spellings import canonical_algorithm, canonical_protocol
from grouped_cases import each_case
from nccl_logs import log, only, parse, rows, shaped
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


def version(text: str) -> str:
    return f"# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902\n{text}"


@each_case(
    ("before", "library"),
    [
        ("node1:1:2 [0] NCCL INFO NCCL version 2.18.3+cuda12.1\n", "NCCL 2.18.3+cuda12.1"),
        ("NCCL version 2.4.7+cuda10.1\n", "NCCL 2.4.7+cuda10.1"),
        ("RCCL version : 2.22.3-develop:abc\n", "RCCL 2.22.3-develop"),
        ("# rccl-tests: Version develop:a7809b3\n", "RCCL"),
        ("# nccl-tests version 2.13.6 nccl-headers=2804 nccl-library=2804\n", "NCCL 2.8.4"),
        (
            "# nccl-tests version 2.13.6 nccl-library=22902\nNCCL version 2.29.2+cuda13.0\n",
            "NCCL 2.29.2+cuda13.0",
        ),
        ("", ""),
    ],
)
def test_the_library_is_the_one_that_the_log_names(before: str, library: str) -> None:
    assert only(before + log()).library == library


def test_two_versions_in_one_test_are_none() -> None:
    curve = only("NCCL version 2.18.3\n" + version(log()).replace("22902", "21903"))
    assert curve.library == "NCCL 2.19.3"  # the first stands before the test that says its own
    curve = only(log().replace("# Using", "NCCL version 2.18.3\nNCCL version 2.19.3\n# Using"))
    assert curve.library == ""
    assert curve.notes[-1] == "library unknown: the log names NCCL 2.18.3 and NCCL 2.19.3"


def test_each_test_has_its_own_version() -> None:
    curves = parse(version(log()) + version(log()).replace("22902", "21903") + log()).curves
    assert [curve.library for curve in curves] == ["NCCL 2.29.2", "NCCL 2.19.3", ""]


@each_case(
    ("before", "forced"),
    [
        (
            "mpirun -x NCCL_ALGO=Ring -x NCCL_PROTO=LL128 ./all_reduce_perf -b 8\n",
            ("ring", "LL128"),
        ),
        ("NCCL_ALGO=Tree mpirun ./all_reduce_perf\n", ("tree", "")),
        ("+ export 'NCCL_PROTO=Simple'\n", ("", "Simple")),
        ("n1:1:2 [0] NCCL INFO NCCL_ALGO set by environment to allreduce:tree\n" * 4, ("tree", "")),
        ("export NCCL_ALGO=Ring\nunset NCCL_ALGO\n", ("", "")),
        ("NCCL_ALGO=$ALGO NCCL_PROTO=${P} mpirun -x NCCL_ALGO ./all_reduce_perf\n", ("", "")),
    ],
)
def test_what_the_environment_forced(before: str, forced: tuple[str, str]) -> None:
    curve = only(before + log())
    assert (curve.algorithm, curve.protocol) == forced
    assert curve.notes == ()


def test_what_leaves_a_choice_is_noted() -> None:
    curve = only("NCCL_ALGO=Ring,Tree mpirun ./all_reduce_perf\n" + log())
    assert (curve.algorithm, curve.notes) == ("", ("NCCL_ALGO=Ring,Tree leaves NCCL the choice",))
    curve = only(
        "mpirun -x NCCL_PROTO=LL\n[0] NCCL INFO NCCL_PROTO set by environment to Simple\n" + log()
    )
    assert (curve.protocol, curve.notes) == (
        "",
        ("NCCL_PROTO is LL and Simple in the log: not known which",),
    )


def test_a_setting_is_of_its_own_test_and_an_export_of_all() -> None:
    info = "[0] NCCL INFO NCCL_PROTO set by environment to LL\n"
    tests = [
        "export NCCL_PROTO=Simple\n",
        "NCCL_ALGO=Tree mpirun\n",
        info,
        "NCCL_ALGO=Ring mpirun\n",
    ]
    curves = parse("".join(before + log() for before in tests)).curves
    assert [(curve.algorithm, curve.protocol) for curve in curves] == [
        ("", "Simple"),
        ("tree", "Simple"),
        ("", "LL"),
        ("ring", "Simple"),
    ]


def test_a_setting_told_late_is_of_the_table_above() -> None:
    body = rows()
    late = log(*body[:2], "[0] NCCL INFO NCCL_ALGO set by environment to Ring", *body[2:])
    first, second = parse(late + log()).curves
    assert (first.algorithm, second.algorithm) == ("ring", "")


def test_a_forced_algorithm_is_one_of_the_collective() -> None:
    gather = log(*shaped(0.75, "float    none      -1"), name="all_gather")
    assert only("NCCL_ALGO=Ring srun\n" + gather).algorithm == "ring_all_gather"
    curve = only("NCCL_ALGO=Tree srun\n" + gather)
    assert (curve.algorithm, curve.notes) == ("", ("NCCL_ALGO=Tree has no effect on all_gather",))


def test_devices_tell_ranks_a_node_and_models() -> None:
    assert (only(log(ranks=4)).gpus_per_node, only(log(ranks=4)).device) == (2, "NVIDIA H100")
    uneven = log().replace("Pid   4203 on      node2", "Pid   4203 on      node1")
    assert (only(uneven).nodes, only(uneven).gpus_per_node) == (2, None)
    mixed = only(log().replace("[0x01] NVIDIA H100", "[0x01] NVIDIA A100"))
    assert (mixed.device, mixed.notes) == ("", ("2 models of GPU: NVIDIA A100, NVIDIA H100",))
