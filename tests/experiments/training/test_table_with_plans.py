"""Strategies and plans in one table, one picture and from Python."""

import csv
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import simctl as door

Simctl = Callable[..., "subprocess.CompletedProcess[str]"]
MODEL = "bert_large:layers=4"
OPTIONS = "--model", MODEL, "--topology", "hgx_h100"
TRAIN, PLAN = ("train", *OPTIONS), ("plan", *OPTIONS)
PLANS = "dp=8,micro=16", "tp=2,micro=16"


def test_a_row_is_the_run_alone(simctl: Simctl, tmp_path: Path) -> None:
    picture = tmp_path / "a.svg"
    done = simctl(*PLAN, "--strategy", "ddp", *PLANS, "--format", "csv", "--plot", picture)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["strategy"] for row in rows] == ["ddp", "dp=8,micro=16", "tp=2,micro=16"]
    strategy = json.loads(simctl(*TRAIN, "--format", "json").stdout)["summary"]
    plan = json.loads(simctl(*PLAN, *PLANS[:1], "--format", "json").stdout)["summary"]
    for row, alone in zip(rows, (strategy, plan), strict=False):
        assert float(row["step_s"]) == alone["step_s"]
        assert float(row["samples_per_s"]) == alone["samples_per_s"]
        assert float(row["exposed_s"]) == alone["exposed_s"]
        parts = (float(row[f"{name}_s"]) for name in ("computing", "exposed", "idle"))
        assert sum(parts) == pytest.approx(alone["step_s"])
    assert float(rows[1]["peak_B"]) == plan["memory_bytes"]
    assert float(rows[0]["peak_B"]) == strategy["peak_B"]
    assert b"exposed communication" in picture.read_bytes()


def test_counts_sweeps_and_conditions_reach_both(simctl: Simctl) -> None:
    options = "--strategy", "ddp,ssgd", "tp=2", "--straggler", "1:1.5"
    table = simctl(*PLAN, *options, "--p", "4,8", "--sweep", "bucket=8MiB,32MiB")
    names = [line.split()[:2] for line in table.stdout.splitlines()[3:]]
    for name in ("ddp:bucket=8MiB", "ddp:bucket=32MiB", "ssgd", "tp=2,bucket=8MiB"):
        assert [name, "4"] in names
        assert [name, "8"] in names
    assert "stops paying" in table.stdout
    plain, slow = (
        json.loads(simctl(*PLAN, *options[:3], *more, "--format", "json").stdout)
        for more in ((), options[3:])
    )
    for place in (0, -1):
        assert slow[place]["step_s"] > plain[place]["step_s"]
        assert slow[place]["efficiency"] < plain[place]["efficiency"]


def test_the_door_has_the_same_rows(simctl: Simctl) -> None:
    rows = door.plan(MODEL, "dp=8; tp=2", "hgx_h100", strategy="ddp:bucket=1MiB")
    assert [row["strategy"] for row in rows] == ["ddp:bucket=1MiB", "dp=8", "tp=2"]
