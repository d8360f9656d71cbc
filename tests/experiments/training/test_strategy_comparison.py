"""Several strategies in one table and one picture."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from experiments.commands import train_runs as train
from experiments.options.machine_options import MachineOptions
from experiments.options.training_options import TrainingOptions
from experiments.output import RunFiles

MODEL = Path(__file__).parents[3] / "examples" / "two_layer_model.yaml"
NAMES = ["ddp:bucket=1MB,overlap=no", "asgd"]


def printed(
    capsys: pytest.CaptureFixture[str], how: str, strategy: str, p: str, plot: Path | None = None
) -> str:
    options = TrainingOptions(str(MODEL), strategy, p=p)
    assert train.run(options.request(MachineOptions("star")), RunFiles(), how, plot=plot) == 0
    return capsys.readouterr().out


def test_a_row_is_the_run_of_a_strategy_alone(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "csv", ", ".join(NAMES), "1,2"))))
    assert [row["strategy"] for row in rows] == [NAMES[0]] * 2 + [NAMES[1]] * 2
    assert [row["ranks"] for row in rows] == ["1", "2"] * 2
    (alone,) = csv.DictReader(io.StringIO(printed(capsys, "csv", NAMES[0], "2")))
    assert rows[1]["step_s"] == alone["step_s"]


def test_the_fastest_is_said_and_all_are_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = printed(capsys, "table", ";".join(NAMES), "1,2", tmp_path / "a.svg")
    assert " is fastest, " in text
    assert "strategy asgd" in text
    assert "staleness" in text
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
