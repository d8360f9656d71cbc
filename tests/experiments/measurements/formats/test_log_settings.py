"""What logs and labels force, the library that a log names, and what NCCL says that it runs."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from experiments.calibration.calibrated_profile import points
from experiments.calibration.libraries import NCCL
from experiments.measurements import Curve, Point
from experiments.measurements.formats import text as texts
from experiments.measurements.formats.log_settings import (
    ForcedChoice,
    add_choice,
    forced_by,
    labels_of,
    read_label,
)
from experiments.spellings import canonical_algorithm, canonical_protocol
from grouped_cases import each_case
from nccl_logs import SIZES, log, only, parse, rows, shaped
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


NEW = "node1:4242:4250 [0] NCCL INFO {}: {} Bytes -> Algo {} proto {} channel{{Lo..Hi}}={{0..7}}"
OLD = "node1:4242:4250 [0] NCCL INFO {} Bytes -> Algo {} proto {} time 6.9"


def labelled(lines: list[str]) -> Curve:
    """A log in which NCCL says before each row what it runs."""
    body = [line for pair in zip(lines, rows(), strict=True) for line in pair]
    return only(log(*body))


def test_each_size_has_what_nccl_says() -> None:
    protocols = ("LL", "LL128", "SIMPLE", "SIMPLE")
    lines = [
        NEW.format("AllReduce", size, "RING", protocol)
        for size, protocol in zip(SIZES, protocols, strict=False)
    ]
    curve = labelled(lines)
    assert [point.ran for point in curve.points][:3] == ["ring LL", "ring LL128", "ring Simple"]
    parts = curve.by_label
    assert [(part.algorithm, part.protocol) for part in parts] == [
        ("ring", "LL"),
        ("ring", "LL128"),
        ("ring", "Simple"),
    ]
    assert sum(len(part.points) for part in parts) == len(curve.points)


def test_older_versions_print_numbers() -> None:
    curve = labelled([OLD.format(size, 0, 2) for size in SIZES])
    assert {point.ran for point in curve.points} == {"tree Simple"}


@each_case(
    ("line", "key", "label"),
    [
        (
            NEW.format("AllGather", 256, "RING", "LL"),
            ("all_gather", 1024),
            ("ring_all_gather", "LL"),
        ),
        (NEW.format("AllGather", 1024, "NVLS", "SIMPLE"), ("all_gather", 1024), ("nvls", "Simple")),
        (NEW.format("AllReduce", 1024, "PAT", "LL"), ("all_gather", 1024), None),
        (OLD.format(1024, 1, 1), ("all_gather", 1024), ("ring_all_gather", "LL128")),
        (OLD.format(1024, 99, 9), ("all_reduce", 1024), ("99", "9")),
        ("NCCL INFO 1024 Bytes -> Algo", ("all_reduce", 1024), None),
        ("NCCL INFO x Bytes -> Algo 1 proto 1", ("all_reduce", 1024), None),
    ],
)
def test_bytes_are_of_one_rank_or_of_all(
    line: str, key: tuple[str, int], label: tuple[str, str] | None
) -> None:
    choices: dict[tuple[str, int], set[tuple[str, str]]] = {}
    add_choice(choices, line)
    collective, size = key
    labels = labels_of(choices, collective, 4, [size]).get(size)
    assert (labels and labels[1]) == (label and label[1])
    assert labels is None or label is None or labels[0] in (label[0], f"{label[0]}_all_gather")


def test_a_size_of_several_choices_has_no_label() -> None:
    first = NEW.format("AllReduce", SIZES[0], "RING", "LL")
    body = [first, first.replace("RING", "TREE"), *rows()]
    assert {point.ran for point in only(log(*body)).points} == {""}


def test_labels_of_one_test_are_not_those_of_the_next() -> None:
    lines = [NEW.format("AllReduce", size, "RING", "LL") for size in SIZES]
    text = log(*[line for pair in zip(lines, rows(), strict=True) for line in pair]) + log()
    curves = parse(text).curves
    assert [{point.ran for point in curve.points} for curve in curves] == [{"ring LL"}, {""}]


def test_a_fit_takes_labels_for_forced_choices() -> None:
    sizes = (1024, 2**20, 2**24, 2**28)
    made = [
        Point(size, 2e-5 + size / 1e10, ran="ring LL" if size < 2**20 else "tree Simple")
        for size in sizes
    ]
    curve = Curve("all_reduce", 16, 4, tuple(made), (), "a.csv", library="NCCL 2.24")
    fitted, skipped = points(
        [curve, replace(curve, points=tuple(replace(p, ran="") for p in made))], NCCL
    )
    assert not skipped
    labels = [(one.algorithms, one.protocols) for one in fitted.curves]
    assert labels[:2] == [(("ring",), ("short", "LL")), (("double_tree",), ("Simple",))]
    assert labels[2] == (("ring", "double_tree"), ())
    assert np.array_equal(np.sort(fitted.size[:4]), sizes)


def test_lines_of_choices_are_kept_of_huge_logs() -> None:
    noise, line = (
        b"node1:4242:4250 [0] NCCL INFO Connected all rings",
        NEW.format("AllReduce", 8, "TREE", "LL").encode(),
    )
    assert texts._DEBUGGING.sub(b"", noise) == b""
    assert texts._DEBUGGING.sub(b"", line) == line
