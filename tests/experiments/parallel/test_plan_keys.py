"""Keys of plans: what frameworks do where a plan does not say, keys that change nothing, and keys
that name what a model lacks."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.models.accelerators import ACCELERATORS
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel import plan_keys
from experiments.parallel.plan_keys import (
    check_recomputation,
    idle_keys,
    like_framework,
    plain,
    plan_with,
)
from experiments.parallel.plan_step import Training, memory_of, work_of
from experiments.parallel.plan_text import BY_FRAMEWORK, KEYS, Plan, parse_plan
from grouped_cases import each_case
from refusals import refusal
from shipped_shapes import training
from simctl_process import Simctl
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.parallel.step_measures import length_of
from topologies.shapes import star

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("like", "text", "device", "plan"),
    [
        ("megatron", "dp=8", "a100", "zero=1,overlap=yes,overlap_gather=yes"),
        ("megatron", "dp=8,zero=0", "a100", "overlap=yes"),
        ("megatron", "dp=1", "h100", "attention=flash3"),
        ("megatron", "tp=2,sp=no", "a100", "tp=2"),
        ("megatron", "tp=2", "b200", "tp=2,sp=yes,attention=flash3,pieces=yes"),
        ("megatron", "pp=2,v=2", "a100", "pp=2,v=2,synchronous=no"),
        ("megatron", "pp=2", "a100", "pp=2"),
        ("torchtitan", "dp=8", "a100", "zero=3,loss=eager,merged=no,eager=yes"),
        ("torchtitan", "dp=8,ddp=yes", "a100", "ddp=yes,loss=eager,merged=no,eager=yes"),
        ("torchtitan", "dp=8,compiled=yes", "a100", "compiled=yes,zero=3,loss=eager,merged=no"),
        (
            "torchtitan",
            "dp=8,fp8_activations=yes",
            "a100",
            "fp8_activations=yes,zero=3,loss=eager,merged=no",
        ),
        (
            "torchtitan",
            "dp=8,pp=2,tp=2",
            "a100",
            "tp=2,pp=2,zero=3,sp=yes,reshard=no,sync=no,loss=eager,synchronous=no,"
            "eager=yes,merged=no,overlap_tp=no",
        ),
        ("torchtitan", "dp=8,zero=1,loss=fused", "a100", "zero=1,loss=fused,merged=no,eager=yes"),
        ("deepspeed", "dp=8", "h200", "zero=1,loss=eager,merged=no,overlap=yes"),
        (
            "torchtitan",
            "dp=8,precision=fp8,compiled=yes,pieces=yes,tp=2",
            "h200",
            "tp=2,precision=fp8,scaling=current,compiled=yes,pieces=yes,zero=3,sp=yes,loss=eager,"
            "merged=no,attention=flash3",
        ),
        ("deepspeed", "dp=8", "mi300x", "zero=1,loss=eager,merged=no,overlap=yes"),
    ],
)
def test_a_framework_says_what_a_plan_leaves_out(
    like: str, text: str, device: str, plan: str
) -> None:
    dp = parse_plan(text).dp
    result, words = like_framework(parse_plan(text), like, device)
    assert result == parse_plan(f"dp={dp},{plan}")
    assert not words or words.startswith(f"{like}: ")


@pytest.mark.parametrize("like", ["megatron", "torchtitan", "deepspeed"])
@pytest.mark.parametrize("device", ACCELERATORS)
def test_the_text_of_a_plan_has_the_defaults(like: str, device: str) -> None:
    """The text alone is the same plan, also with the framework once more."""
    for text in ("dp=4", "dp=2,tp=2,pp=2", "dp=2,pp=4,v=2,batch=64", "tp=8,zero=0,attention=flash"):
        plan, _ = like_framework(parse_plan(text), like, device)
        again = parse_plan(str(plan))
        assert again == plan
        assert like_framework(again, like, device)[0] == plan


def test_keys_that_the_user_writes_stay() -> None:
    stated = {key: getattr(Plan, key) for key in KEYS if key not in ("dp", "zero")}
    plan = Plan(dp=8, stated=(*stated, "zero", "dp"))
    for like in ("megatron", "torchtitan", "deepspeed"):
        assert like_framework(plan, like, "h100") == (plan, "")


@pytest.mark.parametrize(
    ("text", "device", "implied"),
    [
        ("dp=8", "h100", ["attention", "loss"]),
        ("dp=8", "a100", ["loss"]),
        ("tp=8", "a100", []),
        ("tp=8", "gb200", ["attention"]),
        ("pp=2,v=2", "a100", ["synchronous"]),
        ("dp=8,zero=3,attention=flash2,loss=fused", "h100", []),
    ],
)
def test_plans_follow_the_framework_that_runs_such_plans(
    text: str, device: str, implied: list[str]
) -> None:
    """Their text stays that of the user, and means the same."""
    written = parse_plan(text)
    plan, words = like_framework(written, None, device)
    assert [*plan.implied] == implied
    assert bool(words) == bool(implied)
    assert str(plan) == str(written)
    assert (plan.zero, plan.sp, plan.overlap) == (written.zero, written.sp, written.overlap)
    assert like_framework(parse_plan(str(plan)), None, device)[0] == plan
    assert plain(plan) == written


def test_a_plan_of_other_degrees_takes_other_defaults() -> None:
    plan, _ = like_framework(parse_plan("dp=8"), None, "h100")
    variant = plan_with(plan, "h100", dp=4, tp=2)
    assert (plan.loss, variant.loss, variant.attention) == ("eager", "fused", "flash3")
    assert plan_with(parse_plan("dp=8"), "h100", dp=4, tp=2).attention == "flash2"


def test_keys_by_framework_are_written_where_the_user_does() -> None:
    text = "dp=2,tp=1,pp=1,micro=1,attention=flash2,loss=fused,synchronous=yes"
    assert str(parse_plan(text)) == text
    assert {key for key in BY_FRAMEWORK if key in KEYS} == set(BY_FRAMEWORK)
    assert "a plan has no 'stated'" in refusal(parse_plan, "stated=x")


def test_the_report_names_the_defaults(simctl: Simctl) -> None:
    options = ("--model", "gpt3_1_7b:layers=4", "--topology", "hgx_h100", "--like")
    printed = simctl("plan", "dp=8", *options, "torchtitan").stdout
    assert "defaults of" in printed
    assert "torchtitan: attention=flash3, loss=eager, merged=no, eager=yes, zero=3" in printed
    for name in ("jax", ""):
        done = simctl("plan", "dp=8", *options, name)
        assert done.returncode == 2
        assert f"--like '{name}': there are megatron, torchtitan, deepspeed" in done.stderr


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "how-to" / "read-a-plan.md").read_text()
    cells = [[cell.strip() for cell in line.split("|")] for line in page.splitlines()]
    heading = next(row for row in cells if "`megatron`" in row)
    by_key = {key: row for row in cells for key in row[1:2] for key in key.split(", ")}
    with Path(plan_keys.__file__).with_name("framework_defaults.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            cell = by_key[f"`{row['key']}`"][heading.index(f"`{row['framework']}`")]
            assert row["value"] in cell, row


def test_a_search_has_the_defaults(simctl: Simctl) -> None:
    options = ("--model", "gpt3_1_7b:layers=4", "--topology", "hgx_h100", "--batch", "16")
    done = simctl("plan", "auto,pp=2,tp=1,cp=1", *options, "--like", "deepspeed", "--format", "csv")
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()[1:]
    assert rows
    assert all("loss=eager" in row for row in rows)


def test_a_row_of_a_search_is_the_plan_alone(simctl: Simctl) -> None:
    """Defaults that need a stage of ZeRO are there, too."""
    options = ("--model", "llama3_8b:layers=4", "--topology", "hgx_h100", "--like", "megatron")
    search = simctl("plan", "auto,tp=2,pp=1,cp=1", *options, "--batch", "32", "--format", "json")
    rows = [row for row in json.loads(search.stdout)["plans"] if row["step_s"]]
    (first, *_) = (row for row in rows if "zero=1" in row["plan"])
    assert "overlap_gather=yes" in first["plan"]
    alone = simctl("plan", first["plan"], *options, "--format", "json")
    step = json.loads(alone.stdout)["summary"]["step_s"]
    assert step == pytest.approx(first["step_s"], rel=1e-9)


DENSE = "gpt3_1_7b:layers=8,hidden=512,heads=8,seq=256"
SPARSE = "qwen3_30b_a3b:layers=4,seq=512"


def figures(name: str, plan: Plan) -> tuple[float, float]:
    """Seconds and bytes of a step."""
    model = training(name, "h100").under(plan)
    work = work_of(model, plan, GroupTimes(star(8, bandwidth=1e11), plan.degrees))
    return length_of(write(work)), memory_of(model, plan, work).peak


@each_case(
    ("name", "text", "sentences"),
    [
        (DENSE, "", []),
        (DENSE, "tp=2,sp=yes,pieces=yes,overlap=yes,bucket=1MiB", []),
        (DENSE, "sp=yes,overlap_tp=no", ["sp, overlap_tp change nothing with tp=1"]),
        (DENSE, "tp=2,pieces=yes", ["pieces changes nothing with sp=no"]),
        (DENSE, "tp=2,sp=yes,pp=2,scatter=yes", ["scatter changes nothing with sp=yes"]),
        (
            DENSE,
            "schedule=gpipe,blocking=yes,synchronous=no,layers=loss,uneven=yes",
            ["schedule, blocking, synchronous, uneven, layers change nothing with pp=1"],
        ),
        (DENSE, "context=gather", ["context changes nothing with cp=1"]),
        (
            DENSE,
            "tp=8,dp=1,zero=1,overlap=yes",
            ["zero, overlap change nothing with one rank that holds each parameter"],
        ),
        (DENSE, "zero=3,overlap=yes", ["overlap changes nothing with zero=3"]),
        (DENSE, "merged=no", []),
        (
            DENSE,
            "merged=no,lora=8",
            ["merged changes nothing with lora, which counts merged matrices"],
        ),
        (DENSE, "zero=0,overlap_gather=yes", ["overlap_gather changes nothing with zero=0"]),
        (DENSE, "zero=1,overlap_gather=yes,bucket=1MiB", []),
        (DENSE, "bucket=1MiB", ["bucket changes nothing with overlap=no"]),
        (
            DENSE,
            "dispatch=fp8,capacity=2",
            ["capacity, dispatch change nothing with a model without experts"],
        ),
        (SPARSE, "ep=4,dispatch=fp8,capacity=2", []),
        (SPARSE, "ep=4,batch=16,overlap_ep=yes", []),
        (
            DENSE,
            "graphs=mamba+moe_router",
            ["graphs=mamba+moe_router changes nothing: no layer has it"],
        ),
        (
            SPARSE,
            "ep=4,capacity=2,graphs=moe_preprocess",
            ["graphs=moe_preprocess changes nothing: no layer has it"],
        ),
        (SPARSE, "ep=4,graphs=attn+moe_router", []),
        (
            SPARSE,
            "ep=4,capacity=2,imbalance=3,dispatcher=deepep",
            ["imbalance changes nothing with capacity=2"],
        ),
        (SPARSE, "ep=4,overlap_ep=yes", ["overlap_ep changes nothing with one micro-batch"]),
        (SPARSE, "dispatch=fp8,router=zipf:1", ["dispatch, router change nothing with ep=1"]),
    ],
)
def test_keys_that_change_nothing_are_named(name: str, text: str, sentences: list[str]) -> None:
    plan = parse_plan(text, 8)
    assert [*idle_keys(plan, training(name).shape)] == sentences
    idle = [key for each in sentences for key in each.partition(" change")[0].split(", ")]
    keys = [key.partition("=")[0] for key in idle]
    usual = replace(plan, **{key: getattr(Plan, key) for key in keys})
    assert figures(name, plan) == figures(name, usual)


@each_case(
    ("text", "message"),
    [
        ("pp=2,recompute=full:5", "a stage has 4 layers: take recompute=full:4 or less"),
        ("pp=2,recompute=mlp/9", "a stage has 4 layers: take recompute=mlp/4 or less"),
        ("pp=2,recompute=full:4", ""),
        ("pp=2,recompute=full", ""),
        ("pp=2,layers=5+3,recompute=full:5", ""),
    ],
)
def test_more_layers_than_a_stage_has_are_refused(text: str, message: str) -> None:
    plan, shape = parse_plan(text, 8), training(DENSE).shape
    if message:
        assert message in refusal(check_recomputation, plan, shape)
    else:
        check_recomputation(plan, shape)


def test_the_command_says_so(simctl: Simctl) -> None:
    options = "--model", DENSE, "--gpus", "8", "--topology", "hgx_h100"
    done = simctl("plan", "sp=yes", *options)
    assert done.returncode == 0
    assert "note: sp changes nothing with tp=1\n" in done.stderr
    for plan in ("pp=2,recompute=full:9", "auto,recompute=full:9"):
        refused = simctl("plan", plan, *options)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "recompute=full:9: a stage has" in refused.stderr


@each_case(
    ("plan", "message"),
    [
        (
            "precision=fp8,bf16_layers=99",
            "bf16_layers=99 is 198 layers, and small has 6: take fewer",
        ),
        (
            "lora=99999",
            "lora=99999 is more than the 512 elements of a token of small: take fewer, "
            "like lora=16",
        ),
        (
            "fp8_activations=yes",
            "fp8_activations=yes: MLPs of small are not gated: leave it out",
        ),
        ("recompute=moe", "recompute=moe: small has no moe: leave it out"),
        (
            "recompute=mlp+mla_up_proj",
            "recompute=mlp+mla_up_proj: small has no mla_up_proj: leave it out",
        ),
    ],
)
def test_keys_that_name_what_the_model_lacks_are_refused(plan: str, message: str) -> None:
    entry = find_transformer("gpt3_1_7b:layers=6,hidden=512,heads=8,seq=256")
    training = Training("small", entry.shape, entry.size, DeviceTimes("h100", "bf16"))
    assert refusal(training.under, parse_plan(plan)) == f"plan: {message}"


def test_a_model_with_experts_computes_them_again() -> None:
    entry = find_transformer("qwen3_30b_a3b")
    training = Training("sparse", entry.shape, entry.size, DeviceTimes("h100", "bf16"))
    training.under(parse_plan("recompute=moe_act"))
    assert "has no mlp" in refusal(training.under, parse_plan("recompute=mlp"))
