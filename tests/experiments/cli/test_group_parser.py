"""`simctl run --groups`."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.commands.run_groups import parse_groups
from simctl_process import Simctl
from simulator.collectives import find

RING, TREE = find("ring"), find("tree")
STAR = ("--topology", "star", "--latency", "0s", "--bandwidth", "1GB/s")


def test_groups_have_ranks_and_words() -> None:
    plain, full = parse_groups("0-2; 0-4:2,7 tree 1KiB stream=1 after=0;", RING, 8.0)
    assert (plain.algorithm, plain.ranks, plain.nbytes) == (RING, (0, 1, 2), 8.0)
    assert (full.algorithm, full.ranks, full.nbytes) == (TREE, (0, 2, 4, 7), 1024.0)
    assert (full.stream, full.waits) == (1, (0,))


def test_contention_is_shown(command: Simctl) -> None:
    line = ("run", "--algo", "push", "--size", "1GB", "--groups", "0,1;0,2 stream=1", *STAR)
    text = command(*line).stdout
    assert "\n\n2 collectives of 3 ranks on star" in text
    assert "every call keeps its promise" in text
    report = json.loads(command(*line, "--format", "json").stdout)
    assert [call["time_s"] for call in report["calls"]] == [1.0, 2.0]
    assert [call["alone_s"] for call in report["calls"]] == [1.0, 1.0]
    assert report["calls"][1]["over_alone"] == 2.0
    assert report["wrong"] == ""


def test_calls_are_a_table_and_a_trace(command: Simctl, tmp_path: Path) -> None:
    line = ("run", "--groups", "0-3;4-7;0-7:4 tree", *STAR, "--format", "csv")
    trace = tmp_path / "groups.json"
    rows = command(*line, "--timeline", str(trace)).stdout.splitlines()
    assert [row.split(",")[1] for row in rows[1:]] == ["0-3", "4-7", "0-4:4"]
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert any("call 2: tree" in name for name in names) or "call 2: tree" in trace.read_text()
