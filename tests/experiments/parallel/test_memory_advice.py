"""The memory of plans, held against published figures, and what makes a plan fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.models.accelerators import accelerator
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.memory_advice import advice
from experiments.parallel.plan_step import Training, state_of, work_of
from experiments.parallel.plan_text import parse_plan
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.plan_memory import StepMemory, memory
from topologies.catalogue import find
from topologies.shapes import star

GIB = 2.0**30
KORTHIKANTI = {
    "22b": ("gpt3_175b:layers=48,hidden=6144,heads=64", "micro=4,batch=4"),
    "175b": ("gpt3_175b", "pp=8,v=3,micro=1,batch=64"),
    "530b": ("gpt3_530b", "pp=35,v=3,micro=1,batch=280"),
    "1t": ("gpt3_1t", "pp=64,micro=1,batch=512"),
}
"""Korthikanti et al., arXiv 2205.05198, table 3: models and plans, 8 ranks a tensor-parallel group
and 2048 tokens a sequence."""


def training(model: str, device: str = "a100") -> Training:
    """A model on a device."""
    entry = find_transformer(model)
    return Training(entry.name, entry.shape, entry.size, DeviceTimes(device))


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
    assert line.startswith("take zero=2 (7")
    assert "or zero=3 (6" in line
    assert judged("tp=8,dp=1,micro=16").endswith("take recompute=full (66.62GB)")
    assert "take shard=0 (6" in judged("zero=3,shard=2")
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
