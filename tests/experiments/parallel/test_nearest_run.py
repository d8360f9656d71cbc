"""The measured run beside a prediction."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from experiments.models.model_catalogue import find_transformer
from experiments.parallel import nearest_run as module
from experiments.parallel.nearest_run import nearest_run
from experiments.parallel.plan_text import parse_plan
from shipped_shapes import training

PLAN = "dp=2,tp=4,pp=8,batch=128,zero=1,sp=yes,v=5,uneven=yes"


def run_of(model: str, plan: str, device: str = "h100", dtype: str = "fp8") -> str:
    """The nearest run of a plan."""
    usual = training(model, device)
    chosen = replace(usual, times=replace(usual.times, dtype=dtype))
    return nearest_run(chosen, parse_plan(plan))


def test_a_run_with_the_same_plan_is_the_nearest() -> None:
    assert "on 64 GPUs, dp=2,tp=4,pp=8," in run_of("llama3_70b", PLAN)


def test_no_run_of_another_model_device_or_precision_is_near() -> None:
    assert not run_of("gpt2", "dp=8")
    assert not run_of("llama3_70b", PLAN, "a100", "bf16")
    assert not run_of("llama3_70b:layers=40", PLAN)
    assert not run_of("llama3_70b", PLAN, dtype="fp8_block")


def test_a_run_far_away_is_not_shown() -> None:
    assert not run_of("llama3_70b", "dp=256,tp=1,pp=1,batch=4096,zero=1")


def test_all_shipped_runs_are_plans_of_models_with_their_source() -> None:
    path = Path(module.__file__).with_name("measured_runs.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 100
    for row in rows:
        plan, entry = parse_plan(row["plan"]), find_transformer(row["model"])
        assert plan.micro_batches
        assert entry.shape.parameters
        assert float(row["seconds"]) > 0
        assert row["source"]
