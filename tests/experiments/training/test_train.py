"""`simctl train`: what it prints, stores and refuses."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from csv_texts import rows_of
from experiments.commands import train_runs as train
from experiments.commands.train import Train
from experiments.options.options import Format
from experiments.options.profile_options import SimulationOptions
from experiments.options.training_options import TrainingOptions
from refusals import refusal

MODEL = """\
name: four
batch: 8
optimizer: 1ms
state: 1
source: made up
layers:
""" + "".join(
    f"  - {{name: fc{k}, forward: 1ms, backward: 2ms, activation: 1MB, parameters: {{weight: "
    f"1MB}}}}\n"
    for k in range(4)
)


@dataclass(frozen=True)
class Request(TrainingOptions):
    """The options of a training job and its machine."""

    machine: SimulationOptions = SimulationOptions(topology="star")


def run(
    request: Request, timeline: Path | None, out: Path | None, plot: Path | None, how: Format
) -> int:
    asked = request.values_of(TrainingOptions) | request.machine.values_of(SimulationOptions)
    options = Train(**asked, timeline=timeline, out=out, plot=plot, format=how)
    return train.run(options.request(options), options)


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    model = tmp_path / "four.yaml"
    model.write_text(MODEL)
    star = SimulationOptions(topology="star", bandwidth="1GB/s", latency="0us")
    return Request(str(model), "ddp", p="4", machine=star)


def shown(
    request: Request, capsys: pytest.CaptureFixture[str], how: Format = "table", **paths: Path
) -> str:
    outputs = {name: paths.get(name) for name in ("timeline", "out", "plot")}
    assert run(request, outputs["timeline"], outputs["out"], outputs["plot"], how) == 0
    return capsys.readouterr().out


def report(request: Request, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, float]]:
    document: dict[str, dict[str, float]] = json.loads(shown(request, capsys, "json"))
    return document


def test_one_run_adds_up(request_: Request, capsys: pytest.CaptureFixture[str]) -> None:
    """Backward ends at 12 ms, one bucket of 4 MB takes 1.5 x 4 ms, the optimizer 1 ms."""
    document = report(replace(request_, bucket="1GiB"), capsys)
    summary = document["summary"]
    assert summary["step_s"] == pytest.approx(0.019)
    assert summary["exposed_s"] == pytest.approx(0.006)
    assert summary["hidden_s"] == 0
    assert summary["efficiency"] == pytest.approx(13 / 19)
    assert summary["samples_per_s"] == pytest.approx(32 / 0.019)
    assert sum(document["critical_path_s"].values()) == pytest.approx(0.019)
    assert document["critical_path_by_phase_s"] == pytest.approx(
        {"backward": 0.008, "forward": 0.004, "optimizer": 0.001}
    )
    assert document["what_if_s"]["twice the bandwidth"] == pytest.approx(
        {"first_order": 0.016, "simulated": 0.016}
    )
    assert document["what_if_s"]["twice the compute"] == pytest.approx(
        {"first_order": 0.0125, "simulated": 0.0125}
    )


def test_a_run_is_told_in_words(request_: Request, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(replace(request_, bucket="1GiB"), capsys)
    assert "four, batch 8 on unknown, ddp, 4 ranks of star: 19ms a step" in text
    assert "Times of layers: made up" in text
    assert "a step proven: all_reduce of the gradients" in text


def test_a_sweep_has_a_row_a_value(request_: Request, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(shown(replace(request_, sweep="bucket=0,1MB..4MB:x2"), capsys, "csv"))
    assert [row["bucket"] for row in rows] == ["0", "1000000.0B", "2000000.0B", "4000000.0B"]
    steps = [float(row["step_s"]) for row in rows]
    assert steps[0] == steps[1] < steps[2] < steps[3] == pytest.approx(0.019)


def test_a_scaling_curve_begins_with_one_worker(
    request_: Request, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(shown(replace(request_, p="1..8:x2", bucket="1GiB"), capsys, "csv"))
    assert [float(row["efficiency"]) for row in rows] == pytest.approx(
        [1.0] + [13 / (13 + 8 * (p - 1) / p) for p in (2, 4, 8)]
    )
    for row in rows:
        assert float(row["twice_bandwidth_s"]) == pytest.approx(
            float(row["twice_bandwidth_first_order_s"])
        )


def test_pictures_tables_and_how_they_were_made_are_written(
    request_: Request, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    png, perfetto, table, plot = (tmp_path / name for name in ("a.png", "a.json", "a.csv", "b.svg"))
    shown(request_, capsys, timeline=png, out=table)
    shown(request_, capsys, timeline=perfetto)
    shown(replace(request_, p="1..4:x2"), capsys, plot=plot)
    shown(replace(request_, sweep="bucket=0,25MiB"), capsys, plot=tmp_path / "c.png")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert json.loads(perfetto.read_text())["traceEvents"]
    assert b"<svg" in plot.read_bytes()
    provenance = json.loads((tmp_path / "a.csv.meta.json").read_text())
    assert provenance["parameters"]["strategy"] == "ddp"
    assert provenance["parameters"]["bandwidth"] == "1GB/s"
    assert provenance["parameters"]["seed"] == 0


def test_a_slow_link_is_felt(request_: Request, capsys: pytest.CaptureFixture[str]) -> None:
    slow = report(replace(request_, bucket="1GiB", slow_link="gpu1->switch:0.5"), capsys)
    assert slow["summary"]["step_s"] == pytest.approx(0.013 + 0.012)


@pytest.mark.parametrize(
    ("strategy", "steps"), [("ddp", 1), ("asgd", 20), ("ssp", 20), ("local_sgd:every=5", 5)]
)
def test_as_many_steps_are_simulated_as_tell_what_a_long_run_is_like(
    request_: Request, capsys: pytest.CaptureFixture[str], strategy: str, steps: int
) -> None:
    document = report(replace(request_, strategy=strategy), capsys)
    assert len(document["staleness"] or document["steps_s"]) == steps * (
        4 if document["staleness"] else 1
    )
    assert len(document["steps_s"]) == len(document["step_numbers"]) == len(document["steps_lost"])
    assert document["summary"]["efficiency"] <= 1 + 1e-9


@pytest.mark.parametrize("strategy", ["asgd", "ssp:bound=1"])
def test_what_a_step_costs_leaves_out_the_drain(
    request_: Request, capsys: pytest.CaptureFixture[str], strategy: str
) -> None:
    """Rank 3 is four times as slow as the others, which are done long before it."""
    document = report(replace(request_, strategy=strategy, straggler="3:4", steps=6), capsys)
    summary = document["summary"]
    step = summary["step_s"]
    assert step * summary["samples_per_s"] == pytest.approx(4 * 8)
    bubble = sum(
        summary[f"{cause}_s"] for cause in ("transfer", "contention", "slower_peer", "drain")
    )
    assert summary["drain_s"] == pytest.approx(0, abs=1e-12)
    assert summary["computing_s"] + bubble == pytest.approx(step)
    steps: float = sum(document["critical_path_s"].values()) / step
    what_if: Any = document["what_if_s"]
    assert what_if["twice the compute"]["first_order"] == pytest.approx(
        step - document["critical_path_s"]["compute"] / 2 / steps
    )


def test_a_shipped_model_is_on_the_devices_of_the_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = Request("resnet50:batch=2", "ddp", p="2", machine=SimulationOptions(topology="dgx1"))
    assert "resnet50, batch 2 on v100, ddp, 2 ranks of dgx1" in shown(request, capsys)
    assert "on a100" in shown(replace(request, model="resnet50:device=a100"), capsys)


def test_a_restart_is_neither_computing_nor_faster_on_faster_devices(
    request_: Request, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two attempts of 19 ms, one of which stops after its forward of 4 ms, and a restart of 1 s."""
    document = report(
        replace(request_, bucket="1GiB", steps=1, fail="rank=1,step=0,restart=1s"), capsys
    )
    summary = document["summary"]
    assert 2 * summary["step_s"] == pytest.approx(1.023)
    assert 2 * summary["restarting_s"] == pytest.approx(1.0)
    assert 2 * summary["computing_s"] == pytest.approx(0.017)
    what_if: Any = document["what_if_s"]
    for value in what_if["twice the compute"].values():
        assert 2 * value == pytest.approx(1.023 - 0.0085)


@pytest.mark.parametrize(
    ("topology", "strategy", "p"),
    [
        ("torus:dims=2x2x2", "ddp:algo=ring", None),
        ("grid:dims=2x4", "asgd", "7"),
        ("hypercube", "ssgd:server=gpu", "7"),
        ("hgx_h100", "dp", "1"),
        ("hgx_h100:nodes=2", "asgd", "15"),
    ],
)
def test_one_worker_alone_is_on_the_machine_of_all(
    request_: Request,
    capsys: pytest.CaptureFixture[str],
    topology: str,
    strategy: str,
    p: str | None,
) -> None:
    machine = SimulationOptions(topology=topology)
    document = report(replace(request_, machine=machine, strategy=strategy, p=p), capsys)
    assert 0 < document["summary"]["efficiency"] <= 1 + 1e-9


def test_how_a_run_was_made_is_said_in_full(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = tmp_path / "a.csv"
    dgx1 = SimulationOptions(topology="dgx1")
    shown(Request("resnet50:batch=2", "asgd:server=cpu", machine=dgx1), capsys, out=table)
    parameters = json.loads((tmp_path / "a.csv.meta.json").read_text())["parameters"]
    assert (parameters["steps"], parameters["p"], parameters["server"], parameters["model"]) == (
        20,
        "8",
        "cpu",
        "resnet50:batch=2,device=v100",
    )
    assert rows_of(table.read_text())[0]["device"] == "v100"


def test_each_rank_computes_with_its_own_times(
    request_: Request, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two files of the same model, the second of twice the forward: all wait for the second
    rank."""
    slow = tmp_path / "slow.yaml"
    slow.write_text(MODEL.replace("forward: 1ms", "forward: 2ms"))
    two_models = replace(request_, model=f"{request_.model},{slow}", p=None, bucket="1GiB")
    document: Any = report(two_models, capsys)
    assert document["summary"]["ranks"] == 2
    assert [rank["computing_s"] for rank in document["ranks"]] == pytest.approx([0.013, 0.017])
    assert document["summary"]["step_s"] == pytest.approx(0.017 + 0.004)
    assert report(replace(two_models, p="1"), capsys)["summary"]["step_s"] == pytest.approx(0.013)
    assert "the model has the times of 2 ranks, 4 is too many: take 2 or fewer" in refusal(
        run, replace(two_models, p="4"), None, None, None, "table"
    )


@pytest.mark.parametrize("strategy", ["dp", "ssgd", "asgd", "ssp", "fsdp", "local_sgd"])
def test_every_strategy_takes_the_times_of_each_rank(
    request_: Request, capsys: pytest.CaptureFixture[str], tmp_path: Path, strategy: str
) -> None:
    """Half as fast by a file of its own is half as fast by --straggler, but for an optimizer that
    all wait for."""
    slow = tmp_path / "slow.yaml"
    text = MODEL.replace("forward: 1", "forward: 2").replace("backward: 2", "backward: 4")
    text = text.replace("optimizer: 1", "optimizer: 2")
    slow.write_text(text)
    by_file = report(
        replace(request_, strategy=strategy, model=f"{request_.model},{slow}", p=None), capsys
    )
    by_option = report(replace(request_, strategy=strategy, p="2", straggler="1:2"), capsys)
    for key in ("step_s", "samples_per_s", "computing_s"):
        assert by_file["summary"][key] == pytest.approx(by_option["summary"][key])
