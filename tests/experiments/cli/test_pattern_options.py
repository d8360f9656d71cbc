"""Roots and sizes on the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from simctl_process import Simctl


def test_a_matrix_is_simulated_at_its_size(command: Simctl, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("0,6e9,2e9\n1e9,0,0\n0,3e9,0\n")
    line = ("run", "--algo", "posted_all_to_allv", "--topology", "star")
    report = command(
        *line, "--bandwidth", "1GB/s", "--latency", "0s", "--matrix", str(tmp_path / "m.csv"),
        "--format", "json",
    )  # fmt: skip
    summary = json.loads(report.stdout)["summary"]
    assert (summary["size_B"], summary["volume_B"]) == (4e9, 12e9)
    assert summary["time_s"] == summary["bound_s"] == 9.0


def test_a_router_has_a_seed(command: Simctl) -> None:
    def time(skew: str) -> float:
        line = ("run", "--algo", "linear_gatherv", "--p", "5", "--skew", skew, "--topology", "ring")
        return float(json.loads(command(*line, "--format", "json").stdout)["summary"]["time_s"])

    assert time("zipf:1.2") == time("zipf:1.2,seed=0") != time("zipf:1.2,seed=4")


def test_a_tolerance_reports_its_error(command: Simctl) -> None:
    line = ("run", "--algo", "posted_all_to_allv", "--p", "8", "--skew", "zipf:1.2")
    rules = ("--topology", "star", "--sharing", "fair:tolerance=1e-2")
    text = command(*line, *rules).stdout
    assert "messages end at multiples of" in text
    report = json.loads(command(*line, *rules, "--format", "json").stdout)
    assert 0 < report["grid_error_s"] < report["summary"]["time_s"] / 20
    assert report["summary"]["grid_error_s"] == report["grid_error_s"]
    exact = json.loads(command(*line, *rules[:-1], "fair", "--format", "json").stdout)
    assert "grid_s" not in exact
    assert "grid_error_s" not in exact["summary"]
    sweep = ("sweep", *line[1:], *rules)
    assert "off by" in command(*sweep).stdout
    [row] = csv.DictReader(io.StringIO(command(*sweep, "--format", "csv").stdout))
    assert float(row["grid_error_s"]) == report["grid_error_s"]
    assert "off by" not in command(*sweep[:-1], "fair").stdout


def test_a_tolerance_reports_its_error_for_groups(command: Simctl) -> None:
    line = ("run", "--algo", "ring", "--p", "4", "--groups", "0,1;2,3", "--topology", "star")
    rules = ("--sharing", "fair:tolerance=1e-2")
    change = command(*line, *rules).stdout.splitlines()[3]
    assert change.startswith("messages end at multiples of ")
    report = json.loads(command(*line, *rules, "--format", "json").stdout)
    assert report["grid_error_s"] >= report["grid_s"]
    assert [call["grid_error_s"] for call in report["calls"]] == [report["grid_error_s"]] * 2
    assert report["calls"][0]["alone_grid_error_s"] > 0
    assert "grid" not in command(*line, "--sharing", "fair", "--format", "json").stdout


def test_a_barrier_has_no_busiest_links(command: Simctl) -> None:
    text = command("run", "--algo", "central_barrier", "--p", "4", "--topology", "star").stdout
    assert "\n\ncentral_barrier, 4 ranks, 64MiB on star: 4us" in text
    assert "busiest" not in text
