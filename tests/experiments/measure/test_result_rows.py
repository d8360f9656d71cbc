"""Rows, and the file that they are kept in."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from experiments import output
from experiments.measure.points import MeasurementPlan, MeasurementPoint, points
from experiments.measure.result_rows import CELLS, ResultFile, ResultRow, key_of, read_rows, row_of
from experiments.templates import cell
from grouped_cases import each_case
from refusals import refusal

PLAN = MeasurementPlan(
    "gloo", "cpu", "float32", 2, "", points(["all_gather", "ring"], [4096.0], 2, "float32")
)
ABOUT = {"device": "cpu", "library": "torch 2.13.0", "source": "laptop"}


def row(point: MeasurementPoint = PLAN.points[0]) -> ResultRow:
    return row_of(PLAN, point, np.array([[1.0, 5.0, 2.0], [3.0, 4.0, 1.0]]) / 1e6, 0, 1, ABOUT)


def test_a_repetition_takes_as_long_as_its_slowest_rank() -> None:
    assert (row().time_us, row().min_us, row().mean_us, row().repetitions) == pytest.approx(
        (3, 2, 10 / 3, 3)
    )
    assert row().p90_us == pytest.approx(4.6)
    assert row().cv == pytest.approx(np.std([3, 5, 2]) / np.mean([3, 5, 2]))
    assert [row(point).in_place for point in PLAN.points] == [0, 1]


def test_the_table_has_bandwidths_as_nccl_tests_counts_them() -> None:
    shown = [cell(column, asdict(row())) for column in CELLS.values()]
    assert shown == [
        "all_gather",
        "-",
        "2",
        "4KiB",
        "3us",
        "4.6us",
        "37.4%",
        "1.365GB/s",
        "682.7MB/s",
        "0",
    ]
    record = asdict(row(MeasurementPoint("barrier", "", 0, 0)))
    barrier = [cell(column, record) for column in CELLS.values()]
    assert barrier[3] == barrier[7] == barrier[8] == ""


def test_every_row_is_kept_at_once_and_found_again(tmp_path: Path) -> None:
    record = ResultFile(tmp_path / "runs.csv")
    for point in PLAN.points:
        record.add(row(point))
        assert read_rows(tmp_path / "runs.csv") == record.rows
    assert [row.key for row in record.rows] == [key_of(PLAN, point) for point in PLAN.points]
    assert [path.name for path in tmp_path.iterdir()] == ["runs.csv"]


def test_the_name_of_a_gpu_is_not_part_of_the_key() -> None:
    gpu = replace(PLAN, device="cuda")
    assert replace(row(), device="cuda (NVIDIA H200)").key == key_of(gpu, PLAN.points[0])


def test_a_run_that_was_stopped_before_its_first_row_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(output.to_csv([asdict(row())]).partition("\n")[0] + "\n")
    assert read_rows(tmp_path / "runs.csv") == []


GOOD = output.to_csv([asdict(row())])


@each_case(
    "content",
    [
        b"",
        b"\x00\x01",
        b"\xff\xfe",
        b"hello\nworld\n",
        GOOD.encode()[:-30],
        GOOD.replace("4096", "4_0.96").encode(),
        GOOD.replace("4096", "9" * 400).encode(),
        GOOD.replace(",cpu,", ",cpu,extra,").encode(),
        GOOD.replace("collective,", "collective,collective,").encode(),
        GOOD.replace(",gloo,", ',"gloo,').encode(),
        GOOD.replace("3.0,", "nan,").encode() if "3.0," in GOOD else b"x",
        ("a" * 200_000).encode(),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_bytes(content)
    refusal(read_rows, tmp_path / "runs.csv")
