"""The plans that a search goes through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from experiments.models.accelerators import accelerator
from experiments.parallel.plan_space import Space, advice, parse_space
from experiments.parallel.plan_step import stages_of, state_of, work_of
from experiments.parallel.plan_text import parse_plan
from refusals import refusal
from shipped_shapes import training
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.plan_memory import StepMemory, memory
from topologies.catalogue import find
from topologies.shapes import star

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
    return Space(training(model), gpus, node, {**(wanted or {}), **values})


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


def test_a_search_gathers_cast_parameters_where_ranks_share_them() -> None:
    plans, left_out = space(GPT, wanted=parse_space("auto,fp8_gather=yes")).plans()
    assert left_out["fp8_gather goes with zero=1: it is 0"]
    assert {plan.zero for plan in plans} == {1, 2, 3}


def test_stages_differ_where_no_number_of_them_divides_the_layers() -> None:
    model = GPT.replace("layers=4", "layers=7")
    plans, left_out = space(model, gpus=4, batch=16, cp=1, tp=1).plans()
    assert {(plan.pp, plan.uneven) for plan in plans} == {(1, False), (2, True), (4, True)}
    assert not left_out["pp x v does not divide the layers"]
    plans, left_out = space(model, gpus=4, batch=16, cp=1, tp=1, uneven=False).plans()
    assert {plan.pp for plan in plans} == {1}
    assert left_out["pp x v does not divide the layers"]


@pytest.mark.parametrize("text", ["auto,stops=yes", "auto,v=2"])
def test_plans_of_a_search_are_plans(text: str) -> None:
    """`plan` takes each of them."""
    plans, _ = space(GPT, wanted=parse_space(text)).plans()
    for plan in plans:
        assert str(parse_plan(str(plan), 8)) == str(plan)


def test_changes_are_of_plans_with_experts_and_not_of_what_the_user_says() -> None:
    plan = parse_plan("dp=8,pp=2,ep=8", gpus=16)
    assert space(GPT).changes(plan) == []
    assert space(MIXTRAL).changes(replace(plan, ep=1)) == []
    every = space(MIXTRAL).changes(plan)
    assert every == [
        {"dispatch": "fp8"},
        {"router": "zipf:0", "nodes": 1},
        {"schedule": "dual_pipe", "v": 1},
    ]
    fixed = {"dispatch": "bf16", "capacity": 1.0, "v": 1}
    assert space(MIXTRAL, wanted=fixed).changes(plan) == []


def test_plans_have_the_values_of_the_user() -> None:
    values = parse_space("auto, tp=8,recompute=selective,overlap=no,micro=2")
    plans, _ = space(GPT, wanted=values).plans()
    assert {(plan.tp, plan.recompute, plan.micro, plan.overlap) for plan in plans} == {
        (8, "selective", 2, False)
    }
    assert {plan.sequences for plan in plans} == {32}


GIB = 2.0**30
KORTHIKANTI = {
    "22b": ("gpt3_175b:layers=48,hidden=6144,heads=64", "micro=4,batch=4"),
    "175b": ("gpt3_175b", "pp=8,v=3,micro=1,batch=64"),
    "530b": ("gpt3_530b", "pp=35,v=3,micro=1,batch=280"),
    "1t": ("gpt3_1t", "pp=64,micro=1,batch=512"),
}
"""Korthikanti et al., arXiv 2205.05198, table 3: models and plans, 8 ranks a tensor-parallel group
and 2048 tokens a sequence."""


def held(name: str, recompute: str, sp: str) -> StepMemory:
    """The memory of a model of Korthikanti et al., whose figures count layers alone: the embedding
    keeps nothing."""
    model, options = KORTHIKANTI[name]
    more = f"recompute={recompute},sp={sp},attention=unfused,dropout=yes"
    plan = parse_plan(f"dp=1,tp=8,{options},{more}")
    times = GroupTimes(star(plan.degrees.ranks, bandwidth=1e9), plan.degrees)
    model_on = training(model)
    work = work_of(model_on, plan, times)
    first, *layers = work.stages[0]
    stages = ((replace(first, kept=0.0), *layers), *work.stages[1:])
    return memory(replace(work, stages=stages), state_of(model_on, plan))


@pytest.mark.parametrize(
    ("name", "state", "whole", "least"),
    [
        ("22b", 45.5625, 59.25, 9.5625),
        ("175b", 45.5625, 66.84, 12.35),
        ("530b", 31.64, 114.02, 23.08),
        ("1t", 32.96, 131.25, 26.56),
    ],
)
def test_memory_is_that_of_korthikanti(name: str, state: float, whole: float, least: float) -> None:
    """Figure 1: GiB of parameters and optimizer, of activations, and of activations with sequence
    parallel and selective recomputation. The state is that of a device without the embedding."""
    plain, small = held(name, "none", "no"), held(name, "selective", "yes")
    middle = plain.peaks[len(plain.peaks) // 2, :3].sum() / GIB
    assert middle == pytest.approx(state, rel=0.05)
    assert plain.parts(0)["activations"] / GIB == pytest.approx(whole, rel=0.05)
    assert small.parts(0)["activations"] / GIB == pytest.approx(least, rel=0.05)


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("22b", (66.84, 49.42, 16.18, 7.64)),
        ("175b", (62.04, 56.53, 18.49, 8.71)),
        ("530b", (58.31, 62.04, 20.27, 9.42)),
    ],
)
def test_recomputation_saves_the_shares_of_korthikanti(
    name: str, shares: tuple[float, ...]
) -> None:
    """Figure 7: percent of the activations of tensor parallel alone, with sequence parallel, with
    selective recomputation, with both, and with full recomputation."""
    whole = held(name, "none", "no").held[:, 3].max()
    cases = (("none", "yes"), ("selective", "no"), ("selective", "yes"), ("full", "no"))
    for share, (recompute, sp) in zip(shares, cases, strict=True):
        part = held(name, recompute, sp).held[:, 3].max()
        assert 100 * part / whole == pytest.approx(share, rel=0.05), (recompute, sp)


def test_a_plan_that_does_not_fit_says_what_would() -> None:
    model, machine = training("llama3_8b", "h100"), find("hgx_h100").build(8)

    def judged(options: str) -> str:
        return advice(model, parse_plan(options, gpus=8), machine)

    line = judged("dp=8")
    assert line.startswith("take zero=2 (8")
    assert "or zero=3 (7" in line
    assert judged("tp=8,dp=1,micro=16").endswith("take recompute=full (75.44GB)")
    assert "take shard=0 (7" in judged("zero=3,shard=2")
    # No single change is enough.
    assert judged("micro=8,zero=0").startswith("take ")


def test_no_change_makes_a_model_fit_that_is_too_large() -> None:
    model, machine = training("llama3_405b", "h100"), find("hgx_h100").build(8)
    line = advice(model, parse_plan("tp=8", gpus=8), machine)
    assert line.endswith("take more GPUs or a smaller model")


def test_fsdp_holds_its_parameters_in_fp32() -> None:
    model = training("llama3_8b")
    assert sum(state_of(model, parse_plan("zero=3"))) == 16
    assert sum(state_of(model, parse_plan("zero=1"))) == 18
    assert sum(state_of(model, parse_plan("zero=1,grads=bf16"))) == 16
    assert accelerator("a100").capacity == 81920 * 2**20


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ({"tp": 3}, "the degrees do not multiply to the GPUs: leave out tp"),
        ({"tp": 8, "pp": 1, "batch": 7, "micro": 2}, "leave out tp, pp, micro or take batch=8"),
        ({"dp": 8, "batch": 4}, "dp does not divide the batch: leave out dp or take batch=8"),
    ],
)
def test_a_search_without_a_plan_names_keys_to_leave_out(
    wanted: dict[str, object], hint: str
) -> None:
    assert refusal(space(GPT, wanted=wanted).plans).endswith(hint)
