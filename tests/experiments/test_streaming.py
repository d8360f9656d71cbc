"""Records that are printed as they come."""

from experiments.output import Record
from experiments.streaming import Column, Csv, Table


def test_a_table_has_its_widths_before_its_rows() -> None:
    lines: list[str] = []
    columns: list[Column[Record]] = [
        Column("name", lambda record: str(record["name"]), words=True),
        Column("n", lambda record: str(record["n"]), 3),
    ]
    table = Table(columns, lines.append)
    table({"name": "a", "n": 1})
    assert lines == ["name    n", "a       1"]
    table({"name": "b", "n": 123})
    assert lines[-1] == "b     123"


def test_a_cell_that_is_wider_after_all_widens_the_rows_to_come() -> None:
    lines: list[str] = []
    table: Table[Record] = Table(
        [Column("n", lambda record: str(record["n"])), Column("m", lambda record: "1")],
        lines.append,
    )
    for n in (1, 123, 1):
        table({"n": n})
    assert lines == ["n  m", "1  1", "123  1", "  1  1"]


def test_csv_has_its_fields_once() -> None:
    lines: list[str] = []
    rows = Csv(lines.append)
    rows({"x": 0.1, "y": "a,b"})
    rows({"x": 1e-9, "y": "c"})
    rows({"x": -1.0, "y": "=c"})
    assert lines == ['x,y\n0.1,"a,b"', "1e-09,c", "-1.0,'=c"]
