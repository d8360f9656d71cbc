"""The page of patterns names every collective, and algorithms of it."""

import re
from pathlib import Path

from simulator.collectives import algorithms, find

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "patterns.md").read_text()


def test_every_collective_has_a_row_with_algorithms_of_it() -> None:
    listed = set[str]()
    for line in PAGE.splitlines():
        cells = [re.findall(r"`([a-z_]+)`", cell) for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[0] and cells[2]:
            assert {find(name).collective.name for name in cells[2]} == {*cells[0]}, line
            listed |= {*cells[0]}
    assert listed == {algorithm.collective.name for algorithm in algorithms().values()}
