"""Steps of plans as text."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from answer_texts import plan_text
from experiments.parallel.measured_steps import PlanKind, plan_errors
from simctl_process import Simctl
from tests.experiments.parallel.test_plan_run import SMALL, simulated


@pytest.mark.parametrize(
    ("plan", "model", "machine", "words"),
    [
        (
            "dp=2,tp=2,pp=2,batch=16,zero=1",
            SMALL,
            "dgx_a100",
            ("exposed tp", "gather parameters", "Devices of the pipeline", "(MFU)"),
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
            ("seed 2", "busiest rank", "dropped", "combine", "return to its owner"),
        ),
    ],
)
def test_a_report_names_parts_of_the_step_and_of_the_memory(
    plan: str, model: str, machine: str, words: tuple[str, ...]
) -> None:
    report = plan_text(simulated(plan, model, machine))
    for word in words:
        assert word in report


MODEL = "gpt3_1_7b:layers=4,hidden=512,heads=8,seq=256"
TRAIN = "plan", "--model", MODEL, "--topology", "dgx_a100"


def test_a_step_is_printed_as_a_report_json_and_csv(simctl: Simctl, tmp_path: Path) -> None:
    plan = "tp=2,pp=2,batch=16,zero=1,sp=yes"
    report = simctl(*TRAIN, plan)
    assert report.returncode == 0
    assert "8 GPUs (a100), dp=2,tp=2,pp=2,micro=1,batch=16,zero=1,sp=yes" in report.stdout
    figures = json.loads(simctl(*TRAIN, plan, "--format", "json").stdout)
    out = tmp_path / "step.csv"
    simctl(*TRAIN, plan, "--format", "csv", "--out", out)
    row = pd.read_csv(out).iloc[0]
    assert row.step_s == pytest.approx(figures["summary"]["step_s"])
    assert row.gpus == 8
    assert "Memory of a GPU of device 0 when it holds most" in report.stdout
    assert row.memory_bytes == sum(figures["memory"]["devices"][0].values())
    assert row.missing_bytes == 0
    assert row.optimizer_bytes == figures["memory"]["devices"][0]["optimizer"]


def test_a_plan_that_does_not_fit_says_so_first_and_exits_with_1(simctl: Simctl) -> None:
    large = "plan", "--model", "llama3_8b", "micro=4,dp=2", "--topology"
    done = simctl(*large, "dgx_a100", "--gpus", "2")
    assert done.returncode == 1
    _, _, first, second, third, fourth, *_ = done.stdout.splitlines()
    assert first.endswith("dp=2,tp=1,pp=1,micro=4: does not fit in memory")
    assert second.startswith("  a GPU needs ")
    assert second.endswith(" too few")
    assert third.startswith("  least sure: ")
    assert fourth.startswith("  to make it fit: take ")
    assert "Memory of a GPU" in done.stdout
    assert "Where the time goes" in done.stdout


def test_a_plan_says_how_far_the_model_was_from_measured_steps(simctl: Simctl) -> None:
    report = simctl(*TRAIN, "dp=8,zero=3", "--format", "json").stdout
    summary = json.loads(report)["summary"]
    error = plan_errors()[PlanKind("a100", "bf16", "zero=3", "one node", "specified")]
    assert summary["model_error"] == error.mean
    assert summary["measured"].startswith(f"on {error.steps} measured steps of a100 in bf16")
    text = simctl(*TRAIN, "dp=8,zero=3", "--topology", "star").stdout
    assert "model's error" in text
    assert "unknown: no measured step of " in text


def test_a_profile_of_gpus_names_the_device(simctl: Simctl) -> None:
    command = "plan", "--model", "gpt2", "dp=4", "--format", "json"
    for more, device in ((), "a100"), (("--profile", "mn5_acc"), "h100"):
        assert json.loads(simctl(*command, *more).stdout)["summary"]["device"] == device


def test_a_single_gpu_trains_alone(simctl: Simctl) -> None:
    figures = json.loads(simctl("plan", "--model", MODEL, "", "--format", "json").stdout)
    assert figures["summary"]["gpus"] == 1
    assert figures["summary"]["exposed_s"] == 0.0


def test_where_all_transfers_take_less_the_report_says_why(simctl: Simctl) -> None:
    plan = ("tp=2,pp=2,dp=2,batch=4,zero=2", "--topology", "nodes:per_node=2", "--p", "8")
    report = simctl("plan", "--model", MODEL, *plan, "--detail", "transfers").stdout
    (line,) = (line for line in report.splitlines() if "all transfers" in line)
    assert line.endswith("-3.35% as ranks go on before the last group ends")


@pytest.mark.parametrize(
    ("degrees", "machine", "note"),
    [
        ("tp=2,dp=2", "nodes:per_node=2", ""),
        ("tp=4,dp=1", "star", ""),
        ("tp=4,dp=1", "nodes:per_node=2", "note: tp=4 crosses nodes: a group is on 2 nodes, "),
        ("tp=2,dp=2", "nodes:per_node=2 --placement round-robin", "note: tp=2 crosses nodes: "),
    ],
)
def test_a_note_says_that_tensor_parallel_groups_cross_nodes(
    simctl: Simctl, degrees: str, machine: str, note: str
) -> None:
    words = f"{degrees},pp=1,micro=1,batch=4", "--gpus", "4", "--topology"
    result = simctl("plan", "--model", MODEL, *words, *machine.split())
    assert result.returncode == 0
    assert note in result.stderr
    assert ("crosses nodes" in result.stderr) == bool(note)


def test_the_report_names_streams_that_share_links(simctl: Simctl) -> None:
    """Gradients and the tokens of experts take the only NIC of a node. Each loses time by it, and
    together they use no more than all of it."""
    plan = ("dp=8,ep=8,batch=16,overlap=yes", "--topology", "hgx_h100:nodes=2,nics=1", "--p", "8")
    options = ("--model", "mixtral_8x7b:layers=2", *plan, "--placement", "round-robin")
    done = simctl("plan", *options, "--format", "json")
    assert done.returncode == 0, done.stderr
    shared = {(row["stream"], row["beside"]): row for row in json.loads(done.stdout)["shared"]}
    assert {("ep", "data"), ("data", "ep")} <= shared.keys()
    for row in shared.values():
        assert 0 < row["lost_s"] <= row["together_s"]
        assert "nic" in row["medium"] or "gpu" in row["medium"]
    report = simctl("plan", *options).stdout
    assert "Streams that share links" in report
