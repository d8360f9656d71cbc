"""Files of sizes: what is read, and what is refused with file and line."""

from pathlib import Path

from experiments.options.pattern_options import MOST_BYTES, parse_table, read_table
from refusals import refusal


def test_a_matrix_and_a_row_of_chunks() -> None:
    assert parse_table("# bytes\n0, 1e3\n\n2,0\n", "m").rows == ((0.0, 1000.0), (2.0, 0.0))
    assert parse_table("4,1,3", "m").rows == ((4.0, 1.0, 3.0),)


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_bytes(b"\xff\xfe1,2")
    assert refusal(read_table, tmp_path / "m.csv").endswith(
        "line 1: not UTF-8: expected a CSV of numbers"
    )
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert "larger than 32 MiB" in refusal(read_table, tmp_path / "large.csv")
