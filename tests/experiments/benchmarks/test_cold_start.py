"""The first commands on a machine."""

import sys

import pytest

from experiments.benchmarks import cold_start


def test_the_time_of_a_process_counts() -> None:
    idle = cold_start.cpu((sys.executable, "-c", "pass"), {})
    busy = cold_start.cpu((sys.executable, "-c", "for _ in range(10**7): pass"), {})
    assert 0 <= idle < busy


def test_each_row_has_its_multiple_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_start, "unit", lambda: 0.5)
    monkeypatch.setattr(cold_start, "cpu", lambda line, variables: 0.25)
    first, *rows = cold_start.table().splitlines()
    assert first.split() == ["command", "compiled", "code", "CPU", "over", "the", "loop"]
    assert len(rows) == 7
    assert all(row.split()[-2:] == ["250ms", "0.50"] for row in rows)
