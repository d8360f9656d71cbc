"""Packed trees beside rings and a tree, as the page shows them."""

import csv
import re
from io import StringIO
from pathlib import Path

import pytest

from simctl_process import Simctl
from topologies.units import format_seconds

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "choose-an-algorithm.md"
ROW = re.compile(r"\| `(\S+)` \| (\d+) \| (\S+s) \| (\S+s) \| (\S+s) \|")
ROWS = ROW.findall(PAGE.read_text())


def test_the_page_has_all_machines() -> None:
    assert [row[0].removeprefix("examples/") for row in ROWS] == [
        "topo_m.txt",
        "dgx1",
        "mi300x",
        "torus_broken_link.yaml",
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_packed_trees_are_faster_than_rings_and_a_tree(
    row: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, command: Simctl
) -> None:
    monkeypatch.chdir(ROOT)
    machine, ranks, *shown = row
    arguments = ("--topology", machine, "--p", ranks, "--size", "1GiB", "--format", "csv")
    printed = command("sweep", "--algo", "rings,tree,optimal", *arguments).stdout
    seconds = [float(line["time_s"]) for line in csv.DictReader(StringIO(printed))]
    assert [format_seconds(time) for time in seconds] == shown
    assert seconds[2] < min(seconds[:2])
