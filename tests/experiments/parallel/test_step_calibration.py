"""Files of measured steps, and factors on the times of a device that are fitted to them."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.models.device_times import DeviceTimes
from experiments.parallel.factor_fit import Factors
from experiments.parallel.plan_step import work_of
from experiments.parallel.plan_text import Plan, parse_plan
from experiments.parallel.step_calibration import (
    FILE,
    PlanError,
    PlanKind,
    calibrated_by,
    kind_of,
    mean_error,
    plan_critical_path,
    plan_errors,
    read_steps,
    span_of,
)
from grouped_cases import each_case
from shipped_shapes import training
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from topologies.catalogue import find
from topologies.errors import InputError
from topologies.readers.contents import MOST_ROWS
from topologies.shapes import star

STEP = 'gpt2:layers=2,"dp=2,micro=1,batch=4",0.05\n'
GOOD = f"model,plan,seconds\n{STEP}"


def test_steps_are_read_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("plan,note,seconds,model\n" + '"dp=2,micro=1",x,0.5,gpt2\n')
    assert read_steps(path) == {f"{path} line 2": ("gpt2", "dp=2,micro=1", 0.5)}


@each_case(
    ("text", "words"),
    [
        ("", "no column model"),
        ("model,plan\n", "no column seconds"),
        ("model,plan,seconds\n", "has no step"),
        ("model,plan,seconds\ngpt2\n", "a value is missing"),
        ("model,plan,seconds\ngpt2,dp=2,fast\n", "'fast': 1e-06 to 1e+07"),
        ("model,plan,seconds\ngpt2,dp=2,-1\n", "1e-06 to 1e+07"),
        ("model,plan,seconds\ngpt2,dp=2,nan\n", "1e-06 to 1e+07"),
        ("model,plan,seconds\ngpt2,dp=2,1e-300\n", "'1e-300': 1e-06 to 1e+07"),
        ('model,plan,seconds\n"gpt2', "expected a CSV"),
        ("model,plan,seconds\n" + "a,b,1\n" * (MOST_ROWS + 1), "more than 1000 steps"),
        ("x" * (2**20 + 1), "larger than 1 MiB"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "steps.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_steps(path)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def groups(plan: Plan) -> GroupTimes:
    """The times of collectives on a DGX A100."""
    return GroupTimes(find("dgx_a100").build(plan.degrees.ranks), plan.degrees)


def test_times_are_fitted_to_the_steps_of_a_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "steps.csv"
    path.write_text(GOOD)
    times = calibrated_by(path, training("gpt2:layers=4", device="a100"), groups)
    assert times.times.launch > 1e-5
    assert times.sureness is not None
    assert 0 < times.sureness.device < 0.3
    said = capsys.readouterr().err
    assert "1 measured step: times of the device x" in said
    assert "steps.csv line 2: simulated " in said


@each_case(
    "plan",
    [
        "dp=8,zero=3,micro=1,batch=16",
        "dp=2,tp=2,pp=2,micro=1,batch=8,sp=yes,pieces=yes,overlap=yes",
        "dp=2,tp=2,pp=2,micro=1,batch=8,overlap=yes,slowdown=0.2",
        "dp=2,tp=2,pp=2,micro=1,batch=8,schedule=zb_auto",
    ],
)
def test_a_row_with_factors_is_the_step_of_a_device_with_these_times(plan: str) -> None:
    usual, factors = DeviceTimes("a100"), Factors(0.5, 3.0)
    path = plan_critical_path("gpt2:layers=4", plan, usual, groups)
    parsed, trained = parse_plan(plan), training("gpt2:layers=4")
    step = write(work_of(replace(trained, times=factors.of(usual)), parsed, groups(parsed)))
    assert path(factors).sum() == pytest.approx(step.timeline.makespan, rel=1e-12)


@each_case(
    ("plan", "words"),
    [
        ("dp=1,tp=5", "gpt2 has 12 heads"),
        ("dp=2,recompute=full:99", "plan: recompute=full:99: a stage has 12 layers"),
    ],
)
def test_a_step_that_cannot_be_simulated_names_its_line(
    tmp_path: Path, plan: str, words: str
) -> None:
    path = tmp_path / "steps.csv"
    path.write_text(GOOD + f'gpt2,"{plan}",0.5\n')
    with pytest.raises(InputError, match=f"steps.csv line 3: {words}"):
        calibrated_by(path, training("gpt2"), groups)


def test_the_file_has_the_columns_that_the_benchmark_prints() -> None:
    with FILE.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == [*PlanKind._fields, *PlanError._fields]
    assert len(plan_errors()) == len(rows)
    for kind, error in plan_errors().items():
        assert DeviceTimes(kind.device, kind.math).math == kind.math
        assert abs(error.bias) <= error.mean <= error.nine_of_ten + 1e-9
        assert error.steps > 0


def test_a_kind_is_a_device_a_precision_sharding_and_nodes() -> None:
    times = DeviceTimes("h100")
    assert kind_of(times, 3, "one node") == ("h100", "bf16", "zero=3", "one node", "specified")
    fitted = DeviceTimes("h100", scale=1.2)
    assert kind_of(fitted, 1, "several nodes")[2:] == ("zero<3", "several nodes", "calibrated")
    machine = find("hgx_h100:nodes=2").build(16)
    assert [span_of(machine, gpus) for gpus in (1, 8, 9)] == [
        "one node",
        "one node",
        "several nodes",
    ]
    assert span_of(star(4, bandwidth=1e9), 4) == "no nodes"
    span = span_of(machine, 8, links_alone=True)
    error, words = mean_error(kind_of(DeviceTimes("h100"), 0, span))
    assert error is None
    assert words.startswith("unknown: no measured step of h100 in bf16, zero<3, one node by links")


def test_steps_that_nobody_measured_have_no_error() -> None:
    error, words = mean_error(kind_of(DeviceTimes("mi300x"), 0, "one node"))
    assert error is None
    assert words.startswith("unknown: no measured step of mi300x in bf16, zero<3, one node;")
    error, words = mean_error(PlanKind("a100", "bf16", "zero<3", "one node", "calibrated"))
    assert error == plan_errors()[PlanKind("a100", "bf16", "zero<3", "one node", "calibrated")].mean
    assert words.startswith("on 582 measured steps of a100 in bf16, zero<3, one node; nine of ten ")
