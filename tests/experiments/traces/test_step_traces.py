"""Steps of plans as graphs of ranks, as Chakra traces, and as Kineto traces."""

import json
from collections import Counter
from pathlib import Path

import pytest

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.pictures.timelines import kineto_export
from experiments.pictures.timelines.kineto_export import kineto_files
from experiments.pictures.timelines.step_spans import step_spans
from experiments.traces import chakra_export
from experiments.traces.chakra_export import chakra_files
from experiments.traces.job_calls import JobCalls
from experiments.traces.job_folder import read_job
from experiments.traces.job_tables import group_rows, rank_rows
from random_works import RINGS
from refusals import refusal
from simctl_process import Simctl
from simulator.engines import simulate
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import Step, write
from simulator.parallel.step_measures import measure
from simulator.parallel.step_splits import ranks_of
from simulator.steps.group_meetings import meetings
from simulator.steps.written import write as write_ranks
from topologies.catalogue import find

MODEL = "gpt3_1_7b:layers=2,hidden=1024,heads=8,seq=512"
PLANS = (
    "dp=8,batch=8",
    "tp=4,dp=2,batch=4",
    "pp=2,dp=4,batch=16",
    "dp=2,tp=2,pp=2,batch=8,zero=1",
    "cp=4,dp=2,batch=4",
)
ROUNDING = 1e-8
"""Traces have whole nanoseconds: what their sums may be off."""


def made(plan: str, machine: str = "full_mesh") -> Step:
    """A step of a small model on eight GPUs."""
    entry = find_transformer(MODEL)
    training = Training(entry.name, entry.shape, entry.size, DeviceTimes("a100"))
    parsed = parse_plan(plan, gpus=8)
    algorithms = RINGS if machine == "full_mesh" else {}
    topology = find(machine)
    if topology.kind == "shape":
        topology = topology.with_links(bandwidth=1e11, latency=1e-6)
    times = GroupTimes(topology.build(8), parsed.degrees, algorithms)
    return write(work_of(training, parsed, times))


@pytest.mark.parametrize("plan", PLANS)
def test_all_ranks_together_take_as_long_as_the_devices_that_stand_for_them(plan: str) -> None:
    """On a full mesh no two streams share a link."""
    step = made(plan)
    written = write_ranks(ranks_of(step), step.work.times.topology)
    timeline = simulate(written.schedule, written.topology)
    assert timeline.makespan == pytest.approx(step.timeline.makespan, rel=1e-9)


def test_each_rank_has_the_tasks_of_its_device() -> None:
    step = made("dp=2,tp=2,pp=2,batch=8")
    graph = ranks_of(step)
    degrees = step.work.times.degrees
    for rank in range(8):
        place = degrees.devices[rank]
        computed = graph.seconds[(graph.place == rank) & (graph.lane == 0)]
        rows = (step.schedule.rank == place) & (step.schedule.lane == 0)
        assert computed.tolist() == step.schedule.seconds[rows].tolist()
    met = meetings(graph)
    members = {tuple(sorted(each.ranks.tolist())) for each in met if not each.call.is_message}
    for kind in ("tp", "data"):
        assert {tuple(group) for group in degrees.groups(kind).tolist()} <= members
    ends = {tuple(each.ranks.tolist()) for each in met if each.call.is_message}
    pairs = {tuple(group) for group in degrees.groups("pp").tolist()}
    assert ends == pairs | {(second, first) for first, second in pairs}


def test_a_plan_is_written_and_read_back(simctl: Simctl, tmp_path: Path) -> None:
    plan = ("--model", MODEL, "dp=2,tp=2,pp=2,batch=8,links=ideal", "--topology", "hgx_h100")
    folder = tmp_path / "step.chakra"
    done = simctl("plan", *plan, "--timeline", folder, "--format", "json")
    assert done.returncode == 0, done.stderr
    step = json.loads(done.stdout)["summary"]["step_s"]
    run = ("run", "--chakra", folder, "--topology", "hgx_h100", "--algo", "rings")
    again = json.loads(simctl(*run, "--format", "json").stdout)
    assert again["time_s"] == pytest.approx(step, rel=0.03)
    names = {row["collective"] for row in again["communication"]}
    assert names == {"all_reduce", "send"}


@pytest.mark.parametrize("plan", ["dp=2,tp=2,pp=2,batch=8,zero=1", "cp=2,tp=4,batch=2"])
def test_kineto_traces_have_the_figures_of_the_step(plan: str, tmp_path: Path) -> None:
    step = made(plan, "hgx_h100")
    for name, content in kineto_files(step_spans(step), "h100", {}).items():
        (tmp_path / name).write_bytes(content)
    job, measures = JobCalls(read_job([tmp_path])), measure(step)
    degrees = step.work.times.degrees
    for row in rank_rows(job):
        place = degrees.devices[row.rank]
        computing = measures.computing[place] + measures.optimizer[place]
        exposed = float(measures.exposed[place].sum())
        assert row.computing_s == pytest.approx(float(computing), rel=1e-5, abs=ROUNDING)
        assert row.exposed_s == pytest.approx(exposed, rel=1e-5, abs=ROUNDING)
    sizes = Counter(row.ranks for row in group_rows(job))
    assert sizes[degrees.tp] >= 8 // degrees.tp


def test_too_many_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    step = made("dp=8,batch=8")
    monkeypatch.setattr(chakra_export, "MOST_NODES", 20)
    monkeypatch.setattr(kineto_export, "EVENTS", 20)
    assert "nodes, at most 20: take fewer ranks" in refusal(chakra_files, ranks_of(step))
    shifts = ranks_of(made("cp=4,dp=2,batch=4"))
    monkeypatch.setattr(chakra_export, "MOST_NODES", len(shifts))
    assert "take fewer ranks" in refusal(chakra_files, shifts)
    assert "kernels, at most 20: take" in refusal(kineto_files, step_spans(step), "h100", {})
