"""A CSV of more rows than any measurement has is refused before its rows are read, with little
memory."""

import tracemalloc
from pathlib import Path

import pytest

from experiments.measurements import read, read_all
from experiments.measurements.formats.runs_csv import csv_reader
from experiments.measurements.formats.runs_csv.csv_index import MOST_LINES, entries
from refusals import refusal

HEADER = "size_bytes,time_us\n"


def test_a_million_rows_are_refused_before_any_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "long.csv"
    file.write_text(HEADER + "".join(f"{8 * k},{k}.5\n" for k in range(1, 1_000_001)))
    monkeypatch.setattr(csv_reader, "_read_row", lambda *row: pytest.fail(f"read {row}"))
    tracemalloc.start()
    message = refusal(lambda: read(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (
        message
        == f"{file} has 1000001 lines: expected at most {MOST_LINES}, split it by collective"
    )
    assert peak < 5 * file.stat().st_size


def test_as_many_rows_as_allowed_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.measurements.formats.runs_csv.csv_index.MOST_LINES", 4)
    file = tmp_path / "long.csv"
    file.write_text(f"{HEADER}8,1\n16,2\n32,3\n")
    assert len(read(file).curves[0].points) == 3
    file.write_text(f"{HEADER}8,1\n16,2\n32,3\n64,4\n")
    assert "has 5 lines: expected at most 4" in refusal(lambda: read(file))


def test_an_index_of_too_many_lines_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.measurements.formats.runs_csv.csv_index.MOST_LINES", 2)
    (tmp_path / "index.csv").write_text("case,family\na,F\nb,F\n")
    assert "has 3 lines" in refusal(lambda: entries(tmp_path / "index.csv"))
    assert "has 3 lines" in refusal(lambda: read_all([tmp_path]))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_do_on_any_system(end: str, tmp_path: Path) -> None:
    file = tmp_path / "ends.csv"
    file.write_bytes(
        end.join(
            ("size_bytes,time_us,source", '8,1.5,"two', 'lines"', "", "16,2.5,\u2028x", "")
        ).encode()
    )
    measurements = read(file)
    assert [point.size for curve in measurements.curves for point in curve.points] == [8, 16]
    assert [curve.source for curve in measurements.curves] == [f"two{end}lines", "\u2028x".strip()]


def test_a_mistake_is_named_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mistake.csv"
    file.write_text(f'{HEADER}8,1\n16,"2\n3"\n')
    assert f"{file} line 4: time_us '2\\n3' is not a number" in refusal(lambda: read(file))
