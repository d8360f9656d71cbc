"""Tables of strategies and plans: which is fastest, and where more workers stop paying."""

import json
from pathlib import Path

import pytest

import simctl as door
from csv_texts import rows_of
from experiments.commands import train_runs as train
from experiments.options.options import Format
from experiments.options.profile_options import SimulationOptions
from experiments.options.run_options import JobOptions
from experiments.options.training_options import TrainingOptions
from experiments.output import Record
from experiments.training.training_table import Scaling, comparison_lines, scaling, scaling_lines
from grouped_cases import each_case
from simctl_process import Simctl


def record(ranks: int, speed_up: float, strategy: str = "ddp") -> Record:
    """A run of a model of which a worker alone trains 100 samples/s."""
    step = ranks * 0.08 / speed_up
    return {
        "model": "four",
        "batch": 8,
        "strategy": strategy,
        "ranks": ranks,
        "step_s": step,
        "samples_per_s": 100 * speed_up,
        "efficiency": speed_up / ranks,
        "exposed_s": step / 4,
        "computing_s": step / 2,
        "transfer_s": step / 2,
        "twice_bandwidth_s": step / 2,
        "half_latency_s": step,
        "twice_compute_s": step,
    }


@each_case(
    ("speed_ups", "end"),
    [
        ([1.0, 2.0, 4.0, 8.0], None),
        ([1.0, 1.9, 3.0, 4.9], 2),
        ([1.0, 1.4, 1.5, 1.6], 0),
        ([1.0, 1.9, 1.7, 6.0], None),
        ([1.0, 2.0, 1.9, 1.8], 1),
    ],
)
def test_workers_stop_paying_where_no_later_number_adds_half(
    speed_ups: list[float], end: int | None
) -> None:
    assert Scaling([1, 2, 4, 8], speed_ups).end == end


def test_more_workers_may_be_slower() -> None:
    words = str(Scaling([1, 2, 4], [1.0, 2.0, 1.5]))
    assert words == "stops paying beyond 2 workers: 4 are slower"


def test_one_job_is_said_with_what_would_help() -> None:
    records = [record(4, 2.2), record(1, 1.0), record(2, 1.9)]
    assert scaling(records).ranks == [1, 2, 4]
    first, second, *_ = scaling_lines(records, "", {})
    assert first.startswith("scaling stops paying beyond 2 workers: up to 4, each")
    assert second == (
        "on 4 workers twice the bandwidth would help most: 72.73ms a step instead of 145.5ms"
    )


def test_each_strategy_has_a_line() -> None:
    records = [
        record(ranks, speed_up, strategy)
        for strategy, speed_ups in {"ddp": (1.0, 1.9), "asgd": (0.9, 1.0)}.items()
        for ranks, speed_up in zip((1, 2), speed_ups, strict=True)
    ]
    names = {"ddp": "ddp", "asgd": "asgd"}
    lines = scaling_lines(records, "strategy", names)
    assert lines[0].startswith("strategy ddp pays up to 2 workers, the most here")
    assert lines[1].startswith("strategy asgd stops paying beyond 1 worker: up to 2, each")
    assert comparison_lines(records, "strategy", names) == [
        "1 to 2 workers: ddp is fastest, 100 to 190 samples/s, up to 1.9 times asgd",
        "samples/s do not show the learning of asgd: --learn mlp compares it",
    ]


def test_one_number_of_workers_does_not_scale() -> None:
    records = [record(4, 3.0, "ddp"), record(4, 3.001, "ssgd")]
    names = {"ddp": "ddp", "ssgd": "ssgd"}
    assert scaling_lines(records, "strategy", names) == []
    assert comparison_lines(records, "strategy", names) == [
        "4 workers: ssgd is fastest, 300.1 samples/s, ddp is as fast"
    ]


def test_batches_that_differ_are_said() -> None:
    records = [
        {**record(4, 3.0, "ddp"), "batch": 16},
        {**record(4, 1.0, "dp=4"), "batch": 0.5},
    ]
    names = {"ddp": "ddp", "dp=4": "dp=4"}
    lines = comparison_lines(records, "strategy", names)
    assert lines[1:] == ["samples of a worker in a step differ: ddp 16, dp=4 0.5"]


MODEL = Path(__file__).parents[3] / "examples" / "two_layer_model.yaml"
NAMES = ["ddp:bucket=1MB,overlap=no", "asgd"]


def printed(
    capsys: pytest.CaptureFixture[str], how: Format, strategy: str, p: str, plot: Path | None = None
) -> str:
    options = TrainingOptions(str(MODEL), strategy, p=p)
    grid = options.request(SimulationOptions(topology="star"))
    assert train.run(grid, JobOptions(plot=plot, format=how)) == 0
    return capsys.readouterr().out


def test_a_row_is_the_run_of_a_strategy_alone(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(printed(capsys, "csv", ", ".join(NAMES), "1,2"))
    assert [row["strategy"] for row in rows] == [NAMES[0]] * 2 + [NAMES[1]] * 2
    assert [row["ranks"] for row in rows] == ["1", "2"] * 2
    (alone,) = rows_of(printed(capsys, "csv", NAMES[0], "2"))
    assert rows[1]["step_s"] == alone["step_s"]


def test_the_fastest_is_said_and_all_are_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = printed(capsys, "table", ";".join(NAMES), "1,2", tmp_path / "a.svg")
    assert " is fastest, " in text
    assert "strategy asgd" in text
    assert "staleness" in text
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()


BERT = "bert_large:layers=4"
OPTIONS = "--model", BERT, "--topology", "hgx_h100"
TRAIN, PLAN = ("train", *OPTIONS), ("plan", *OPTIONS)
PLANS = "dp=8,micro=16", "tp=2,micro=16"


def test_a_row_is_the_run_alone(simctl: Simctl, tmp_path: Path) -> None:
    picture = tmp_path / "a.svg"
    done = simctl(*PLAN, "--strategy", "ddp", *PLANS, "--format", "csv", "--plot", picture)
    rows = rows_of(done.stdout)
    assert [row["strategy"] for row in rows] == ["ddp", "dp=8,micro=16", "tp=2,micro=16"]
    strategy = json.loads(simctl(*TRAIN, "--format", "json").stdout)["summary"]
    # Collectives of strategies, and of plans beside them, are those of links alone.
    alone = f"{PLANS[0]},links=ideal"
    plan = json.loads(simctl(*PLAN, alone, "--format", "json").stdout)["summary"]
    for row, run in zip(rows, (strategy, plan), strict=False):
        assert float(row["step_s"]) == run["step_s"]
        assert float(row["samples_per_s"]) == run["samples_per_s"]
        assert float(row["exposed_s"]) == run["exposed_s"]
        parts = (float(row[f"{name}_s"]) for name in ("computing", "exposed", "idle"))
        assert sum(parts) == pytest.approx(run["step_s"])
    assert float(rows[1]["peak_B"]) == plan["memory_bytes"]
    assert float(rows[0]["peak_B"]) == strategy["peak_B"]
    assert b"exposed communication" in picture.read_bytes()


def test_steps_that_calibrate_leave_plans_beside_strategies_on_links(
    simctl: Simctl, tmp_path: Path
) -> None:
    """They are simulated first, with what NCCL takes."""
    steps = tmp_path / "steps.csv"
    steps.write_text(f'model,plan,seconds\n{BERT},"{PLANS[0]}",0.06\n')
    calibrated = *PLAN, "--calibrate-compute", steps
    with_plan = simctl(*calibrated, "--strategy", "ddp", PLANS[0], "--format", "csv")
    _, row = rows_of(with_plan.stdout)
    on_links = simctl(*calibrated, f"{PLANS[0]},links=ideal", "--format", "json")
    assert float(row["step_s"]) == json.loads(on_links.stdout)["summary"]["step_s"]


def test_counts_sweeps_and_conditions_reach_both(simctl: Simctl) -> None:
    options = "--strategy", "ddp,ssgd", "tp=2", "--straggler", "1:1.5"
    table = simctl(*PLAN, *options, "--p", "4,8", "--sweep", "bucket=8MiB,32MiB")
    names = [line.split()[:2] for line in table.stdout.splitlines()[3:]]
    for name in ("ddp:bucket=8MiB", "ddp:bucket=32MiB", "ssgd", "tp=2,bucket=8MiB"):
        assert [name, "4"] in names
        assert [name, "8"] in names
    assert "stops paying" in table.stdout
    plain, slow = (
        json.loads(simctl(*PLAN, *options[:3], *more, "--format", "json").stdout)
        for more in ((), options[3:])
    )
    for place in (0, -1):
        assert slow[place]["step_s"] > plain[place]["step_s"]
        assert slow[place]["efficiency"] < plain[place]["efficiency"]


def test_the_door_has_the_same_rows(simctl: Simctl) -> None:
    rows = door.plan(BERT, "dp=8; tp=2", "hgx_h100", strategy="ddp:bucket=1MiB")
    assert [row["strategy"] for row in rows] == ["ddp:bucket=1MiB", "dp=8", "tp=2"]
