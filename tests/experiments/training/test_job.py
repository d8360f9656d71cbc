"""`simctl train`: whether a worker holds its share of a job, and what a run that does not says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from csv_texts import rows_of
from experiments.commands import train_runs as train
from experiments.models import model_catalogue
from experiments.options.options import Format
from experiments.options.profile_options import SimulationOptions
from experiments.options.run_options import JobOptions
from experiments.options.training_options import TrainingOptions
from experiments.simulations import workload
from experiments.training import job as jobs
from experiments.training import strategy_options, training_grid
from experiments.training.job import Job
from grouped_cases import each_case
from simctl_process import Simctl
from simulator.training.footprint import kept
from topologies.catalogue import find
from topologies.resources import Need

LARGE = "train", "--model", "resnet50:batch=1024", "--topology", "dgx1", "--gpus"
SWEEP = "train", "--topology", "dgx1", "--gpus", "2", "--sweep"


def test_a_run_that_does_not_fit_says_so_first_and_exits_with_1(simctl: Simctl) -> None:
    done = simctl(*LARGE, "2")
    assert done.returncode == 1
    _, _, first, second, third, *_ = done.stdout.splitlines()
    assert first.endswith(", 2 ranks of dgx1: does not fit in memory")
    assert second == "  the fullest worker holds 44.91GB, 10.55GB more than the 34.36GB of v100"
    assert third.startswith("  least sure: 44.5GB of activations")
    assert "What would help" in done.stdout
    assert done.stdout.index("peak memory") < done.stdout.index("  step ")


def test_a_run_that_fits_says_of_how_much(simctl: Simctl) -> None:
    done = simctl("train", "--topology", "dgx1", "--gpus", "2")
    assert done.returncode == 0
    assert "  peak memory    5.975GB    of 34.36GB, the fullest rank" in done.stdout


def rows(text: str) -> list[str]:
    return [row["fits"] for row in rows_of(text)]


@each_case(
    ("batches", "fits", "code"),
    [
        ("64,1024", ["True", "False"], 0),
        ("1024,2048", ["False", "False"], 1),
    ],
)
def test_a_list_fails_only_if_nothing_fits(
    simctl: Simctl, batches: str, fits: list[str], code: int
) -> None:
    done = simctl(*SWEEP, f"batch={batches}", "--format", "csv")
    assert rows(done.stdout) == fits
    assert done.returncode == code


def test_what_does_not_fit_is_not_the_fastest(simctl: Simctl) -> None:
    shown = simctl(*SWEEP, "batch=512,1024").stdout
    heading = shown.splitlines()[5].split()
    assert heading.index("memory") + 1 == heading.index("fits") < heading.index("step")
    assert "batch 512 is fastest" in shown
    assert "no other fits in memory" in shown


def test_a_device_that_nobody_names_may_hold_anything(simctl: Simctl, tmp_path: Path) -> None:
    model = tmp_path / "one.yaml"
    model.write_text(
        "name: one\nbatch: 8\nsource: made up\nlayers:\n"
        "  - {name: fc, forward: 1ms, backward: 2ms, activation: 1TB, parameters: {weight: 1MB}}\n"
    )
    done = simctl("train", "--model", model, "--gpus", "2")
    assert done.returncode == 0
    assert "  peak memory    1TB " in done.stdout


@pytest.mark.parametrize("strategy", ["ddp", "ddp:compress=yes", "local_sgd"])
def test_a_priced_run_knows_its_memory_but_for_messages(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole run is traced; that with priced collectives holds the same but for inboxes."""
    options = strategy_options.find(strategy)
    name = strategy.partition(":")[0]
    job = Job(model_catalogue.find("resnet50"), name, options, find("star"), steps=2)
    whole = replace(job, detail="transfers").run(4)
    monkeypatch.setattr(jobs, "WRITTEN", 1)
    priced = job.run(4)
    assert priced.memory is None
    assert priced.plan.is_priced
    assert priced.held == kept(whole.plan)
    assert priced.held <= whole.held <= 1.001 * priced.held
    assert priced.row["peak_B"] == priced.held
    assert priced.row["redundant_B"] is None


MODEL = """\
name: small
batch: 8
source: made up
layers:
  - {name: fc, forward: 1ms, backward: 2ms, activation: 1MB, parameters: {weight: 1MB}}
"""
NOTE = "note: what would help: to first order alone, simulated with --force"


def test_they_say_how_long_they_take_and_are_simulated_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_grid, "QUICK", 0)
    monkeypatch.setattr(workload, "ANNOUNCED", Need())
    model = tmp_path / "small.yaml"
    model.write_text(MODEL)
    star = SimulationOptions(topology="star", bandwidth="1GB/s", latency="0us")

    def shown(how: Format, force: bool = False) -> tuple[str, str]:
        request = TrainingOptions(str(model), p="4").request(replace(star, force=force))
        assert train.run(request, JobOptions(format=how)) == 0
        printed = capsys.readouterr()
        return " ".join(printed.out.split()), printed.err

    text, notes = shown("table")
    assert "note: ddp: this takes about 0.0" in notes
    assert NOTE in notes
    assert "twice the compute 33.3% 3ms" in text
    what_if = json.loads(shown("json")[0])["what_if_s"]
    assert what_if["twice the compute"] == {"first_order": pytest.approx(0.003), "simulated": None}
    assert NOTE not in shown("csv")[1]
    text, notes = shown("table", force=True)
    assert NOTE not in notes
    assert "twice the compute 3ms 33.3% 3ms" in text
