"""The plans that a search goes through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_space import Space, parse_space
from experiments.parallel.plan_step import Training, stages_of
from grouped_cases import each_case
from topologies.errors import InputError

GPT = "gpt3_1_7b:layers=4,hidden=512,heads=8,seq=256"
MIXTRAL = "mixtral_8x7b:layers=2,hidden=512,heads=8,seq=256"


def space(
    model: str,
    gpus: int = 8,
    node: int = 4,
    wanted: Mapping[str, object] | None = None,
    **values: object,
) -> Space:
    """Plans of a model on A100s."""
    entry = find_transformer(model)
    training = Training(entry.name, entry.shape, entry.size, DeviceTimes("a100"))
    return Space(training, gpus, node, {**(wanted or {}), **values})


@pytest.mark.parametrize("model", [GPT, MIXTRAL])
def test_all_plans_fit_the_model_the_batch_and_the_gpus(model: str) -> None:
    searched = space(model, batch=16)
    plans, left_out = searched.plans()
    assert len(set(plans)) == len(plans)
    for plan in plans:
        plan.degrees.check(8)
        assert plan.tp <= 4
        assert plan.sequences == 16
        assert plan.sp == (plan.tp > 1)
        assert len(stages_of(searched.training, plan)) == plan.pp * plan.v
    assert {plan.zero for plan in plans} == {0, 1, 2, 3}
    assert {plan.zero for plan in plans if plan.pp > 1} == {0, 1}
    assert {plan.ep for plan in plans} == ({1} if model == GPT else {1, 2, 4, 8})
    assert min(left_out.values()) > 0


def test_plans_that_are_left_out_are_counted_by_the_reason() -> None:
    """On two GPUs with two sequences, counted by hand."""
    plans, left_out = space(GPT, gpus=2, node=1, batch=2).plans()
    assert left_out == Counter(
        {
            # Micro-batches of 1 or 2 sequences, 4 stages of ZeRO, 3 recomputations.
            "tp reaches beyond a node": 2 * 4 * 3,
            # pp=2 with a single micro-batch and v=2: zero is 0 or 1.
            "interleaved: pp does not divide the micro-batches": 2 * 3,
            # pp=2 with zero=1: micro=1 with v of 1 or 2, or micro=2.
            "zero shares nothing among one rank": 3 * 3,
            # pp=2, cp=2, dp=2.
            "selective recomputation saves nothing with fused attention": 3 + 2 * 4 + 4,
        }
    )
    assert len(plans) == 2 * (3 + 2 * 4 + 4)


def test_plans_have_the_values_of_the_user() -> None:
    values = parse_space("auto, tp=8,recompute=selective,overlap=no,micro=2")
    plans, _ = space(GPT, wanted=values).plans()
    assert {(plan.tp, plan.recompute, plan.micro, plan.overlap) for plan in plans} == {
        (8, "selective", 2, False)
    }
    assert {plan.sequences for plan in plans} == {32}


@each_case(
    ("text", "error"),
    [
        (
            "auto,tp=3",
            "no plan of gpt3_1_7b on 8 GPUs with batch=32: the degrees do not multiply to",
        ),
        ("auto,schedule=zb_h1", "schedule does not go with auto"),
        ("auto,ddp=yes", "ddp does not go with auto"),
        ("auto,speed=3", "a plan has no 'speed'"),
        ("auto,batch=7,dp=8", "no plan of .* dp does not divide the batch"),
    ],
)
def test_searches_without_a_plan_are_refused(text: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        space(GPT, wanted=parse_space(text)).plans()
