"""What NCCL says that it runs: a label of each size, and parts of a curve for a fit."""

from dataclasses import replace

import numpy as np

from experiments.calibration.calibrated_profile import points
from experiments.calibration.libraries import NCCL
from experiments.measurements import Curve, Point
from experiments.measurements.formats import text as texts
from experiments.measurements.formats.tuning_lines import add_choice, labels_of
from grouped_cases import each_case
from nccl_logs import SIZES, log, only, parse, rows

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
