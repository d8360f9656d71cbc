"""Traces of jobs and of steps: what they say of ranks, calls and times."""

import csv
import gzip
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.pictures.timelines import kineto_export
from experiments.pictures.timelines.kineto_export import kineto_files
from experiments.pictures.timelines.step_spans import step_spans, strategy_spans
from experiments.traces import chakra_export
from experiments.traces.chakra_export import chakra_files
from experiments.traces.job_calls import JobCalls
from experiments.traces.job_folder import read_job
from experiments.traces.job_tables import group_rows, rank_rows
from experiments.training.job import Job
from job_traces import all_reduce, dump, dumps, entry, kernel, kineto
from random_works import RINGS
from refusals import refusal
from simctl_process import Simctl, mistake
from simulator.engines import simulate
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import Step, write
from simulator.parallel.step_measures import measure
from simulator.parallel.step_splits import ranks_of
from simulator.steps.group_meetings import meetings
from simulator.steps.written import write as write_ranks
from simulator.training.conditions import Conditions
from simulator.training.ddp import DDP
from simulator.training.model import Layer, Model, Tensor
from topologies.catalogue import find
from topologies.catalogue import find as machine

STEPS = 5


def report(simctl: Simctl, *paths: Path) -> dict[str, Any]:
    done = simctl("diagnose", "--job", *paths, "--format", "json")
    result: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == int(bool(result["problems"])), done.stderr
    return result


def late_rank(late: float = 40.0) -> list[list[dict[str, Any]]]:
    """Steps of 100 us: rank 1 gets to the all-reduce `late` us after rank 0, and it takes 10 us."""
    return [
        [
            event
            for step in range(STEPS)
            for event in (
                kernel(100 * step, 50.0),
                all_reduce(100 * step + 40 + late * rank, 10 + late * (1 - rank), step),
            )
        ]
        for rank in range(2)
    ]


@pytest.mark.parametrize("skew", [0, 7_000_000_000])
def test_a_late_rank_is_found_whatever_its_clock(simctl: Simctl, tmp_path: Path, skew: int) -> None:
    result = report(simctl, kineto(tmp_path, late_rank(), 0, skew))
    first, second = result["ranks"]
    assert (first["last"], second["last"]) == (0, STEPS)
    assert second["late_s"] == pytest.approx(40e-6)
    assert second["late_max_s"] == pytest.approx(40e-6)
    assert first["waiting_s"] == pytest.approx(STEPS * 40e-6)
    assert second["clock_s"] - first["clock_s"] == pytest.approx(skew / 1e9)
    assert result["problems"][0]["kind"] == "straggler"
    assert "rank 1 is last in 5 of 5 calls" in result["problems"][0]["text"]


def test_overlap_and_bus_bandwidth_are_those_of_the_kernels(simctl: Simctl, tmp_path: Path) -> None:
    result = report(simctl, kineto(tmp_path, late_rank()))
    first, second = result["ranks"]
    assert first["computing_s"] == pytest.approx(STEPS * 50e-6)
    assert (first["hidden_s"], first["exposed_s"]) == pytest.approx((STEPS * 10e-6, STEPS * 40e-6))
    assert (second["hidden_s"], second["exposed_s"]) == pytest.approx((0.0, STEPS * 10e-6))
    (row,) = result["collectives"]
    assert (row["collective"], row["group"], row["ranks"]) == ("all_reduce", "0", 2)
    assert (row["size_B"], row["calls"], row["last"]) == (4000.0, STEPS, 1)
    assert row["time_s"] == pytest.approx(10e-6)
    assert row["busbw_Bps"] == pytest.approx(4000 / 10e-6)
    assert row["spread_s"] == pytest.approx(40e-6)


def test_our_traces_have_our_overlap(tmp_path: Path) -> None:
    layers = tuple(Layer(f"l{k}", 1e-3, 2e-3, tensors=(Tensor("w", 4e5),)) for k in range(3))
    job = Job(
        Model("tiny", 1, layers),
        "ddp",
        DDP(bucket=1.0),
        machine("star").with_links(bandwidth=1e9, latency=1e-6),
        steps=2,
        conditions=Conditions(slower={1: 1.4}),
    )
    run = job.run(3)
    for name, content in kineto_files(strategy_spans(run.plan, run.timeline), "", {}).items():
        (tmp_path / name).write_bytes(content)
    rows = rank_rows(JobCalls(read_job([tmp_path])))
    for measured, column in (
        ("computing", "computing_s"),
        ("hidden", "hidden_s"),
        ("exposed", "exposed_s"),
    ):
        expected = getattr(run.measures, measured).tolist()
        assert [getattr(row, column) for row in rows] == pytest.approx(expected, abs=1e-8)
    assert [row.last for row in rows][1] > 0


@pytest.mark.parametrize("how", ["pickle", "json"])
def test_dumps_say_who_called_late(simctl: Simctl, tmp_path: Path, how: str) -> None:
    ranks = [
        [
            entry(k, 10**9 * k + rank * 10**8, duration_ms=2.0 + 100 * (1 - rank))
            for k in range(1, 6)
        ]
        for rank in range(2)
    ]
    result = report(simctl, dumps(tmp_path, ranks, how))
    assert [row["last"] for row in result["ranks"]] == [0, 5]
    assert result["ranks"][1]["late_s"] == pytest.approx(0.1)
    assert result["collectives"][0]["busbw_Bps"] == pytest.approx(4000 / 2e-3)
    assert [problem["kind"] for problem in result["problems"]] == ["straggler"]


@pytest.mark.parametrize("protocol", range(6))
def test_dumps_of_all_protocols_are_read(tmp_path: Path, protocol: int) -> None:
    for rank in range(2):
        data = pickle.dumps(dump([entry(1, 5)]), protocol)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(data)
    assert len(JobCalls(read_job([tmp_path])).calls) == 1


def test_a_dump_of_a_job_that_hangs_says_who_is_missing(simctl: Simctl, tmp_path: Path) -> None:
    ranks = [
        [
            entry(1, 10),
            entry(2, 20),
            entry(3, 30, state="started"),
            entry(4, 40, state="scheduled"),
        ],
        [entry(1, 10), entry(2, 20)],
        [entry(1, 10), entry(2, 20), entry(3, 30, "nccl:_all_gather_base", state="started")],
    ]
    result = report(simctl, dumps(tmp_path, ranks))
    listed = [problem["text"].replace("'0:default_pg'", "'0'") for problem in result["problems"]]
    assert "rank 1 did not call all_reduce of 4kB, call 3 of group '0': 2 ranks did" in listed
    assert "rank 2 did not call all_reduce of 4kB, call 4 of group '0': 1 rank did" in listed
    assert "all_reduce of 4kB, call 3 of group '0', has not ended at ranks 0, 2" in listed
    assert (
        "call 3 of group '0' differs: rank 0: all_reduce of 4kB; rank 2: all_gather of 4kB"
        in listed
    )


def test_a_rank_without_any_call_is_missing(simctl: Simctl, tmp_path: Path) -> None:
    calls = [entry(number, number) for number in (7, 8)]
    result = report(simctl, dumps(tmp_path, [calls, calls, []]))
    assert "rank 2 did not call all_reduce of 4kB, call 7" in result["problems"][0]["text"]


def test_windows_that_differ_are_matched_by_number(simctl: Simctl, tmp_path: Path) -> None:
    """Kineto's windows begin and end where they do: a call that is not there was made."""
    ranks = [late_rank(0.0)[0][2:], late_rank(0.0)[1][:-2]]
    result = report(simctl, kineto(tmp_path, ranks))
    assert [row["calls"] for row in result["ranks"]] == [STEPS - 2] * 2
    assert result["problems"] == []


def test_kernels_without_args_are_matched_in_their_order(simctl: Simctl, tmp_path: Path) -> None:
    names = ("ncclKernel_AllReduce_RING_LL_Sum_float(x)", "ncclDevKernel_SendRecv(y)")
    ranks = [
        [kernel(10 * k + rank, 5.0, name) for k, name in enumerate(names)] for rank in range(2)
    ]
    (row,) = report(simctl, kineto(tmp_path, ranks))["collectives"]
    assert (row["collective"], row["size_B"], row["busbw_Bps"]) == ("all_reduce", None, None)


def test_tables_are_printed_as_text_and_csv(simctl: Simctl, tmp_path: Path) -> None:
    folder = kineto(tmp_path, late_rank())
    done = simctl("diagnose", "--job", folder)
    assert done.returncode == 1
    assert done.stdout.startswith(
        "5 collectives of 2 ranks in 400us\n\nVerdict\n  straggler: rank 1"
    )
    assert "rank 1 (100%)" in done.stdout
    rows = [
        *csv.DictReader(simctl("diagnose", "--job", folder, "--format", "csv").stdout.splitlines())
    ]
    assert [row["row"] for row in rows] == ["rank", "rank", "collective", "problem"]
    assert float(rows[2]["busbw_Bps"]) == pytest.approx(4e8)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"trace_0.json": b""}, "trace_0.json is empty"),
        ({"trace_0.json": b"{"}, "is no trace of a rank"),
        ({"trace_0.json": b"[]"}, "has no list of entries"),
        ({"trace_0.json": b'{"traceEvents": 3}'}, "has no list of traceEvents"),
        ({"trace_0.json": b'{"traceEvents": []}'}, "has no kernels of NCCL"),
        (
            {"trace_0.json": b'{"traceEvents": [{"cat": "kernel", "name": "x", "ts": "a"}]}'},
            "with ts 'a'",
        ),
        ({"trace.json": b'{"traceEvents": []}'}, "does not say its rank"),
        ({"trace_0.json.gz": gzip.compress(b"{}")[:-9]}, "is damaged or cut off"),
        ({"a_0": b"\x80\x02cos\nsystem\n."}, "it names 'os.system'"),
        ({"a_0": b"\x80\x02"}, "is no pickle, or damaged"),
    ],
)
def test_what_is_no_job_is_refused(
    simctl: Simctl, tmp_path: Path, files: dict[str, bytes], words: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert words in mistake(simctl("diagnose", "--job", tmp_path))


def test_jobs_of_one_rank_twice_a_rank_or_without_common_calls_are_refused(
    simctl: Simctl, tmp_path: Path
) -> None:
    one = kineto(tmp_path / "one", late_rank()[:1])
    two = kineto(tmp_path / "two", late_rank()[:1])
    apart = kineto(tmp_path / "apart", [[all_reduce(1, 1, 1)], [all_reduce(1, 1, 2)]])
    dumped = dumps(tmp_path / "dumped", [[], [entry(1, 1)]])
    (tmp_path / "none").mkdir()
    (dumped / "nccl_trace_rank_0").unlink()
    for paths, words in (
        ([one], "is of one rank: give the traces of all ranks"),
        ([one, two], "are both of rank 0"),
        ([one, dumped], "give one kind"),
        ([apart], "have no collective in common"),
        ([tmp_path / "none"], "holds no files"),
        ([tmp_path / "nowhere"], "no such file"),
    ):
        assert words in mistake(simctl("diagnose", "--job", *paths))
    for options in (("--topology", "star"), ("--in-place",), ("--family", "x")):
        done = simctl("diagnose", "--job", one, *options)
        assert f"--job and {options[0]}" in done.stderr


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
