"""The fastest plans, against a simulation of all."""

from __future__ import annotations

import json
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.pages.reports.result import Result
from experiments.parallel.plan_bounds import PlanBounds
from experiments.parallel.plan_search import SearchResult, detail_of, find_plans, search
from experiments.parallel.plan_step import memory_of, work_of
from experiments.parallel.plan_text import parse_plan
from grouped_cases import each_case
from simctl_process import Simctl
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.parallel.step_measures import measure
from tests.experiments.parallel.test_plan_space import GPT, MIXTRAL, space
from topologies.clusters import cluster
from topologies.errors import InputError
from topologies.shapes import star


@cache
def times() -> GroupTimes:
    """Times on two nodes of four GPUs."""
    return GroupTimes(cluster("leonardo", 2), Degrees(dp=8))


@cache
def found(model: str, least: int) -> SearchResult:
    return find_plans(
        space(model, gpus=8, node=4, batch=16, cp=1, recompute="none", micro=2),
        times(),
        least=least,
    )


@pytest.mark.parametrize("model", [GPT, MIXTRAL])
def test_the_fastest_plans_are_those_of_an_exhaustive_simulation(model: str) -> None:
    some, all_plans = found(model, 0), found(model, 10**6)
    assert 10 <= len(some.simulated) < len(all_plans.simulated) == len(all_plans.plans)
    fastest = [[each.seconds for each in result.first] for result in (some, all_plans)]
    assert fastest[0] == fastest[1]
    for each in all_plans.simulated:
        assert each.seconds is not None
        assert each.bound <= each.seconds
        assert sum(each.parts.values()) == pytest.approx(each.seconds)


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        (GPT.replace("layers=4", "layers=7"), {}),
        (GPT, {}),
        (GPT, {"recompute": "full:1", "pp": 2}),
        (GPT, {"lora": 4, "mtp": 1, "micro": 1}),
        (MIXTRAL, {"etp": 1, "tp": 2, "micro": 1}),
    ],
)
def test_bounds_hold_for_steps_in_full(model: str, wanted: dict[str, Any]) -> None:
    searched = space(model, batch=16, **wanted)
    bounds = PlanBounds(searched.training, times())
    for plan in searched.plans()[0][::19]:
        work = work_of(searched.training, plan, times().under(plan.degrees))
        assert bounds.seconds(plan) <= measure(write(work)).step
        needed = memory_of(searched.training, plan, work)
        assert bounds.memory(plan) <= needed.peak * (1 + 1e-9)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"overlap_ep": True, "overlap": False},
        {"dispatcher": "deepep"},
        {"dispatcher": "nvlink"},
    ],
)
def test_bounds_hold_where_experts_wait_for_slow_links(wanted: dict[str, Any]) -> None:
    """Layers hide what they exchange beside other layers, and DeepEP sends a token once to each
    rank."""
    searched = space("qwen3_30b_a3b:layers=4,seq=4096", micro=1, batch=16, ep=8, **wanted)
    slow = GroupTimes(star(8, bandwidth=2e10), Degrees(dp=8))
    bounds, plans = PlanBounds(searched.training, slow), searched.plans()[0]
    for plan in plans[::3]:
        work = work_of(searched.training, plan, slow.under(plan.degrees))
        assert bounds.seconds(plan) <= measure(write(work)).step


def test_changes_of_the_fastest_plans_are_simulated_behind_the_search() -> None:
    result = found(MIXTRAL, 0)
    runs = result.simulated
    plans = [str(each.plan) for each in runs]
    first = [place for place, plan in enumerate(plans) if "dispatch=fp8" in plan]
    changed = [place for place in first if plans[place].replace(",dispatch=fp8", "") in plans]
    assert changed
    assert any("router=zipf:0,nodes=1" in plan for plan in plans)
    for place in changed:
        # A change that helps stays for the next one.
        slower = plans.index(plans[place].replace(",dispatch=fp8", ""))
        assert (runs[place].seconds or inf) <= (runs[slower].seconds or 0.0)
        assert runs[place].bound == runs[place].seconds
    assert (
        str(sum(result.left_out.values()) + len(result.plans))
        in Result("plans", result.figures()).text()
    )


def test_a_report_says_why_plans_lose() -> None:
    result = found(GPT, 0)
    listed = result.rows
    assert listed[0]["loses_to"] == ""
    assert [row["step_s"] for row in listed[:10]] == sorted(
        row["step_s"] or 0 for row in listed[:10]
    )
    assert listed[-1]["step_s"] is None
    page = Result("plans", result.figures()).text()
    assert f"{len(result.plans)} fit and are bounded" in page
    assert "tp reaches beyond a node" in page
    assert str(result.first[0].plan) in page
    assert set(result.figures()) == {"left_out", "plans", "parts_s"}


def test_a_model_that_does_not_fit_is_refused() -> None:
    error = "no plan of gpt3_1t on 8 GPUs fits in memory: .*: take more GPUs or a smaller model"
    with pytest.raises(InputError, match=error):
        find_plans(space("gpt3_1t", batch=8), times())


@each_case(
    ("model", "plan", "detail"),
    [
        (GPT, "dp=8,batch=16", "layers"),
        ("llama3_70b", "tp=4,pp=2,batch=4096", "passes"),
        ("gpt3_1_7b", "dp=8,batch=65536,micro=4", "passes"),
        ("gpt3_1_7b:hidden=256,heads=8,seq=128", "dp=8,batch=65536,micro=4", "layers"),
    ],
)
def test_long_steps_are_simulated_by_passes(model: str, plan: str, detail: str) -> None:
    """Unless the CPU may limit them."""
    written = parse_plan(plan, 8)
    work = work_of(space(model).training, written, times().under(written.degrees))
    assert detail_of(work) == detail


BOUNDS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=30)


@given(BOUNDS, st.integers(1, 5), st.integers(0, 8))
def test_the_first_times_are_those_of_all_plans(
    plans: list[tuple[int, int]], keep: int, least: int
) -> None:
    times = [float(bound + more) for bound, more in plans]
    result = search([bound for bound, _ in plans], times.__getitem__, keep, least)
    assert sorted(set(result.values()))[:keep] == sorted(set(times))[:keep]
    assert len(result) >= min(least, len(plans))
    assert all(times[number] == seconds for number, seconds in result.items())


def test_plans_with_long_bounds_are_not_simulated() -> None:
    assert search([1.0, 5.0, 2.0], [1.5, 0.0, 2.5].__getitem__, keep=1, least=0) == {0: 1.5}


def test_plans_of_infinite_seconds_are_left_out() -> None:
    times = [inf, 3.0, 2.0].__getitem__
    assert search([1.0, 2.0, 2.0], times, keep=1, least=1) == {2: 2.0, 1: 3.0}


SEARCH = "plan", "--model", GPT, "--topology", "dgx_a100", "auto,cp=1"


def test_a_search_is_printed_stored_and_drawn(simctl: Simctl, tmp_path: Path) -> None:
    out, plot = tmp_path / "plans.csv", tmp_path / "plans.svg"
    command = *SEARCH, "--gpus", "4", "--batch", "8", "--tokens", "2B"
    printed = simctl(*command, "--out", out, "--plot", plot)
    assert printed.returncode == 0, printed.stderr
    table = pd.read_csv(out)
    figures = json.loads(simctl(*command, "--format", "json").stdout)
    assert [row["plan"] for row in figures["plans"]] == table.plan.tolist()
    assert table.plan[0] in printed.stdout
    assert (table.bound_s <= table.step_s)[table.step_s.notna()].all()
    assert "memory of the fullest rank" in plot.read_text()
    headings = printed.stdout.splitlines()[5]
    assert all(name in headings for name in ("MFU", "days", "GPU hours"))
    assert table.gpu_hours[0] == pytest.approx(table.days[0] * 24 * 4)
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
    assert "90% of steps" in printed.stdout.splitlines()[5]
    assert "| step | expected | 90% of steps |" in page.read_text()
    searched = json.loads(simctl(*command, "--format", "json").stdout)["plans"]
    sure = [row for row in searched if row["level"] is not None]
    assert {row["level"] for row in sure} == {0.9}
    assert len(sure) == sum("  dp=" in line for line in printed.stdout.splitlines())
    for row in (sure[0], sure[-1]):
        assert row["low_s"] < row["expected_s"] < row["high_s"]
        step = simctl("plan", "--model", GPT, *options, row["plan"], "--format", "json")
        whole = json.loads(step.stdout)["summary"]
        for name in ("expected_s", "low_s", "high_s"):
            assert row[name] == pytest.approx(whole[name])
