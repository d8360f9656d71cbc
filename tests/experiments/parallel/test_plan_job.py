"""What a plan trains on which machine: its precision, and the GPUs of each rack."""

import json
from typing import Any

from grouped_cases import each_case
from simctl_process import Simctl

SMALL = "llama3_8b:layers=4,hidden=1024,heads=8,seq=1024"


def figures(simctl: Simctl, plan: str, model: str, machine: str, *more: str) -> dict[str, Any]:
    options = "--model", model, "--topology", machine, *more, "--format", "json"
    row: dict[str, Any] = json.loads(simctl("plan", plan, *options).stdout)["summary"]
    return row


def test_the_precision_of_a_plan_and_the_dtype_of_a_model_mean_the_same(simctl: Simctl) -> None:
    of_plan = figures(simctl, "dp=8,precision=fp8", SMALL, "hgx_h100")
    of_model = figures(simctl, "dp=8", f"{SMALL},dtype=fp8", "hgx_h100")
    assert of_plan["step_s"] == of_model["step_s"]
    assert of_plan["plan"] == "dp=8,tp=1,pp=1,micro=1,precision=fp8"


def test_a_device_without_bf16_trains_in_amp(simctl: Simctl) -> None:
    usual = figures(simctl, "dp=8", SMALL, "dgx1")
    assert usual["step_s"] == figures(simctl, "dp=8,precision=amp", SMALL, "dgx1")["step_s"]


def test_a_note_says_how_many_gpus_of_each_rack_are_used(simctl: Simctl) -> None:
    options = "--model", SMALL, "--gpus", "96"
    done = simctl("plan", "dp=96,zero=1", *options, "--topology", "gb200")
    note = "note: 64 GPUs of each rack are used, as runs with groups of 16 to 64 ranks do: used=72"
    assert note in done.stderr
    assert not simctl("plan", "dp=96,zero=1", *options, "--topology", "gb200:used=72").stderr


@each_case(
    ("plan", "options", "idle"),
    [
        ("jitter=no", ("--topology", "star"), ["jitter"]),
        (
            "links=nccl,jitter=yes",
            ("--topology", "dgx_a100", "--library", "nccl"),
            ["jitter", "links"],
        ),
        ("links=nccl", ("--topology", "hgx_h100", "--detail", "transfers"), ["links"]),
        ("links=ideal,jitter=yes", ("--topology", "hgx_h100"), ["jitter"]),
        ("links=nccl,jitter=no", ("--topology", "hgx_h100"), []),
    ],
)
def test_keys_of_a_law_that_does_not_count_are_named(
    simctl: Simctl, plan: str, options: tuple[str, ...], idle: list[str]
) -> None:
    done = simctl("plan", f"dp=8,{plan}", "--p", "8", "--model", SMALL, *options)
    assert done.returncode == 0, done.stderr
    named = [line for line in done.stderr.splitlines() if "the law of NCCL" in line]
    assert named == [f"note: {key} changes nothing: the law of NCCL is left out" for key in idle]
