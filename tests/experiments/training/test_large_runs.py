"""`simctl train` of large runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.commands import train_runs as train
from experiments.options.machine_options import MachineOptions, RuleOptions
from experiments.options.training_options import TrainingOptions
from experiments.output import RunFiles
from experiments.simulations import workload
from experiments.training import training_grid
from topologies.resources import Need

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
    star = MachineOptions("star", bandwidth="1GB/s", latency="0us")

    def shown(how: str, force: bool = False) -> tuple[str, str]:
        request = TrainingOptions(str(model), p="4").request(star, RuleOptions(force=force))
        assert train.run(request, RunFiles(), how) == 0
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
