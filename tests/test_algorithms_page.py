"""The page of algorithms has every algorithm, with who uses it, and that of patterns every
collective."""

import os
import re
from pathlib import Path

import pytest

import algorithms_page
from simulator.collectives import algorithms, find

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_page_is_what_the_catalogue_and_the_csv_files_say() -> None:
    written = algorithms_page.page()
    if os.environ.get("SIMCTL_UPDATE_DOCS"):
        algorithms_page.PAGE.write_text(written)
    assert algorithms_page.PAGE.read_text() == written


def test_every_algorithm_and_collective_has_a_row_and_no_row_is_left_over() -> None:
    known = algorithms()
    assert set(algorithms_page.users("algorithms")) == set(known)
    collectives = {algorithm.collective.name for algorithm in known.values()}
    assert set(algorithms_page.users("collectives")) == collectives


@pytest.mark.parametrize("name", ["algorithms", "collectives"])
def test_who_uses_it_has_a_source(name: str) -> None:
    for key, row in algorithms_page.users(name).items():
        assert row["used by"], key
        assert bool(row["source"]) == (not row["used by"].startswith("none")), key


def test_every_collective_has_a_pattern_with_algorithms_of_it() -> None:
    listed = set[str]()
    for line in (ROOT / "docs" / "reference" / "patterns.md").read_text().splitlines():
        cells = [re.findall(r"`([a-z_]+)`", cell) for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[0] and cells[2]:
            assert {find(name).collective.name for name in cells[2]} == {*cells[0]}, line
            listed |= {*cells[0]}
    assert listed == {algorithm.collective.name for algorithm in algorithms().values()}
