"""Commands and imports of a start."""

import sys

import pytest

from experiments.studies import start_up
from experiments.studies.process_usage import ProcessUsage


def test_the_time_of_a_process_counts() -> None:
    idle = start_up.used((sys.executable, "-c", "pass"), {}).cpu
    busy = start_up.used((sys.executable, "-c", "for _ in range(10**7): pass"), {}).cpu
    assert 0 <= idle < busy


def test_each_row_has_its_multiple_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_up, "unit", lambda: 0.5)
    monkeypatch.setattr(start_up, "used", lambda line, variables: ProcessUsage(0.25, 0.3, 1e6))
    heads, *rows = start_up.commands()
    assert heads == ["command", "compiled code", "CPU", "over the loop", "elapsed"]
    assert len(rows) == 7
    assert all(row[2:] == ["250ms", "0.50", "300ms"] for row in rows)


def test_imports_are_summed_by_package() -> None:
    text = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:       100 |        300 | numpy.core\n"
        "import time:       200 |        300 |   numpy\n"
        "import time:       100 |        100 | csv\n"
    )
    assert start_up.imports(text)[1:] == [["numpy", "300us", "75%"], ["csv", "100us", "25%"]]
