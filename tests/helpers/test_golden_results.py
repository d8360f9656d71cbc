"""What is stored of results, and which differences count."""

import gzip
import json
import math
from pathlib import Path

import pytest

from golden_results import LONGEST, differences, files_of, squeezed


def test_short_lists_stay_and_long_ones_are_sums() -> None:
    short = {"a": [1, {"b": None}], "origin": {"versions": 3}}
    assert squeezed(short) == {"a": [1, {"b": None}]}
    rows = [{"t": float(k), "name": f"r{k}"} for k in range(LONGEST + 1)]
    long = squeezed(rows)
    assert long["count"] == len(rows)
    assert long["ends"] == [rows[0], rows[-1]]
    assert long["columns"][".t"][:2] == [len(rows), sum(range(len(rows)))]


@pytest.mark.parametrize("changed", [("t", 3.5), ("name", "other"), ("u", 1)])
def test_a_change_within_a_long_list_is_seen(changed: tuple[str, object]) -> None:
    rows = [{"t": float(k), "name": f"r{k}"} for k in range(2 * LONGEST)]
    before = squeezed(rows)
    rows[LONGEST] = rows[LONGEST] | dict([changed])
    assert list(differences(before, squeezed(rows), 1e-12))


def test_two_values_that_change_places_are_seen() -> None:
    numbers = [float(k) for k in range(2 * LONGEST)]
    swapped = [numbers[1], *numbers[2:3], numbers[0], *numbers[3:]]
    before, after = (squeezed([0.0, *each, 0.0]) for each in (numbers, swapped))
    assert list(differences(before, after, 1e-12))


def test_numbers_differ_beyond_a_relative_tolerance() -> None:
    assert not list(differences({"a": [1.0, 2]}, {"a": [1.0 + 1e-13, 2]}, 1e-12))
    ((size, words),) = differences({"a": [1.0, 2]}, {"a": [1.01, 2]}, 1e-12)
    assert size == pytest.approx(0.01)
    assert words == ".a[0]: 1.0, now 1.01"
    assert [size for size, _ in differences({"a": 1}, {"b": 1}, 1.0)] == [math.inf] * 2
    assert list(differences([1], [1, 2], 1.0))
    assert list(differences(True, 1, 1.0))


def test_files_are_read_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.json.gz").write_bytes(gzip.compress(json.dumps([1]).encode()))
    (tmp_path / "b.et").write_bytes(b"four")
    assert files_of(tmp_path) == {"b.et": 4, "sub/a.json.gz": [1]}
