"""The spans of training runs and of steps of plans, and their Kineto traces: a file a worker, and
what HolisticTraceAnalysis reads there."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddp_steps import MODEL
from experiments.answer_files import ALL, TraceChoice
from experiments.commands.train_runs import run as command
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.options.run_options import JobOptions
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.pictures.timelines import kineto_export
from experiments.pictures.timelines.kineto_export import STREAM, kineto_files
from experiments.pictures.timelines.painter import timeline_drawing
from experiments.pictures.timelines.step_spans import step_spans, strategy_spans
from experiments.training.job import Job
from experiments.training.training_grid import TrainingGrid
from extras import needs
from refusals import refusal
from simulator.analysis.bubbles import SLOWER_PEER, TRANSFER, BubbleSpans, bubble_spans, bubbles
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import Step, write
from simulator.parallel.step_measures import measure as step_measure
from simulator.schedules.timeline import Timeline
from simulator.training import find
from simulator.training.conditions import Conditions, Failure
from simulator.training.ddp import DDP
from simulator.training.measures import measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import COMPUTE, Plan, Setting
from simulator.training.plan_simulation import train
from topologies.catalogue import find as machine
from topologies.columns import plain_rows

Run = Callable[..., tuple[Plan, Timeline]]
HTA = """
import json, sys
from hta.trace_analysis import TraceAnalysis
for folder in sys.argv[1:]:
    traces = TraceAnalysis(trace_dir=folder, include_last_profiler_step=True)
    breakdown = traces.get_temporal_breakdown(visualize=False).set_index("rank")
    overlap = traces.get_comm_comp_overlap(visualize=False).set_index("rank")
    table = breakdown.join(overlap)
    print("TABLE", json.dumps(table.reset_index().to_dict("records")))
"""
"""Prints what HolisticTraceAnalysis finds in each folder, a line each."""


def test_names_of_lanes(run: Run) -> None:
    assert strategy_spans(*run(find("asgd")(), 2)).graph.lanes[:2] == ("compute", "communication")


def gaps(plan: Plan, timeline: Timeline) -> BubbleSpans:
    """The gaps of the workers."""
    spans = bubble_spans(timeline)
    return spans.take(spans.rank < plan.workers)


@given(
    ranks=st.integers(1, 5),
    steps=st.integers(1, 3),
    sigma=st.sampled_from([0.0, 0.3]),
    name=st.sampled_from(["ddp", "asgd"]),
)
def test_gaps_add_up_to_the_bubbles(
    run: Run, ranks: int, steps: int, sigma: float, name: str
) -> None:
    plan, timeline = run(find(name)(), ranks, steps=steps, conditions=Conditions(sigma=sigma))
    idle_gaps = gaps(plan, timeline)
    idle = np.bincount(idle_gaps.rank, idle_gaps.end - idle_gaps.start, ranks)
    np.testing.assert_allclose(idle, bubbles(timeline).sum(axis=1)[:ranks], atol=1e-12)
    boxes = strategy_spans(plan, timeline).boxes
    main = boxes.take(boxes.lane == COMPUTE)
    busy = np.bincount(main.row, main.end - main.start, ranks + 1)[:ranks]
    np.testing.assert_allclose(idle + busy, timeline.makespan)
    assert (idle_gaps.end > idle_gaps.start).all()


@pytest.mark.parametrize(
    ("name", "ranks", "expected"),
    [
        ("ddp", 2, {0: ["all-reduce bucket 0", ""], 1: ["all-reduce bucket 0"]}),
        ("ssgd", 3, {0: ["push model", "push model", "pull"], 1: ["pull", ""], 2: ["pull"]}),
    ],
)
def test_a_gap_ends_with_what_it_waited_for_or_with_the_run(
    run: Run, name: str, ranks: int, expected: dict[int, list[str]]
) -> None:
    """After its last computation, a worker waits for what it takes part in."""
    strategy = DDP(overlap=False, bucket=1e12) if name == "ddp" else find(name)()
    conditions = Conditions(slower={1: 2.0} if name == "ddp" else {})
    plan, timeline = run(strategy, ranks, conditions=conditions)
    schedule, idle_gaps = timeline.schedule, gaps(plan, timeline)
    by_rank: dict[int, list[str]] = {}
    for rank, operation in dict.fromkeys(plain_rows(idle_gaps.rank, idle_gaps.awaited)):
        phase = schedule.phases[schedule.phase[operation]] if operation >= 0 else ""
        by_rank.setdefault(rank, []).append(phase)
    assert by_rank == expected
    if name == "ddp":
        drain = idle_gaps.take((idle_gaps.rank == 0) & (idle_gaps.awaited < 0))
        assert drain.end - drain.start == pytest.approx([5e-4])


def test_gaps_of_a_run_with_whole_collectives_have_causes() -> None:
    """Collectives have no peer. A straggler is the peer of all others, which wait for it."""
    setting = Setting(machine("star").build(4), 4, 2, Conditions(slower={2: 1.5}), priced_beyond=0)
    plan = DDP(bucket=1000.0).plan(MODEL, setting)
    spans = strategy_spans(plan, train(plan))
    idle, causes = spans.bubbles, set(spans.bubbles.cause.tolist())
    assert {TRANSFER, SLOWER_PEER} <= causes
    waits = idle.cause == SLOWER_PEER
    assert set(idle.peer[waits & (idle.row != 2)].tolist()) == {2}
    assert set(idle.peer[~waits].tolist()) == {-1}
    assert any("--detail transfers" in remark for remark in spans.remarks)


def test_entering_and_leaving_belong_to_the_communication(run: Run) -> None:
    plan, timeline = run(DDP(bucket=1000.0, launch=1e-4), 3)
    boxes = strategy_spans(plan, timeline).boxes
    talking, computing = boxes.take(boxes.lane > 0), boxes.take(boxes.lane == 0)
    assert len(talking.row) == 3 * 2
    assert set(talking.lane.tolist()) == {1}
    assert len(computing.row) == 3 * (2 + 2 + 1)


def planned(text: str) -> Step:
    """A step of a small transformer under a plan on four GPUs."""
    entry = find_transformer("gpt3_1_7b:layers=2,hidden=1024,heads=8,seq=512")
    training = Training(entry.name, entry.shape, entry.size, DeviceTimes("h100"))
    plan = parse_plan(text, gpus=4)
    times = GroupTimes(machine("star").build(4), plan.degrees)
    return write(work_of(training, plan, times))


def test_a_step_with_ddp_shows_copies_on_the_device_and_hooks_on_the_cpu() -> None:
    spans = step_spans(planned("dp=4,ddp=yes"))
    lanes = {
        name: {spans.graph.lanes[lane] for lane in spans.boxes.lane[spans.boxes.name == number]}
        for number, name in enumerate(spans.names)
    }
    assert lanes["copy"] == lanes["copy 0"] == {"compute"}
    assert lanes["hooks 0"] == {"host"}
    assert {*spans.kinds.values()} <= {*spans.legend}


def test_a_step_of_a_plan_has_labels_and_groups_and_its_picture_has_shares_of_bubbles() -> None:
    spans = step_spans(planned("tp=2,pp=2,batch=4"))
    graph, boxes = spans.graph, spans.boxes
    tasks = boxes.task
    assert spans.worker_of.tolist() == [0, 0, 1, 1]
    assert spans.groups["tp"].tolist() == [[0, 1], [2, 3]]
    talks = {spans.communication(task) for task in tasks.tolist()}
    assert {("all_reduce", "tp"), ("send", "send")} <= talks
    named = np.array(spans.names)[boxes.name]
    assert set(graph.micro[tasks[named == "forward 1"]].tolist()) == {1}
    calls = tasks[named == "tp all_reduce"].tolist()
    assert {spans.communication(task) for task in calls} == {("all_reduce", "tp")}
    assert (graph.call[tasks[boxes.lane == COMPUTE]] == -1).all()
    shown = timeline_drawing(spans.spans()).axes[0].get_title(loc="left").splitlines()
    assert shown[0] == "what each device computes and communicates, and why it is idle"
    assert shown[1].startswith("not computing: ")
    assert shown[2] == "A row stands for 2 ranks of 4: they do the same at the same time."


def traces(run: tuple[Plan, Timeline]) -> list[dict[str, Any]]:
    """The traces of all workers."""
    files = kineto_files(strategy_spans(*run), "", {"strategy": "ddp"})
    return [json.loads(gzip.decompress(content)) for content in files.values()]


def kernels(trace: dict[str, Any], stream: int) -> list[dict[str, Any]]:
    """The kernels on a stream."""
    return [
        event
        for event in trace["traceEvents"]
        if event["cat"] == "kernel" and event["args"]["stream"] == stream
    ]


def test_each_worker_has_a_trace_with_its_rank(run: Run) -> None:
    plan, timeline = run(ranks=3)
    files = kineto_files(strategy_spans(plan, timeline), "", {})
    assert [*files] == [f"rank{rank}.json.gz" for rank in range(3)]
    for rank, trace in enumerate(traces((plan, timeline))):
        assert trace["distributedInfo"]["rank"] == rank
        assert trace["distributedInfo"]["world_size"] == 3
        assert '"rank": ' in json.dumps(trace["distributedInfo"])


def test_communications_have_the_args_of_nccl_kernels(run: Run) -> None:
    trace = traces(run(DDP(bucket=1500.0), ranks=2, layers=3))[1]
    kernel = kernels(trace, STREAM + 1)[1]
    assert kernel["name"] == "ncclDevKernel_AllReduce"
    about = kernel["args"]
    assert about["phase"] == "all-reduce bucket 1"
    assert about["Collective name"] == "allreduce"
    assert (about["In msg nelems"], about["Out msg nelems"], about["dtype"]) == (250, 250, "Float")
    assert (about["Group size"], about["Seq"], about["Process Group Name"]) == (2, 1, "1")
    launches = {
        event["args"]["correlation"]
        for event in trace["traceEvents"]
        if event["cat"] == "cuda_runtime"
    }
    linked = {
        event["args"]["correlation"] for event in trace["traceEvents"] if event["cat"] == "kernel"
    }
    assert launches == linked


def test_kernels_take_what_was_simulated(run: Run) -> None:
    plan, timeline = run(
        ranks=3, steps=2, conditions=Conditions(slower={1: 1.7}, failure=Failure(0, 1, 1e-3))
    )
    computing = [
        sum(event["dur"] for event in kernels(trace, STREAM)) / 1e6
        for trace in traces((plan, timeline))
    ]
    assert computing == pytest.approx(measure(plan, timeline).computing.tolist(), abs=1e-7)


def test_too_many_kernels_are_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_export, "EVENTS", 10)
    text = refusal(kineto_files, strategy_spans(*run(ranks=4)), "", {})
    assert "at most 10: take fewer steps, micro-batches or GPUs, or --ranks" in text


def test_chosen_ranks_have_the_files_that_they_have_among_all(run: Run) -> None:
    some = TraceChoice((1, 3))
    for spans in (strategy_spans(*run(ranks=4)), step_spans(planned("tp=2,pp=2,batch=4"))):
        every, chosen = (kineto_files(spans, "h100", {}, choice) for choice in (ALL, some))
        assert chosen == {name: every[name] for name in ("rank1.json.gz", "rank3.json.gz")}


@needs("hta", "hta")
def test_hta_finds_the_same_idle_and_overlapping_time(run: Run, tmp_path: Path) -> None:
    """Idle between the first and the last kernel of a worker, and the share of communication that
    is hidden."""
    runs = {
        "ddp": run(ranks=3, steps=2, layers=4, conditions=Conditions(slower={1: 1.7})),
        "ssgd": run(find("ssgd")(), 4, steps=2, conditions=Conditions(slower={2: 1.3})),
        "failure": run(ranks=2, steps=2, conditions=Conditions(failure=Failure(0, 1, 1e-3))),
    }
    for name, (plan, timeline) in runs.items():
        folder, choice = tmp_path / name, TraceChoice((1, 2)) if name == "ddp" else ALL
        folder.mkdir()
        spans = strategy_spans(plan, timeline)
        for file, content in kineto_files(spans, "", {}, choice).items():
            (folder / file).write_bytes(content)
    step = planned("tp=2,pp=2,batch=4")
    (tmp_path / "plan").mkdir()
    for file, content in kineto_files(step_spans(step), "h100", {}).items():
        (tmp_path / "plan" / file).write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", HTA, *(str(tmp_path / name) for name in (*runs, "plan"))],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"HTA_DISABLE_NS_ROUNDING": "1"},
    )
    tables = [
        json.loads(line.removeprefix("TABLE "))
        for line in done.stdout.splitlines()
        if line.startswith("TABLE ")
    ]
    of_plan = step_measure(step)
    for row in tables.pop():
        place = step.work.times.degrees.devices[row["rank"]]
        computing = of_plan.computing[place] + of_plan.optimizer[place]
        exposed = of_plan.exposed[place].sum()
        assert row["compute_time(us)"] / 1e6 == pytest.approx(computing, rel=1e-5)
        assert row["non_compute_time(us)"] / 1e6 == pytest.approx(exposed, rel=1e-5)
    idle_somewhere = False
    for (plan, timeline), table in zip(runs.values(), tables, strict=True):
        measures = measure(plan, timeline)
        for row in table:
            rank = row["rank"]
            span = row["kernel_time(us)"] / 1e6
            busy = measures.computing[rank] + measures.exposed[rank]
            assert row["idle_time(us)"] / 1e6 == pytest.approx(span - busy, abs=1e-8)
            assert row["compute_time(us)"] / 1e6 == pytest.approx(measures.computing[rank])
            assert row["non_compute_time(us)"] / 1e6 == pytest.approx(measures.exposed[rank])
            share = measures.hidden[rank] / (measures.hidden[rank] + measures.exposed[rank])
            assert row["comp_comm_overlap_pctg"] == pytest.approx(100 * share, abs=0.01)
            idle_somewhere |= row["idle_time(us)"] > 1000
        ends = timeline.finish[plan.ends[-1]]
        assert span <= ends.max() + 1e-9
    assert idle_somewhere


def test_a_timeline_without_an_ending_is_a_folder_of_traces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model("tiny", 1, (Layer("fc", 1e-3, 1e-3, tensors=(Tensor("w", 1000.0),)),))
    job = Job(model, "ddp", DDP(), machine("star"))
    request = TrainingGrid("", [(None, job)], [2], {"p": 2})
    folder = tmp_path / "traces"
    options = JobOptions(timeline=folder, format="csv")
    for _ in range(2):
        assert command(request, options) == 0
        assert sorted(file.name for file in folder.iterdir()) == [
            "rank0.json.gz",
            "rank1.json.gz",
        ]
    (folder / "rank2.json.gz").write_bytes(b"")
    text = refusal(command, request, options)
    assert "holds 'rank2.json.gz' of something else: name a new folder" in text
    (tmp_path / "file").write_text("")
    blocked = replace(options, timeline=tmp_path / "file")
    assert "name a folder" in refusal(command, request, blocked)
    nowhere = replace(options, timeline=Path("/none/traces"))
    assert "cannot write '/none/traces'" in refusal(command, request, nowhere)
    capsys.readouterr()
