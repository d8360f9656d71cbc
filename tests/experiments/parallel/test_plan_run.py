"""Steps of plans that are simulated: rows, figures, and what stages of ZeRO would hold and send."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.parallel.plan_run import PlanRun
from experiments.parallel.plan_step import Training, state_of, work_of
from experiments.parallel.plan_text import Plan, parse_plan
from grouped_cases import each_case
from random_works import RINGS
from shipped_shapes import training
from simctl_process import Simctl
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.plan_memory import memory
from simulator.parallel.step import Step, write
from simulator.parallel.step_splits import ranks_of, write_transfers
from simulator.parallel.step_work import Work
from topologies.catalogue import find
from topologies.shapes import star

SMALL = "gpt3_1_7b:layers=6,hidden=512,heads=8,seq=256"


def simulated(plan: str, model: str = SMALL, machine: str = "dgx_a100") -> PlanRun:
    """A step on eight GPUs."""
    trained, parsed = training(model, machine.rpartition("_")[2]), parse_plan(plan, gpus=8)
    times = GroupTimes(find(machine).build(8), parsed.degrees)
    return run_of(trained, parsed, work_of(trained, parsed, times))


def run_of(trained: Training, plan: Plan, work: Work) -> PlanRun:
    """A step without conditions."""
    step = write(work)
    return PlanRun(trained, plan, step, step, step)


def test_a_row_has_the_figures_of_a_step() -> None:
    run = simulated("dp=2,tp=2,pp=2,batch=16,zero=1")
    row = run.row
    shares = "computing_s", "optimizer_s", "exposed_s", "launching_s", "idle_s"
    assert sum(row[name] for name in shares) == pytest.approx(row["step_s"])
    assert sum(run.path.values()) == pytest.approx(row["step_s"])
    assert row["tokens_per_s"] == pytest.approx(16 * 256 / row["step_s"])
    assert 0 < row["mfu"] < 1
    assert {"summary", "critical_path_s", "devices"} < set(run.figures())
    assert sum(device["exposed_tp_s"] for device in run.devices) > 0


@each_case("plan", ["dp=8,batch=16", "pp=8,batch=512,micro=1"])
def test_the_cpu_launches_all_kernels(plan: str) -> None:
    run = simulated(plan)
    step = run.step
    stages, count = step.work.stages, run.plan.micro_batches
    parts = [part for stage in stages for block in stage for part in block.forward + block.backward]
    launches = count * sum(part.launch for part in parts) / run.plan.pp
    assert run.row["launches_s"] == pytest.approx(launches)
    assert 0 < run.row["launching_s"] <= launches


def test_tokens_of_a_training_take_days_and_gpu_hours() -> None:
    run = simulated("dp=8")
    assert "days" not in run.row
    row = replace(run, training=replace(run.training, tokens=1e12)).row
    assert row["days"] * 86400 * row["tokens_per_s"] == pytest.approx(1e12)
    assert row["gpu_hours"] == pytest.approx(row["days"] * 24 * 8)


@each_case("plan", ["dp=8,zero=3", "dp=2,tp=2,pp=2,batch=16", "tp=8,sp=yes,micro=16,loss=eager"])
def test_the_margin_and_what_is_reserved_are_shares_of_what_moves(plan: str) -> None:
    run = simulated(plan, "llama3_8b", "hgx_h100")
    tensors, reserved, margin = run.allocation.values()
    moving = run.memory.moving[run.memory.fullest]
    assert margin == pytest.approx(0.05 * moving)
    assert tensors + margin <= reserved <= tensors + 0.23 * moving + 1
    # Beside PyTorch stand communicators and the context.
    assert run.memory.peak - tensors - margin >= 2**30
    assert run.missing or run.memory.peak - tensors - margin + reserved <= run.capacity + 1


def test_the_memory_adds_up_to_the_peak() -> None:
    run = simulated("dp=8,zero=3", "llama3_8b", "hgx_h100")
    assert sum(run.memory.parts(0).values()) == pytest.approx(run.memory.peak)
    parts = [value for name, value in run.record.items() if name not in run.row]
    assert sum(map(float, parts)) == pytest.approx(run.memory.peak)  # type: ignore[arg-type]
    forward, backward = run.held
    assert 0 == forward["start_s"] < forward["end_s"] == backward["start_s"]
    assert max(forward["bytes"], backward["bytes"]) == run.memory.peak
    assert (run.missing, run.advice, len(run.zero)) == (0.0, "", 4)


SHARED = ("data", "experts", "gather", "reduce", "replica", "tied")


def sent(step: Step, device: int) -> float:
    """Bytes that the first rank of a device sends for gradients and parameters."""
    graph, rank = ranks_of(step, ordered=True), step.work.times.degrees.groups("pp")[0, device]
    total = 0.0
    for placed in write_transfers(step).calls:
        _, ranks, tasks = placed.meeting
        if graph.lanes[graph.lane[tasks[0]]] in SHARED and rank in ranks:
            total += placed.fitted.schedule.sent()[ranks.tolist().index(rank)]
    return total


@pytest.mark.parametrize(
    ("model", "options", "shared"),
    [
        ("gpt3_1_7b:layers=2", "dp=4,batch=8", ""),
        ("gpt3_1_7b:layers=2", "dp=2,pp=2,batch=4", ""),
        ("gpt3_1_7b:layers=2", "dp=4,batch=8", ",shard=2,sync=no"),
        ("mixtral_8x7b:layers=1", "dp=4,ep=2", ""),
    ],
)
def test_the_table_of_zero_says_what_plans_with_its_stages_say(
    model: str, options: str, shared: str
) -> None:
    trained, machine = training(model), star(4, bandwidth=1e9)
    plans = [
        parse_plan(f"{options},micro=1,zero={zero}{shared * (zero > 1)}", 4) for zero in range(4)
    ]
    works = [work_of(trained, plan, GroupTimes(machine, plan.degrees, RINGS)) for plan in plans]
    steps = [write(work) for work in works]
    for plan, work in zip(plans, works, strict=True):
        result = run_of(trained, plan, work)
        device = result.memory.fullest
        for zero, row in enumerate(result.zero):
            if shared and plan.zero <= 1 < zero:
                continue
            needed = memory(works[zero], state_of(trained, plans[zero]))
            assert row["held"] == pytest.approx(needed.peaks[device, :3].sum(), rel=1e-12)
            assert row["sent"] == pytest.approx(sent(steps[zero], device), rel=1e-12)


def test_a_pipeline_with_two_copies_has_no_stages_that_share_gradients() -> None:
    trained, plan = training("gpt3_1_7b:layers=4"), parse_plan("dp=2,pp=2,schedule=dual_pipe")
    work = work_of(trained, plan, GroupTimes(star(4, bandwidth=1e9), plan.degrees))
    assert [row["zero"] for row in run_of(trained, plan, work).zero] == [0, 1]


MODEL = "gpt3_1_7b:layers=4,hidden=2048,heads=8,seq=1024"
TRAIN = "plan", "--model", MODEL, "--topology", "dgx_a100", "tp=2,pp=2,batch=16"


def summary(simctl: Simctl, *options: str) -> dict[str, Any]:
    """The row of a step."""
    figures = json.loads(simctl(*TRAIN, *options, "--format", "json").stdout)
    row: dict[str, Any] = figures["summary"]
    return row


def test_a_straggler_costs_speed_and_others_wait_for_it(simctl: Simctl) -> None:
    plain = summary(simctl)
    done = json.loads(simctl(*TRAIN, "--straggler", "1:2", "--format", "json").stdout)
    row, waits = done["summary"], done["waits"]
    assert row["plain_step_s"] == plain["step_s"] < row["step_s"]
    assert row["relative_speed"] == pytest.approx(plain["step_s"] / row["step_s"])
    assert row["tokens_per_s"] == pytest.approx(plain["tokens_per_s"] * row["relative_speed"])
    path = done["critical_path_s"]
    assert sum(path.values()) == pytest.approx(row["step_s"])
    # The straggler is on the path, and not the calls in which others wait for it.
    calls = sum(seconds for name, seconds in path.items() if ": " in name)
    assert calls < 1.1 * plain["exposed_s"]
    parts = "computing", "optimizer", "restarting", "exposed", "launching", "idle"
    assert sum(row[f"{part}_s"] for part in parts) == pytest.approx(row["step_s"])
    assert waits[0]["peer_ranks"] == "rank 1"
    assert waits[0]["ranks"] == "rank 0"
    assert waits[0]["stream"] == "tp"
    text = simctl(*TRAIN, "--straggler", "1:2").stdout
    assert "without conditions" in text
    assert "Who waits for whom" in text


def test_a_slow_link_makes_its_groups_slower(simctl: Simctl) -> None:
    plain, same = summary(simctl), summary(simctl, "--slow-link", "3:1")
    slow = summary(simctl, "--slow-link", "3:0.1")
    assert same["step_s"] == pytest.approx(plain["step_s"])
    assert slow["plain_step_s"] == plain["step_s"] < slow["step_s"]
    assert (same["places"], slow["places"]) == (2, 8)


def test_noise_says_how_many_places_there_are(simctl: Simctl) -> None:
    done = simctl(*TRAIN, "--noise", "lognormal:0.2", "--seed", "2", "--steps", "3")
    assert "note: ranks differ by noise: 8 places instead of 2, some " in done.stderr
    first, again, other = (
        summary(simctl, "--noise", "lognormal:0.2", "--seed", seed)["step_s"] for seed in "223"
    )
    assert first == again != other


def test_a_failure_takes_its_restart_and_the_steps_since_the_checkpoint(simctl: Simctl) -> None:
    plain = summary(simctl)["step_s"]
    fail = "--steps", "4", "--fail", "rank=1,step=1,restart=3s,timeout=1s,checkpoint=2"
    row = summary(simctl, *fail)
    assert row["restarting_s"] == pytest.approx(4.0 / 4)
    assert 5 * plain + 4.0 < 4 * row["step_s"] < 6 * plain + 4.0


def test_a_report_has_the_conditions(simctl: Simctl, tmp_path: Path) -> None:
    page = tmp_path / "step.md"
    simctl(*TRAIN, "--straggler", "1:2", "--report", page)
    text = page.read_text()
    assert "% of the speed)" in text
    assert "| 0 | rank 0 | 0 | rank 1 | tp | " in text


def test_a_report_has_the_epochs_also_from_a_stored_result(simctl: Simctl, tmp_path: Path) -> None:
    stored, page, again = (tmp_path / name for name in ("step.json", "step.md", "again.md"))
    options = "--epochs", "samples=10000,count=3,pause=10s,rate=16"
    simctl(*TRAIN, *options, "--out", stored, "--report", page)
    simctl("report", stored, "--out", again)
    for text in (page.read_text(), again.read_text()):
        assert "An epoch of 625 steps takes 635s, the training of 3 epochs 1905s." in text
        assert "- an epoch: 635s" in text
        assert "- training: 1905s (3 epochs)" in text
        assert "| waiting for samples |" in text


def test_epochs_and_a_slow_input_count(simctl: Simctl) -> None:
    epochs = "samples=10000,count=3,pause=10s"
    row = summary(simctl, "--epochs", epochs)
    assert row["epoch_s"] == pytest.approx(625 * row["step_s"] + 10)
    assert row["training_s"] == pytest.approx(3 * row["epoch_s"])
    slow = summary(simctl, "--epochs", f"{epochs},rate=16")
    assert slow["step_s"] == pytest.approx(1.0)
    assert slow["input_s"] == pytest.approx(1.0 - row["step_s"])
    assert "an epoch" in simctl(*TRAIN, "--epochs", epochs).stdout


@pytest.mark.parametrize(
    ("options", "part", "words"),
    [
        (("--fail", "rank=2,step=0,restart=1s"), "restarting", "restarts after a failure"),
        (("--epochs", "rate=16"), "input", "waiting for samples"),
    ],
)
def test_restarts_and_waits_for_samples_are_parts_of_the_step_of_each_device(
    simctl: Simctl, tmp_path: Path, options: tuple[str, ...], part: str, words: str
) -> None:
    page = tmp_path / "step.md"
    done = json.loads(simctl(*TRAIN, *options, "--format", "json", "--report", page).stdout)
    step = done["summary"]["step_s"]
    for device in done["devices"]:
        beside = [name for name in device if name.startswith(("hidden", "stage", "device"))]
        parts = set(device) - {*beside, "idle_between_s"}
        assert sum(device[name] for name in parts) == pytest.approx(step)
    assert sum(done["critical_path_s"].values()) == pytest.approx(step)
    assert f"it loses most to {words}: " in page.read_text()
    assert f" {part} " in simctl(*TRAIN, *options).stdout.partition("Devices of the pipeline")[2]


def test_an_interval_holds_the_reading_of_samples(simctl: Simctl) -> None:
    row = summary(simctl, "--library", "nccl", "--epochs", "rate=4")
    names = "step_s", "expected_s", "low_s", "high_s"
    assert [row[name] for name in names] == pytest.approx([4.0] * 4)


def test_several_plans_and_numbers_of_gpus_are_a_table(simctl: Simctl, tmp_path: Path) -> None:
    table = "plan", "--model", MODEL, "--topology", "dgx_a100", "tp=2,batch=16,pp=1"
    out = tmp_path / "rows.csv"
    counts = simctl(*table, "--p", "4,8", "--straggler", "1:2", "--out", out)
    rows = pd.read_csv(out)
    assert rows.gpus.tolist() == [4, 8]
    assert rows.plan.str.slice(0, 4).tolist() == ["dp=2", "dp=4"]
    assert (rows.step_s > rows.plain_step_s).all()
    assert counts.stdout.count("tp=2,batch=16,pp=1") == 3
    swept = json.loads(simctl(*table, "--sweep", "pp=1,2", "--format", "json").stdout)
    assert [row["plan"][:14] for row in swept] == ["dp=4,tp=2,pp=1", "dp=2,tp=2,pp=2"]
    sizes = "--sweep", "bucket=10MiB..40MiB:x2", "--format", "json"
    buckets = json.loads(simctl(*TRAIN, *sizes).stdout)
    assert [row["plan"].rpartition("=")[2] for row in buckets] == ["10MiB", "20MiB", "40MiB"]
    single = json.loads(simctl(*table, "--sweep", "pp=2", "--format", "json").stdout)
    assert single["summary"]["step_s"] == swept[1]["step_s"]


def test_a_note_says_that_a_seed_changes_nothing_without_noise(simctl: Simctl) -> None:
    note = "note: --seed 3: there is no --noise, so it changes nothing"
    assert simctl(*TRAIN, "--seed", "3", "--sweep", "micro=1,2").stderr.count(note) == 1
    assert note not in simctl(*TRAIN, "--seed", "3", "--noise", "lognormal:0.1").stderr


def test_steps_behind_each_other_compare_with_as_many_without_conditions(simctl: Simctl) -> None:
    """In zb_h1 a device begins the next step while others end this one, so that three steps take
    less than three times one."""
    plan = ("tp=2,pp=4,schedule=zb_h1,micro=1,batch=16", "--topology", "hgx_h100", "--p", "8")
    command = ("plan", "--model", "llama3_8b:layers=4", *plan, "--format", "json")
    step_s = json.loads(simctl(*command).stdout)["summary"]["step_s"]
    done = json.loads(simctl(*command, "--steps", "3").stdout)
    assert done["summary"]["relative_speed"] == pytest.approx(1.0, rel=1e-9)
    assert done["summary"]["step_s"] < step_s
    assert done["waits"] == []


def test_a_timeline_has_a_row_for_ranks_that_are_alike(simctl: Simctl, tmp_path: Path) -> None:
    trace, picture, kineto, chakra = (
        tmp_path / name for name in ("step.json", "step.svg", "traces", "step.chakra")
    )
    conditions = "--straggler", "1:2", "--steps", "2"
    fails = *TRAIN[:-1], "tp=2,batch=16", "--fail", "rank=1,step=1,restart=5ms"
    for file in (trace, picture, kineto):
        assert simctl(*fails, *conditions, "--timeline", file).returncode == 0
    events = json.loads(trace.read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {"rank 1", "3 ranks like 2"} <= names
    for step in ("ProfilerStep#1", "ProfilerStep#1 (lost)"):
        assert sum(event["name"] == step for event in events) == len(names)
    assert {"restart", "bubble: transfer"} <= {event["name"] for event in events}
    assert b"3 ranks like 2" in picture.read_bytes()
    assert len(list(kineto.iterdir())) == 8
    # A replay has the links alone.
    ideal = *TRAIN[:-1], f"{TRAIN[-1]},links=ideal", *conditions
    assert simctl(*ideal, "--timeline", f"{chakra}/").returncode == 0
    replayed = simctl("run", "--chakra", chakra, "--topology", "dgx_a100", "--format", "json")
    row = json.loads(simctl(*ideal, "--format", "json").stdout)["summary"]
    assert json.loads(replayed.stdout)["time_s"] == pytest.approx(2 * row["step_s"], rel=0.05)


def test_a_table_of_plans_has_their_transfers(simctl: Simctl) -> None:
    plans = ("dp=2,batch=2", "tp=2,batch=2", "--p", "2")
    command = ("plan", "--model", MODEL, "--topology", "dgx_a100", *plans)
    assert "all transfers" in simctl(*command, "--detail", "transfers").stdout
    assert "all transfers" not in simctl(*command).stdout
