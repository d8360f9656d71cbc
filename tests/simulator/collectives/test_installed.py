"""Algorithms of installed packages are found by name, and refused where they are none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from refusals import refusal
from simulator.collectives import every_algorithm, find
from simulator.collectives.installed import installed_algorithms

SOURCE = """
from simulator.collectives.declaration import algorithm
from simulator.schedules.schedule_builder import ScheduleBuilder

@algorithm("broadcast")
def fan(ranks, nbytes):
    star = ScheduleBuilder(ranks, nbytes)
    for rank in range(1, ranks):
        star.copy(0, rank, slot=0)
    return star.build()

from dataclasses import replace

ring = replace(fan, name="ring")
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, with a package whose entry points the tests write."""
    (tmp_path / "simctl_fan_package.py").write_text(SOURCE)
    (tmp_path / "fan-1.0.dist-info").mkdir()
    (tmp_path / "fan-1.0.dist-info" / "METADATA").write_text("Name: fan\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed_algorithms.cache_clear()
    yield tmp_path / "fan-1.0.dist-info" / "entry_points.txt"
    sys.modules.pop("simctl_fan_package", None)
    installed_algorithms.cache_clear()


def test_an_entry_point_is_an_algorithm(packages: Path) -> None:
    packages.write_text("[simctl.algorithms]\nfan = simctl_fan_package:fan\n")
    fan = find("fan")
    assert fan.build(4, 8.0).volume == 24.0
    assert fan.origin == "fan's entry point 'fan'"
    assert "fan" in every_algorithm()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("simctl_fan_package:ring", "another algorithm is called 'ring' already"),
        ("simctl_fan_package:SOURCE", "AttributeError"),
        ("simctl_fan_package:algorithm", "is no algorithm"),
        ("no_such_module:x", "ModuleNotFoundError"),
    ],
)
def test_an_entry_point_that_is_no_algorithm_is_refused(
    packages: Path, value: str, words: str
) -> None:
    packages.write_text(f"[simctl.algorithms]\nfan = {value}\n")
    assert words in refusal(installed_algorithms)
