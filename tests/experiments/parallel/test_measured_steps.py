"""Steps against measured ones: files, corrections, intervals, and the run beside a prediction."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.device_times import DeviceTimes
from experiments.models.kernel_times.nccl_calls import laws
from experiments.models.model_catalogue import find_transformer
from experiments.parallel import measured_steps as module
from experiments.parallel.factor_fit import Factors, Sureness, spreads
from experiments.parallel.measured_steps import (
    FILE,
    PlanError,
    PlanKind,
    calibrated_by,
    kind_of,
    mean_error,
    nearest_run,
    plan_critical_path,
    plan_errors,
    read_steps,
    span_of,
    step_spread,
    usual_sureness,
    whole_interval,
)
from experiments.parallel.plan_step import work_of
from experiments.parallel.plan_text import Plan, parse_plan
from grouped_cases import each_case
from shipped_shapes import training
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import Step, write
from simulator.parallel.step_measures import measure
from simulator.uncertainty.interval import Interval
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


MODEL = "gpt2:layers=2"


@pytest.fixture(scope="module")
def step() -> Step:
    """A step of a small model on two GPUs."""
    plan = parse_plan("dp=2,micro=8,batch=16")
    groups = GroupTimes(find("dgx_a100").build(2), plan.degrees)
    return write(work_of(training(MODEL), plan, groups))


def test_nothing_is_said_without_a_profile_and_a_measured_step(step: Step) -> None:
    assert whole_interval(step, training(MODEL), 0.0, None) is None


@given(st.floats(0.01, 0.5), st.floats(0.01, 0.5), st.floats(1.0, 1.5))
def test_an_interval_holds_what_is_expected_and_that_of_communication(
    step: Step, device: float, launch: float, wide: float
) -> None:
    inner = Interval(2.0, 2.0 / wide, 2.0 * wide)
    measured = replace(training(MODEL), sureness=Sureness(device, launch))
    whole = whole_interval(step, measured, 0.8, inner)
    assert whole is not None
    assert whole.low <= inner.low <= whole.expected == inner.expected <= inner.high <= whole.high


def test_measured_steps_make_intervals_narrower(step: Step) -> None:
    inner = Interval(2.0, 1.9, 2.1)
    measured = replace(training(MODEL), sureness=Sureness(0.02, 0.1))
    wide, narrow = (whole_interval(step, each, 0.8, inner) for each in (training(MODEL), measured))
    assert wide is not None
    assert narrow is not None
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_step_that_the_device_binds_is_as_sure_as_the_device() -> None:
    bound = np.array([3.0, 0.0, 0.0])
    assert step_spread(bound, Sureness(0.04, 1.0)) == pytest.approx(np.hypot(0.04, spreads().step))
    dense, routed = (usual_sureness(training(name).shape) for name in (MODEL, "mixtral_8x7b"))
    assert dense.device < step_spread(bound, dense) < routed.device


def test_shares_of_a_step_count_by_their_seconds() -> None:
    halves = step_spread(np.array([1.0, 0.0, 1.0]), Sureness(0.1, 1.0), links=0.1)
    assert halves == pytest.approx(np.hypot(0.1 / 2**0.5, spreads().step))


def test_jitter_makes_steps_with_collectives_longer() -> None:
    """On links alone nobody is late."""

    def seconds(plan: str, device: str = "h100") -> float:
        parsed, known = parse_plan(plan), laws(device) if device else {}
        times = GroupTimes(find("hgx_h100").build(8), parsed.degrees, laws=known)
        return measure(write(work_of(training("llama3_8b:layers=2"), parsed, times))).step

    assert seconds("tp=1,jitter=no") == seconds("tp=1")
    assert seconds("tp=8,micro=8,jitter=no") < seconds("tp=8,micro=8")
    ideal = seconds("tp=8,micro=8", "")
    assert seconds("tp=8,micro=8,jitter=no", "") == ideal < seconds("tp=8,micro=8,jitter=no")


PLAN = "dp=2,tp=4,pp=8,batch=128,zero=1,sp=yes,v=5,uneven=yes"


def run_of(model: str, plan: str, device: str = "h100", dtype: str = "fp8") -> str:
    """The nearest run of a plan."""
    usual = training(model, device)
    chosen = replace(usual, times=replace(usual.times, dtype=dtype))
    return nearest_run(chosen, parse_plan(plan))


def test_a_run_with_the_same_plan_is_the_nearest() -> None:
    assert "on 64 GPUs, dp=2,tp=4,pp=8," in run_of("llama3_70b", PLAN)


def test_no_run_of_another_model_device_or_precision_is_near() -> None:
    assert not run_of("gpt2", "dp=8")
    assert not run_of("llama3_70b", PLAN, "a100", "bf16")
    assert not run_of("llama3_70b:layers=40", PLAN)
    assert not run_of("llama3_70b", PLAN, dtype="fp8_block")


def test_a_run_far_away_is_not_shown() -> None:
    assert not run_of("llama3_70b", "dp=256,tp=1,pp=1,batch=4096,zero=1")


def test_all_shipped_runs_are_plans_of_models_with_their_source() -> None:
    path = Path(module.__file__).with_name("measured_runs.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 100
    for row in rows:
        plan, entry = parse_plan(row["plan"]), find_transformer(row["model"])
        assert plan.micro_batches
        assert entry.shape.parameters
        assert float(row["seconds"]) > 0
        assert row["source"]
