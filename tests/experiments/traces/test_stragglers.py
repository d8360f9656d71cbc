"""Slow ranks of jobs: found where communication or computing bounds them, never made up."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.commands.diagnose import Diagnose
from experiments.pictures.timelines.kineto_export import kineto_files
from experiments.pictures.timelines.step_spans import strategy_spans
from experiments.traces.job_calls import JobCalls
from experiments.traces.job_folder import read_job
from experiments.traces.job_tables import problems
from experiments.training.job import Job
from experiments.training.strategy_options import find
from grouped_cases import each_case
from job_traces import all_reduce, dumps, entry, kernel, kineto
from simulator.training.conditions import Conditions
from simulator.training.model import Layer, Model, Tensor
from topologies.catalogue import find as machine

COMPUTE, COMMUNICATION = 4e5, 4e6
"""Bytes of the gradients of a layer. What takes longest follows from them."""


def traces(
    folder: Path,
    topology: str,
    nbytes: float,
    options: str = "bucket=1B",
    *,
    slower: dict[int, float] | None = None,
    sigma: float = 0.0,
    steps: int = 5,
    ranks: int = 4,
) -> Path:
    """Traces of a job on `ranks` of `topology`, whose layers have gradients of `nbytes`."""
    layers = tuple(Layer(f"l{k}", 1e-3, 2e-3, tensors=(Tensor("w", nbytes),)) for k in range(6))
    job = Job(
        Model("tiny", 1, layers),
        "ddp",
        find(f"ddp:{options}"),
        machine(topology).with_links(bandwidth=1e9, latency=1e-6),
        steps=steps,
        conditions=Conditions(slower=slower or {}, sigma=sigma, seed=3),
    )
    run = job.run(ranks)
    for name, content in kineto_files(strategy_spans(run.plan, run.timeline), "", {}).items():
        (folder / name).write_bytes(content)
    return folder


def alarms(folder: Path) -> list[str]:
    return [problem.text for problem in problems(JobCalls(read_job([folder])))]


@each_case("nbytes", [COMPUTE, COMMUNICATION])
@each_case("sigma", [0.0, 0.05])
def test_a_slow_rank_is_named_whatever_bounds_the_job(
    tmp_path: Path, nbytes: float, sigma: float
) -> None:
    (text,) = alarms(traces(tmp_path, "star", nbytes, slower={1: 1.5}, sigma=sigma))
    assert text.startswith("rank 1 is last in 5 of 5 calls after computing: all others wait ")


@each_case(
    ("slow", "words"),
    [
        (
            range(4, 8),
            "ranks 4, 5, 6, 7 are last in 5 of 5 calls after computing: all others wait ",
        ),
        ((5, 9), "ranks 5, 9 are last in 5 of 5 calls after computing: all others wait "),
    ],
)
@each_case("nbytes", [COMPUTE, COMMUNICATION])
@each_case("sigma", [0.0, 0.02])
def test_slow_ranks_hide_each_other_no_more(
    tmp_path: Path, slow: Sequence[int], words: str, nbytes: float, sigma: float
) -> None:
    """Like those of a slow node."""
    slower, machine = dict.fromkeys(slow, 1.5), "nodes:per_node=4"
    (text,) = alarms(traces(tmp_path, machine, nbytes, slower=slower, sigma=sigma, ranks=16))
    assert text.startswith(words)


def test_ranks_that_wait_are_never_told_that_no_rank_is_late(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Most ranks are slow, so none is later than most."""
    folder = traces(tmp_path, "star", COMPUTE, slower=dict.fromkeys((1, 2, 3), 1.5))
    assert Diagnose(logs=[folder], job=True).run() == 0
    words = "rank 0 waits 63% of the time, most for rank 1, but no rank is late in most steps"
    assert f"  nothing is abnormal: {words}" in capsys.readouterr().out.splitlines()


@each_case(
    ("topology", "options"),
    [("star", "bucket=1B"), ("line", "bucket=1B,algo=naive"), ("tree", "bucket=1B,algo=tree")],
)
@each_case("sigma", [0.0, 0.2])
def test_jobs_without_a_slow_rank_raise_no_alarm(
    tmp_path: Path, topology: str, options: str, sigma: float
) -> None:
    assert not alarms(traces(tmp_path, topology, COMMUNICATION, options, sigma=sigma))


def test_a_late_rank_of_few_steps_is_no_straggler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The latest rank is listed first, although another was last more often."""
    folder = traces(tmp_path, "star", COMMUNICATION, slower={1: 1.5}, steps=2)
    assert Diagnose(logs=[folder], job=True).run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("  nothing is abnormal: rank 0 waits ")
    assert lines[3].endswith(" of the time, most for rank 1, but no rank is late in most steps")
    assert lines[7].split()[0] == "1"


@each_case("pauses", [1, 3])
def test_pauses_of_a_job_hide_no_slow_rank(tmp_path: Path, pauses: int) -> None:
    """Like the writing of checkpoints."""
    assert alarms(kineto(tmp_path, paused(pauses, 0))) == []
    (text,) = alarms(kineto(tmp_path, paused(pauses, 30)))
    assert text.startswith("rank 1 is last in ")


def paused(pauses: int, late: int) -> list[list[dict[str, Any]]]:
    """Ten steps of 100 us and two calls. Rank 1 is `late` at the first, and after each of the first
    `pauses` steps the job pauses for 1 ms."""
    begins = [100 * step + 1000 * min(step, pauses) for step in range(10)]
    return [
        [
            event
            for step, begin in enumerate(begins)
            for event in (
                kernel(begin, 40.0),
                all_reduce(begin + 40 + late * rank, 40 - late * rank, 2 * step),
                all_reduce(begin + 80, 19, 2 * step + 1),
            )
        ]
        for rank in range(2)
    ]


def dumped(
    folder: Path, late: dict[int, float], jitter: float, calls: int = 8, slow: Sequence[int] = (2,)
) -> Path:
    """Dumps of 8 ranks and 8 steps of 180 ms of computing and `calls` collectives. In the steps
    `late`, `slow` ranks get to the first collective so many ms after the others, which wait. All
    ranks come up to `jitter` ms late to any collective."""
    random, now = np.random.default_rng(3), 0.0
    ranks: list[list[object]] = [[] for _ in range(8)]
    for call in range(8 * calls):
        step, place = divmod(call, calls)
        now += 180.0 if place == 0 else 2.0
        arrivals = now + random.uniform(0.0, jitter, 8)
        arrivals[list(slow)] += late.get(step, 0.0) if place == 0 else 0.0
        for rank, arrival in zip(ranks, arrivals.tolist(), strict=True):
            rank.append(entry(call + 1, round(1e6 * arrival)))
        now = arrivals.max()
    return dumps(folder, ranks)


@each_case("calls", [1, 8])
@each_case("jitter", [0.0, 3.0])
@each_case(("slow", "words"), [((2,), "rank 2 is last in "), ((1, 2), "ranks 1, 2 are last in ")])
def test_dumps_show_ranks_that_are_late_once_a_step(
    tmp_path: Path, calls: int, jitter: float, slow: Sequence[int], words: str
) -> None:
    """Their other calls are on time, and do not hide them."""
    late = dict.fromkeys(range(8), 40.0)
    (text,) = alarms(dumped(tmp_path, late, jitter, calls, slow))
    assert text.startswith(f"{words}8 of 8 calls after computing: all others wait 3")


@each_case(
    ("late", "jitter", "words"),
    [
        ({}, 0.0, "no rank is late: none waits for more than 0.0% of the time, below 5%"),
        ({}, 2.0, "no rank is late: none waits for more than "),
        ({}, 3.0, "of the time, most for rank 4, but no rank is late in most steps"),
        ({}, 60.0, "of the time, most for rank "),
        ({4: 400.0}, 3.0, "of the time, most for rank 2, but no rank is late in most steps"),
    ],
)
def test_jitter_and_a_rank_that_is_late_once_raise_no_alarm(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    late: dict[int, float],
    jitter: float,
    words: str,
) -> None:
    assert Diagnose(logs=[dumped(tmp_path, late, jitter)], job=True).run() == 0
    assert words in capsys.readouterr().out.splitlines()[3]
