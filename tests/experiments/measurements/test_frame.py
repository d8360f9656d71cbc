"""A curve as a table: a row for each point, whatever was read."""

from pathlib import Path

import pandas as pd

from experiments.measurements import Curve, Point, read

LOUD = Curve("all_gather", None, None, (), (Point(64, 1e-5, 3),), "y.csv", capped=True)
CURVE = Curve(
    "all_reduce",
    4,
    2,
    (Point(8, 2e-6), Point(16, 3e-6, 0, 0.01, 20, 1e-6, 4e-6, 3.1e-6)),
    (Point(8, 1e-6),),
    "x.csv",
    ("one", "two"),
    algorithm="ring",
    gpus_per_node=2,
)
TYPES = {
    "collective": "string",
    "ranks": "Int64",
    "size_B": "int64",
    "in_place": "bool",
    "time_s": "float64",
    "wrong": "Int64",
    "cv": "float64",
    "capped": "bool",
}


def test_a_row_for_each_point() -> None:
    table = CURVE.to_frame()
    assert {name: str(table[name].dtype) for name in TYPES} == TYPES
    assert table["size_B"].tolist() == [8, 16, 8]
    assert table["time_s"].tolist() == [2e-6, 3e-6, 1e-6]
    assert table["in_place"].tolist() == [False, False, True]
    assert table["algorithm"].tolist() == ["ring"] * 3
    assert LOUD.to_frame()[["size_B", "in_place", "capped"]].values.tolist() == [[64, True, True]]


def test_what_is_not_known_is_missing_and_not_zero() -> None:
    table = CURVE.to_frame()
    assert LOUD.to_frame()["ranks"].isna().all()
    assert table["wrong"].isna().tolist() == [True, False, True]
    assert table["cv"].isna().tolist() == [True, False, True]
    statistics = table[["wrong", "repetitions", "min_s", "p90_s", "mean_s"]].to_dict("records")[1]
    assert list(statistics.values()) == [0, 20, 1e-6, 4e-6, 3.1e-6]


def test_a_curve_without_points_is_a_table_without_rows() -> None:
    table = Curve("reduce", 2, 1, (), (), "z.csv").to_frame()
    assert len(table) == 0
    assert {name: str(table[name].dtype) for name in TYPES} == TYPES


def test_tables_of_a_file_can_be_joined(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(
        "collective,algorithm,ranks,size_bytes,time_us\nallreduce,Ring,4,8,1\n"
        "allreduce,Tree,4,8,2\n"
    )
    table = pd.concat(curve.to_frame() for curve in read(path).curves)
    assert table.groupby("algorithm")["time_s"].sum().to_dict() == {"ring": 1e-6, "tree": 2e-6}
    assert set(table["source"]) == {str(path)}
