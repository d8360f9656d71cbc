"""What frameworks do where a plan does not say."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from experiments.models.accelerators import ACCELERATORS
from experiments.parallel import framework_defaults
from experiments.parallel.framework_defaults import like_framework, plain, plan_with
from experiments.parallel.plan_text import BY_FRAMEWORK, KEYS, Plan, parse_plan
from refusals import refusal

ROOT = Path(__file__).parents[3]
Simctl = Callable[..., "CompletedProcess[str]"]


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
    with Path(framework_defaults.__file__).with_suffix(".csv").open(newline="") as file:
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
