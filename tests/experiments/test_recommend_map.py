"""`simctl recommend` with several numbers of ranks."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from experiments.commands.recommend import Recommend
from experiments.options.options import Format
from simctl_process import Simctl
from tuner_files import read_tuner

SIZES = [2.0**10, 2.0**26]


def printed(capsys: pytest.CaptureFixture[str], how: str, **files: Any) -> str:
    request = Recommend(p="2,3", size="1KiB,64MiB", topology="star", format=Format(how), **files)
    assert request.run() == 0
    return capsys.readouterr().out


def test_rows_have_the_second_and_its_margin(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "csv"))))
    assert [(row["ranks"], float(row["size_B"])) for row in rows] == [
        (ranks, size) for ranks in ("2", "3") for size in SIZES
    ]
    for row in rows:
        assert row["second"].partition(":")[0] != row["algorithm"].partition(":")[0]
        margin = float(row["second_time_s"]) / float(row["time_s"])
        assert float(row["margin"]) == pytest.approx(margin)
        assert margin > 1 - 1e-6


def test_files_and_the_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot, tuner, report = (tmp_path / name for name in ("map.svg", "tuner.csv", "a.html"))
    text = printed(capsys, "table", plot=plot, nccl_tuner=tuner, report=report)
    machine, title, head, *_ = [line for line in text.split("\n") if line]
    assert machine.startswith("machine: star")
    assert title == "all_reduce on star: the fastest algorithm"
    assert head.split() == ["size", "p", "=", "2", "p", "=", "3"]
    assert plot.read_text().startswith("<?xml")
    assert {line.ranks for line in read_tuner(tuner)} == {2, 3}
    assert "Who wins where" in report.read_text()
    document = json.loads(printed(capsys, "json"))
    assert {left["name"] for left in document["not_tried"]} >= {"sharp", "nvls"}


def test_one_size_is_explained_for_one_number_of_ranks(simctl: Simctl) -> None:
    done = simctl("recommend", "--p", "4,8", "--explain", "64KiB")
    assert done.returncode == 2
    assert "--explain 64KiB: give one number of ranks in --p, not 4,8" in done.stderr
