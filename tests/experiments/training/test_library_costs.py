"""Training steps under a calibrated library."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Literal

import pytest

from answer_texts import training_text
from experiments.profiles import find
from experiments.simulations.rules import Rules
from experiments.training.job import Job
from experiments.training.training_grid import what_if
from simctl_process import Simctl
from simulator.collectives import find as algorithm_called
from simulator.predictions import interval_of, prediction
from simulator.profile import Profile
from simulator.schedules.routed import route
from simulator.training import Strategy
from simulator.training.asgd import ASGD
from simulator.training.data_parallel import DataParallel
from simulator.training.ddp import DDP
from simulator.training.local_sgd import LocalSGD
from simulator.training.model import Layer, Model, Tensor
from simulator.training.ssgd import SSGD
from topologies.catalogue import find as machine_called

MEGABYTE = 1e6
TRAIN = "train", "--model", "resnet50", "--topology", "hgx_h100:nodes=2"


@cache
def profile() -> Profile:
    """NCCL on nodes of four GPUs."""
    return find("mn5_acc").simulated()


def model(layers: int = 4) -> Model:
    """Layers of 25 MB each."""
    tensor = Tensor("weight", 25 * MEGABYTE)
    each = [Layer(f"fc{k}", 1e-3, 2e-3, MEGABYTE, (tensor,)) for k in range(layers)]
    return Model("four", 8, tuple(each), optimizer=1e-3)


def job(strategy: Strategy, detail: Literal["auto", "transfers"] = "auto") -> Job:
    """A job on nodes of four GPUs."""
    machine = machine_called("nodes:per_node=4")
    steps = strategy.usual_steps
    return Job(model(), "one", strategy, machine, Rules(), steps, detail=detail, profile=profile())


@pytest.mark.parametrize("ranks", [4, 8])
def test_a_step_that_hides_nothing_takes_a_call_longer(ranks: int) -> None:
    """The call and its interval are those of `simctl run`."""
    alone = DDP(bucket=1e12, overlap=False, copies=0, hooks=0.0, broadcast_buffers=False)
    row = job(alone).run(ranks).row
    algorithm = algorithm_called("rings")
    topology = machine_called("nodes:per_node=4").build(ranks)
    routed = route(algorithm.build(ranks, model().gradients), topology)
    call = profile().simulate(routed, algorithm)
    predicted = prediction(profile(), call, algorithm)
    assert predicted is not None
    sure = interval_of(predicted)
    ends = row["step_s"], row["expected_s"], row["low_s"], row["high_s"]
    for step, seconds in zip(ends, (call.seconds, sure.expected, sure.low, sure.high), strict=True):
        assert step is not None
        assert step - row["computing_s"] == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize(
    "strategy", [DDP(), SSGD(), ASGD(), LocalSGD(every=2), DataParallel()], ids=lambda s: type(s)
)
def test_each_strategy_has_an_interval(strategy: Strategy) -> None:
    row = job(strategy).run(4).row
    assert row["low_s"] is not None
    assert row["expected_s"] is not None
    assert row["high_s"] is not None
    assert row["low_s"] <= row["expected_s"] <= row["high_s"]
    assert row["low_s"] < row["high_s"]
    assert row["level"] == 0.8


def test_the_same_step_with_all_transfers() -> None:
    plain, written = (
        job(DDP(broadcast_buffers=False), how).run(64) for how in ("auto", "transfers")
    )
    assert plain.row["step_s"] == pytest.approx(written.row["step_s"], rel=1e-9)
    assert plain.row["high_s"] == pytest.approx(written.row["high_s"], rel=1e-9)


def test_a_worker_alone_has_no_interval() -> None:
    run = job(DDP()).run(1)
    assert run.row["expected_s"] is None
    assert "expected" not in training_text(run, what_if(run))


@pytest.mark.parametrize("strategy", [SSGD(server="gpu"), ASGD()], ids=lambda s: type(s))
def test_a_worker_alone_has_the_librarys_links_to_its_server(strategy: Strategy) -> None:
    alone, two = (job(strategy).run(ranks).row for ranks in (1, 2))
    assert alone["expected_s"] is not None
    assert alone["efficiency"] == pytest.approx(1)
    assert two["efficiency"] <= 1
    assert alone["step_s"] <= two["step_s"]


def test_a_step_says_in_what_it_is_outside_the_measured_runs() -> None:
    seen, beyond = (job(DDP()).run(ranks) for ranks in (16, 128))
    assert beyond.row["unsure"] == "128 ranks: measured runs have at most 64"
    assert re.search("unsure +128 ranks: measured runs have at most 64", training_text(beyond, {}))
    assert "ranks" not in (seen.row["unsure"] or "")


def test_a_step_without_a_library_names_what_adds_one(simctl: Simctl) -> None:
    assert "software, which starts collectives" in simctl(*TRAIN).stdout


def test_twice_the_bandwidth_is_of_the_librarys_links() -> None:
    run = job(DDP(bucket=1e12, overlap=False)).run(8)
    for name, seconds in what_if(run).items():
        simulated = seconds["simulated"]
        assert simulated is not None
        assert simulated == pytest.approx(seconds["first_order"], rel=0.05), name
        assert simulated <= run.row["step_s"]


def test_a_library_on_a_machine_without_measurements(simctl: Simctl) -> None:
    result = simctl(*TRAIN, "--library", "nccl", "--level", "0.5")
    assert result.returncode == 0
    assert "note: nccl on machines like this: population of" in result.stderr
    assert "50% of steps: " in result.stdout
    assert "do not include the library's software" not in result.stdout
    table = simctl(*TRAIN, "--library", "nccl", "--p", "8,16", "--format", "json")
    assert all(row["low_s"] < row["high_s"] for row in json.loads(table.stdout))
    assert "80% of steps" in simctl(*TRAIN, "--library", "nccl", "--p", "8,16").stdout


def test_a_report_has_the_interval(simctl: Simctl, tmp_path: Path) -> None:
    page = tmp_path / "step.md"
    assert simctl(*TRAIN, "--library", "nccl", "--report", page).returncode == 0
    assert re.search(r"expected: .* of steps: .* - .*\)", page.read_text())
    assert "- unsure: no run was measured" in page.read_text()
