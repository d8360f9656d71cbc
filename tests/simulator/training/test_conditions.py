"""What makes ranks differ; the time of epochs, and a limit of the input."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csv_texts import rows_of
from experiments.commands import train_runs as train
from experiments.options.options import Format
from experiments.options.profile_options import SimulationOptions
from experiments.options.run_options import JobOptions
from experiments.options.training_options import TrainingOptions
from grouped_cases import each_case
from simulator.training.conditions import Attempt, Conditions, Epochs, Failure
from topologies.errors import InputError


def test_by_default_all_ranks_are_alike() -> None:
    assert Conditions().factors(2, 3).tolist() == [[1.0] * 3] * 2


def test_a_straggler_is_slower_in_every_step() -> None:
    assert Conditions({1: 1.5}).factors(2, 3).tolist() == [[1.0, 1.5, 1.0]] * 2


def test_the_same_seed_draws_the_same_noise() -> None:
    noise = Conditions(sigma=0.2, seed=7)
    assert np.array_equal(noise.factors(5, 4), Conditions(sigma=0.2, seed=7).factors(5, 4))
    assert not np.array_equal(noise.factors(5, 4), Conditions(sigma=0.2, seed=8).factors(5, 4))


def test_noise_has_mean_one() -> None:
    factors = Conditions(sigma=0.5, seed=1).factors(1000, 100)
    assert factors.mean() == pytest.approx(1, abs=0.01)
    assert np.log(factors).std() == pytest.approx(0.5, abs=0.01)


def test_observed_times_are_drawn_as_shares_of_their_mean() -> None:
    factors = Conditions(observed=(1.0, 3.0), seed=1).factors(200, 10)
    assert set(factors.ravel().tolist()) == {0.5, 1.5}


def test_after_a_failure_the_steps_since_the_checkpoint_come_again() -> None:
    attempts = Conditions(failure=Failure(0, 4, 1.0, checkpoint=3)).attempts(6)
    assert attempts == [
        *(Attempt(step) for step in (0, 1, 2)),
        Attempt(3, lost=True),
        Attempt(4, lost=True, fails=True),
        *(Attempt(step) for step in (3, 4, 5)),
    ]


def test_a_rank_runs_out_of_input() -> None:
    assert [Conditions(batches={1: 2}).has_input(step, 3).tolist() for step in (1, 2)] == [
        [True, True, True],
        [True, False, True],
    ]


@each_case(
    ("make", "message"),
    [
        (lambda: Conditions({-1: 2.0}), "straggler -1"),
        (lambda: Conditions({1: 0.0}), "straggler 1:0.0"),
        (lambda: Conditions({1: float("nan")}), "straggler 1:nan"),
        (lambda: Conditions(sigma=-0.1), "sigma -0.1"),
        (lambda: Conditions(sigma=0.1, observed=(1.0,)), "not both"),
        (lambda: Conditions(observed=(0.0,)), "not all 0"),
        (lambda: Conditions(batches={0: -1}), "0 has -1 batches"),
        (lambda: Conditions({5: 2.0}).factors(1, 3), "there is no rank 5"),
        (lambda: Conditions(batches={3: 2}).factors(1, 3), "there is no rank 3"),
        (lambda: Failure(0, -1, 1.0), "in step -1"),
        (lambda: Failure(0, 0, -1.0), "restart of -1.0"),
        (lambda: Failure(0, 0, 1.0, checkpoint=0), "checkpoint every 0"),
    ],
)
def test_what_cannot_be_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=message):
        make()


MODEL = """
name: two
batch: 8
source: made up
layers:
  - {name: a, forward: 1ms, backward: 2ms, parameters: {weight: 1MB}}
  - {name: b, forward: 1ms, backward: 2ms, parameters: {weight: 1MB}}
"""
STAR = SimulationOptions(topology="star", bandwidth="10GB/s", latency="0us")


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "two.yaml"
    path.write_text(MODEL)
    return str(path)


def printed(
    options: TrainingOptions, capsys: pytest.CaptureFixture[str], how: Format = "table"
) -> str:
    assert train.run(options.request(STAR), JobOptions(format=how)) == 0
    return capsys.readouterr().out


def rows(options: TrainingOptions, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    return rows_of(printed(options, capsys, "csv"))


@given(
    samples=st.integers(1, 4096),
    step=st.floats(0.001, 10),
    number=st.integers(1, 100),
    dataset=st.integers(1, 10**7),
    pause=st.floats(0, 100),
)
def test_a_training_is_whole_steps_and_a_pause_in_each_epoch(
    samples: int, step: float, number: int, dataset: int, pause: float
) -> None:
    training = Epochs(number, dataset, pause).training(samples, step)
    steps, epoch = training["epoch_steps"], training["epoch_s"]
    assert (steps - 1) * samples < dataset <= steps * samples
    assert epoch == pytest.approx(steps * step + pause)
    assert training["training_s"] == pytest.approx(number * epoch)


def test_tables_have_the_time_of_epochs_only_on_request(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (plain,) = rows(TrainingOptions(model, p="4"), capsys)
    asked = TrainingOptions(model, p="4", epochs="samples=1000,count=3,pause=10s")
    (timed,) = rows(asked, capsys)
    added = {"epochs": "3", "epoch_steps": "32"}
    assert {key: timed[key] for key in plain} == plain
    assert [key for key in timed if key not in plain] == [*added, "epoch_s", "training_s"]
    assert {key: timed[key] for key in added} == added
    epoch = 32 * float(plain["step_s"]) + 10
    assert float(timed["epoch_s"]) == pytest.approx(epoch)
    assert float(timed["training_s"]) == pytest.approx(3 * epoch)
    text = printed(asked, capsys)
    assert "32 steps, and 10s beside them" in text
    assert "3 epochs" in text


def test_a_step_takes_at_least_the_time_of_its_input(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = rows(TrainingOptions(model, p="1,2,4"), capsys)
    limited = rows(TrainingOptions(model, p="1,2,4", epochs="rate=2000"), capsys)
    for free, row in zip(plain, limited, strict=True):
        samples = 8 * int(row["ranks"])
        assert float(row["step_s"]) == max(float(free["step_s"]), samples / 2000)
        assert float(row["input_s"]) == max(0.0, samples / 2000 - float(free["step_s"]))
        assert float(row["samples_per_s"]) <= 2000
        assert row["computing_s"] == free["computing_s"]
    assert [float(row["input_s"]) > 0 for row in limited] == [False, True, True]


def test_the_wait_for_input_is_explained(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = TrainingOptions(model, p="4", epochs="rate=2000")
    text = printed(options, capsys)
    assert "16ms a step" in text
    assert "of the step: the pipeline reads 2,000 samples/s" in text
    assert "\n  waiting for input" in text.split("critical path")[1]
    helping = [line.split() for line in text.split("What would help")[1].splitlines()[2:]]
    assert [line[-4:-1] for line in helping[:3]] == [
        [word, "16ms", "0.0%"] for word in ("bandwidth", "latency", "compute")
    ]
    assert helping[3][:4] == ["twice", "the", "input", "rate"]
    document = json.loads(printed(options, capsys, "json"))
    for rank in document["ranks"]:
        idle = sum(rank["bubble_s"].values())
        assert rank["computing_s"] + idle == pytest.approx(document["summary"]["step_s"])
