"""Names and sizes become points, points rows with what NCCL says that it ran, and rows a file."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from experiments import output
from experiments.measure.points import MeasurementPlan, MeasurementPoint, parse_names, points
from experiments.measure.result_rows import (
    CELLS,
    NcclLog,
    ResultFile,
    ResultRow,
    key_of,
    read_rows,
    row_of,
)
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


def sizes(name: str, size: float, ranks: int, dtype: str = "float32") -> list[int]:
    return [point.size_bytes for point in points([name], [size], ranks, dtype)]


@each_case(
    ("name", "size", "ranks", "dtype", "expected"),
    [
        ("all_reduce", 4096, 3, "float32", 4096),
        ("all_gather", 4096, 3, "float32", 4092),
        ("ring", 4096, 3, "float32", 4092),
        ("halving_doubling", 4096, 3, "float32", 4096),
        ("ring_reduce_scatter", 4096, 5, "float64", 4080),
        ("pairwise", 1, 5, "float32", 20),
        ("all_reduce", 1, 5, "float64", 8),
        ("all_reduce", 7, 5, "bfloat16", 6),
        ("barrier", 4096, 5, "float32", 0),
    ],
)
def test_sizes_cut_into_whole_chunks(
    name: str, size: float, ranks: int, dtype: str, expected: int
) -> None:
    assert sizes(name, size, ranks, dtype) == [expected]


def test_points_are_in_order_and_once_each() -> None:
    plan = points(["ring", "barrier", "broadcast"], [1.0, 2.0, 64.0], 2, "float32")
    assert plan == (
        MeasurementPoint("all_reduce", "ring", 2, 8),
        MeasurementPoint("all_reduce", "ring", 16, 64),
        MeasurementPoint("barrier", "", 0, 0),
        MeasurementPoint("broadcast", "", 1, 4),
        MeasurementPoint("broadcast", "", 16, 64),
    )
    assert [str(point) for point in plan[1:3]] == ["ring of 64B", "barrier"]


def test_names_count_once() -> None:
    assert parse_names("ring, all_reduce,ring") == ["ring", "all_reduce"]


def test_send_and_receive_takes_two() -> None:
    assert "2 or more" in refusal(points, ["send_recv"], [64.0], 1, "float32")


@each_case("name", ["incast", "central_barrier", "chain_scan", "ring_all_gatherv"])
def test_collectives_whose_results_nobody_checks_are_refused(name: str) -> None:
    assert refusal(parse_names, name).startswith(f"{name} cannot be measured: it is ")


LINE = "node1:42:43 [0] NCCL INFO {}: {} Bytes -> Algo {} proto {} channel{{Lo..Hi}}={{0..7}}\n"


def test_each_point_has_what_ran_since_the_last_one() -> None:
    environment: dict[str, str] = {}
    log = NcclLog(environment)
    assert environment["NCCL_DEBUG"] == "INFO"
    assert environment["NCCL_DEBUG_SUBSYS"] == "TUNING"
    path = Path(environment["NCCL_DEBUG_FILE"])
    small, large = points(["all_reduce"], [1024.0, 2.0**20], 4, "float32")
    [gather] = points(["all_gather"], [4096.0], 4, "float32")
    assert log.ran(small, 4) == ""
    with path.open("a") as file:
        file.write("node1:42:43 [0] NCCL INFO Bootstrap: Using eth0\n")
        file.write(LINE.format("AllReduce", 1, "TREE", "LL"))  # a barrier
        file.write(LINE.format("AllReduce", 1024, "TREE", "LL") * 3)
        file.flush()
        assert log.ran(small, 4) == "tree LL"
        assert log.ran(small, 4) == ""
        file.write(LINE.format("AllReduce", 2**20, "RING", "LL128"))
        file.write(LINE.format("AllReduce", 2**20, "RING", "SIMPLE"))
        file.flush()
        assert log.ran(large, 4) == ""  # it changed its mind
        file.write(LINE.format("AllGather", 1024, "RING", "SIMPLE"))  # bytes of a rank
        file.flush()
        assert log.ran(gather, 4) == "ring_all_gather Simple"


def test_what_the_user_has_set_stays() -> None:
    environment = {"NCCL_DEBUG": "WARN"}
    [point] = points(["all_reduce"], [1024.0], 4, "float32")
    assert NcclLog(environment).ran(point, 4) == ""
    assert environment == {"NCCL_DEBUG": "WARN"}
