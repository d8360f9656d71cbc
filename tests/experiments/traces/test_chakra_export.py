"""Training runs as Chakra traces: read back, they take as long."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.commands.run_chakra import usual_algorithms
from experiments.commands.train_runs import run as command
from experiments.options.run_options import JobOptions
from experiments.traces.chakra_export import chakra_files
from experiments.traces.chakra_workload import read_workload
from experiments.training.job import Job
from experiments.training.training_grid import TrainingGrid
from refusals import refusal
from simulator.collectives import find
from simulator.engines import simulate
from simulator.steps.group_meetings import meetings
from simulator.steps.step_graph import MESSAGE, Call, StepGraph
from simulator.steps.written import write
from simulator.training import Strategy
from simulator.training import find as find_strategy
from simulator.training.conditions import Conditions
from simulator.training.ddp import DDP
from simulator.training.local_sgd import LocalSGD
from simulator.training.model import Layer, Model, Tensor
from task_graphs import Task, graph_of
from topologies.catalogue import find as machine

MODEL = Model(
    "tiny",
    4,
    tuple(Layer(f"fc{k}", 1e-3, 2.0003e-3, tensors=(Tensor("w", 4800.0),)) for k in range(3)),
    optimizer=5e-4,
)


def read_back(graph: StepGraph, folder: Path) -> StepGraph:
    """The tasks after they were written and read."""
    folder.mkdir(exist_ok=True)
    for name, content in chakra_files(graph).items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    read, _ = read_workload(folder, usual_algorithms([]), None)
    return read


@pytest.mark.parametrize(
    "strategy",
    [
        DDP(bucket=5000.0, algo="ring", small="ring"),
        DDP(bucket=1e9, algo="ring", small="ring", overlap=False, accumulate=2, metric=True),
        DDP(bucket=5000.0, algo="ring", small="ring", launch=1e-5),
        DDP(bucket=5000.0, algo="ring", small="ring", streams=2),
        LocalSGD(every=2, algo="ring"),
    ],
)
def test_a_run_takes_as_long_when_it_is_read_back(strategy: Strategy, tmp_path: Path) -> None:
    conditions = Conditions(slower={1: 1.5}, sigma=0.2, seed=3)
    star = machine("star").with_links(bandwidth=1e6, latency=1e-6)
    job = Job(MODEL, "ddp", strategy, star, steps=3, conditions=conditions, detail="transfers")
    run = job.run(4)
    again = read_back(run.plan.simulated(run.timeline), tmp_path)
    written = write(again, job.topology(4))
    timeline = simulate(written.schedule, written.topology)
    assert timeline.makespan == pytest.approx(run.timeline.makespan, rel=1e-9)
    phases = {*map(again.phase, range(len(again)))}
    assert {"compute", "all_reduce"} <= phases


def test_groups_and_messages_are_read_back(tmp_path: Path) -> None:
    gather = Call("first", "all_gather", 2000.0, find("ring_all_gather"))
    reduce = Call("second", "reduce", 3000.0, find("chain_reduce"), root=1)
    message = Call("2 to 1", MESSAGE, 500.0)
    tasks = [
        Task("a", 0, seconds=1e-3),
        Task("gather", 0, 1, (0,), call=gather),
        Task("gather", 2, 1, call=gather),
        Task("send", 2, 1, (2,), call=message),
        Task("receive", 1, 1, call=message),
        Task("b", 1, 0, (4,), 2e-3),
        Task("reduce", 1, 1, (5,), call=reduce),
        Task("reduce", 0, 1, (1,), call=reduce),
    ]
    graph = graph_of(3, tasks, {"first": [0, 2], "second": [0, 1], "2 to 1": [2, 1]})
    again = read_back(graph, tmp_path)
    topology = machine("star").with_links(bandwidth=1e6, latency=1e-6).build(3)
    written = [write(each, topology) for each in (graph, again)]
    times = [simulate(each.schedule, each.topology).makespan for each in written]
    assert times[0] == pytest.approx(times[1], rel=1e-12)
    assert [each.ranks.tolist() for each in meetings(again)] == [[0, 2], [1, 0], [2, 1]]
    assert json.loads((tmp_path / "groups.json").read_text()) == {"1": [0, 2], "2": [0, 1]}


def test_what_chakra_cannot_say_is_refused() -> None:
    shift = Call("all", "send_recv", 8.0, find("shift"))
    graph = graph_of(2, [Task("a", rank, call=shift) for rank in range(2)], {"all": [0, 1]})
    assert "Chakra has no collective send_recv" in refusal(chakra_files, graph)


@pytest.mark.parametrize("name", ["ddp", "ssgd"])
def test_a_run_of_one_rank_is_refused(name: str) -> None:
    job = Job(MODEL, name, find_strategy(name)(), machine("star"), detail="transfers")
    run = job.run(1)
    text = refusal(chakra_files, run.plan.simulated(run.timeline))
    assert text == "a Chakra workload of a strategy has 2 ranks or more: this run has 1"


@pytest.mark.parametrize("name", ["asgd", "ssp", "dp"])
def test_runs_that_wait_outside_of_collectives_are_refused(name: str) -> None:
    job = Job(MODEL, name, find_strategy(name)(), machine("star"), detail="transfers")
    run = job.run(3)
    text = refusal(chakra_files, run.plan.simulated(run.timeline))
    assert "ranks wait for each other outside of collectives" in text


def test_a_folder_with_the_ending_chakra_holds_chakra_traces(
    simctl: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    strategy = DDP(algo="ring", small="ring")
    job = Job(MODEL, "ddp", strategy, machine("star"))
    request = TrainingGrid("", [(None, job)], [2], {"p": 2})
    folder = tmp_path / "step.chakra"
    assert command(request, JobOptions(timeline=folder, format="csv")) == 0
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["groups.json", "simctl.0.et", "simctl.1.et"]
    done = simctl("run", "--chakra", folder, "--topology", "star", "--format", "json")
    step = request.job.run(2).measures.step
    assert json.loads(done.stdout)["time_s"] == pytest.approx(step, rel=1e-9)
