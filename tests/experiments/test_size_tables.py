"""Files of sizes: what is read, and what is refused with file and line."""

from pathlib import Path

from experiments.size_tables import MOST_BYTES, parse_table, read_table
from grouped_cases import each_case
from refusals import refusal


def test_a_matrix_and_a_row_of_chunks() -> None:
    assert parse_table("# bytes\n0, 1e3\n\n2,0\n", "m").rows == ((0.0, 1000.0), (2.0, 0.0))
    assert parse_table("4,1,3", "m").rows == ((4.0, 1.0, 3.0),)


@each_case(
    ("text", "message"),
    [
        ("", "m is empty: expected a row of bytes for each rank"),
        ("# nothing\n", "m is empty: expected a row of bytes for each rank"),
        ("1,2\n3\n", "m line 2: 1 numbers, and 2 before"),
        ("1,x\n", "m line 1: 'x' is no number of bytes from 0 to 1e18"),
        ("1,-2\n", "m line 1: '-2' is no number of bytes from 0 to 1e18"),
        ("1,nan\n", "m line 1: 'nan' is no number of bytes from 0 to 1e18"),
        ("1,\n", "m line 1: '' is no number of bytes from 0 to 1e18"),
        ("0,0\n0,0\n", "m: all sizes are 0: expected one above 0"),
        ("1,2\n" * 3, "m: 3 rows of 2 numbers: expected as many rows as columns, or one row"),
        ("1," * 3000 + "1", "m line 1: more than 2048 ranks"),
    ],
)
def test_other_tables_are_refused(text: str, message: str) -> None:
    assert refusal(parse_table, text, "m") == message


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_bytes(b"\xff\xfe1,2")
    assert refusal(read_table, tmp_path / "m.csv").endswith(
        "is not UTF-8: expected a CSV of numbers"
    )
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert "larger than 32 MiB" in refusal(read_table, tmp_path / "large.csv")
