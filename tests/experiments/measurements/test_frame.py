"""One tidy frame: a row a point, its columns and types, whatever was read."""

from pathlib import Path

from experiments.measurements import Curve, Measurements, Point, frame, read
from experiments.measurements.frame import COLUMNS

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


def test_a_row_a_point() -> None:
    table = frame([Measurements((CURVE,)), Measurements((LOUD,))])
    assert list(table.columns) == list(COLUMNS)
    assert {name: str(kind) for name, kind in table.dtypes.items()} == COLUMNS
    assert table["size_B"].tolist() == [8, 16, 8, 64]
    assert table["time_s"].tolist() == [2e-6, 3e-6, 1e-6, 1e-5]
    assert table["in_place"].tolist() == [False, False, True, True]
    assert table["curve"].tolist() == [0, 0, 0, 1]
    assert table["notes"].tolist() == ["one; two"] * 3 + [""]
    assert table["algorithm"].tolist() == ["ring"] * 3 + [""]
    assert table["capped"].tolist() == [False] * 3 + [True]


def test_what_is_not_known_is_missing_and_not_zero() -> None:
    table = frame([Measurements((CURVE, LOUD))])
    assert table["ranks"].isna().tolist() == [False, False, False, True]
    assert table["wrong"].isna().tolist() == [True, False, True, False]
    assert table["cv"].isna().tolist() == [True, False, True, True]
    told = table[["wrong", "repetitions", "min_s", "p90_s", "mean_s"]].to_dict("records")[1]
    assert list(told.values()) == [0, 20, 1e-6, 4e-6, 3.1e-6]


def test_nothing_is_a_frame_without_rows() -> None:
    table = frame([])
    assert len(table) == 0
    assert {name: str(kind) for name, kind in table.dtypes.items()} == COLUMNS


def test_a_file_as_a_frame(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(
        "collective,algorithm,ranks,size_bytes,time_us\nallreduce,Ring,4,8,1\nallreduce,Tree,4,8,2\n"
    )
    table = frame([read(path)])
    assert table.groupby("algorithm")["time_s"].sum().to_dict() == {"ring": 1e-6, "tree": 2e-6}
    assert set(table["source"]) == {str(path)}
