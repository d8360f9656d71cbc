"""Keys of plans that change nothing, and keys that name what a model lacks."""

from dataclasses import replace

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.idle_keys import check_recomputation, idle_keys
from experiments.parallel.plan_step import Training, memory_of, work_of
from experiments.parallel.plan_text import Plan, parse_plan
from grouped_cases import each_case
from refusals import refusal
from shipped_shapes import training
from simctl_process import Simctl
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.parallel.step_measures import length_of
from topologies.shapes import star

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
