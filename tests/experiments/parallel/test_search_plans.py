"""`simctl plan auto`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from grouped_cases import each_case
from tests.experiments.parallel.test_plan_space import GPT

Simctl = Callable[..., "subprocess.CompletedProcess[str]"]
SEARCH = "plan", "--model", GPT, "--topology", "dgx_a100", "auto,cp=1"


def test_a_search_is_printed_stored_and_drawn(simctl: Simctl, tmp_path: Path) -> None:
    out, plot = tmp_path / "plans.csv", tmp_path / "plans.svg"
    command = *SEARCH, "--gpus", "4", "--batch", "8"
    printed = simctl(*command, "--out", out, "--plot", plot)
    assert printed.returncode == 0, printed.stderr
    table = pd.read_csv(out)
    figures = json.loads(simctl(*command, "--format", "json").stdout)
    assert [row["plan"] for row in figures["plans"]] == table.plan.tolist()
    assert table.plan[0] in printed.stdout
    assert (table.bound_s <= table.step_s)[table.step_s.notna()].all()
    assert "memory of the fullest rank" in plot.read_text()
    stored = json.loads((tmp_path / "plans.csv.meta.json").read_text())
    assert stored["parameters"]["plan"] == "auto,cp=1"
    assert stored["parameters"]["batch"] == 8


def test_the_printed_plans_have_the_intervals_of_their_steps(
    simctl: Simctl, tmp_path: Path
) -> None:
    options = "--topology", "dgx_a100", "--gpus", "4", "--library", "nccl", "--level", "0.9"
    page = tmp_path / "plans.md"
    plans = "auto,cp=1,pp=1,recompute=none"
    command = "plan", "--model", GPT, *options, "--batch", "8", plans
    printed = simctl(*command, "--report", page)
    assert printed.returncode == 0, printed.stderr
    assert "90% of steps" in printed.stdout.splitlines()[4]
    assert "| step | expected | 90% of steps |" in page.read_text()
    found = json.loads(simctl(*command, "--format", "json").stdout)["plans"]
    sure = [row for row in found if row["level"] is not None]
    assert {row["level"] for row in sure} == {0.9}
    assert len(sure) == sum("  dp=" in line for line in printed.stdout.splitlines())
    for row in (sure[0], sure[-1]):
        assert row["low_s"] < row["expected_s"] < row["high_s"]
        step = simctl("plan", "--model", GPT, *options, row["plan"], "--format", "json")
        whole = json.loads(step.stdout)["summary"]
        for name in ("expected_s", "low_s", "high_s"):
            assert row[name] == pytest.approx(whole[name])


@each_case(
    ("arguments", "error"),
    [
        (("--timeline", "x.png"), "with auto take --plot"),
        (("--detail", "transfers"), "--detail transfers: it does not go with auto"),
        (("--topology", "star"), "say on how many GPUs, like --gpus 64"),
        (("--batch", "0"), "--batch"),
        (("--gpus", "4", "--level", "0.9"), "--level 0.9 goes with --profile or --library"),
    ],
)
def test_a_search_refuses_other_options(
    simctl: Simctl, arguments: tuple[str, ...], error: str
) -> None:
    refused = simctl(*SEARCH, *arguments)
    assert refused.returncode == 2
    assert error in refused.stderr
