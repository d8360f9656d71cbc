"""Steps of plans as text."""

from __future__ import annotations

import pytest

from experiments.parallel.plan_report import text
from tests.experiments.parallel.test_plan_run import SMALL, simulated


@pytest.mark.parametrize(
    ("plan", "model", "machine", "words"),
    [
        (
            "dp=2,tp=2,pp=2,batch=16,zero=1",
            SMALL,
            "dgx_a100",
            ("exposed tp", "gather parameters", "devices of the pipeline", "(MFU)"),
        ),
        (
            "dp=8,batch=16,zero=3,shard=4",
            SMALL,
            "dgx_a100",
            ("exposed gather", "exposed reduce", "across replicas", "copy gradients"),
        ),
        (
            "dp=8,zero=3",
            "llama3_8b",
            "hgx_h100",
            ("gathered units", "logits and loss", "of 85.9GB (h100)", "redundant"),
        ),
        (
            "ep=8,router=zipf:0.5,seed=2",
            "mixtral_8x7b:layers=2",
            "hgx_h100",
            ("zipf:0.5, seed 2", "busiest rank", "dropped", "combine", "returns to its owner"),
        ),
    ],
)
def test_a_report_names_parts_of_the_step_and_of_the_memory(
    plan: str, model: str, machine: str, words: tuple[str, ...]
) -> None:
    report = text(simulated(plan, model, machine))
    for word in words:
        assert word in report
