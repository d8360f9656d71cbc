"""Pipelines: the command, and orders from files."""

import csv
from pathlib import Path

import pytest

from experiments.pipeline_files import find_order
from refusals import refusal
from simctl_process import Simctl, mistake
from simulator.parallel.pipelines import find, orders
from simulator.parallel.pipelines.pipeline import pipeline_csv


def records(simctl: Simctl, *arguments: object) -> dict[str, dict[str, str]]:
    done = simctl("pipelines", *arguments, "--format", "csv")
    assert done.returncode == 0, done.stderr
    return {row["pipeline"]: row for row in csv.DictReader(done.stdout.splitlines())}


def test_every_order_is_listed(simctl: Simctl) -> None:
    rows = records(simctl)
    assert list(rows) == list(orders())
    assert float(rows["gpipe"]["idle_s"]) == pytest.approx(7 * 3e-3)
    assert float(rows["interleaved"]["idle_s"]) == pytest.approx(7 * 3e-3 / 2)
    assert float(rows["zb_h2"]["idle_within_s"]) == 0
    activations = {name: float(row["activations"]) for name, row in rows.items()}
    assert activations["1f1b"] == activations["zb_h1"] == activations["zb_v"] == 8
    assert activations["dual_pipe"] == 9
    assert activations["interleaved"] == 8 * (1 + 7 / 16)


def test_orders_that_these_sizes_do_not_suit_are_noted(simctl: Simctl) -> None:
    done = simctl("pipelines", "--p", 3, "--batch", 4)
    assert "dual_pipe" not in done.stdout
    assert "note: pipeline dual_pipe: 3 devices: take an even number" in done.stderr
    assert "note: pipeline interleaved: 4 micro-batches on 3 devices" in done.stderr


def test_a_search_takes_the_times_of_the_command(simctl: Simctl) -> None:
    work = "--times", "weights=500us,transfer=10us", "--batch", 32
    rows = records(simctl, "zb_auto:memory=2,1f1b", *work)
    assert list(rows) == ["zb_auto:memory=2", "1f1b"]
    assert float(rows["zb_auto:memory=2"]["idle_within_s"]) < float(rows["1f1b"]["idle_s"]) / 4
    own = records(simctl, "zb_auto:memory=2,forward=9,inputs=1,kept=100", *work)
    assert own["zb_auto:memory=2"] != rows["zb_auto:memory=2"]


def test_what_is_written_is_read_again(simctl: Simctl, tmp_path: Path) -> None:
    path = tmp_path / "zb.csv"
    rows = records(simctl, "zb_v", "--p", 4, "--batch", 8, "--out", path)
    again = records(simctl, path)
    assert {**rows["zb_v"], "pipeline": "zb.csv"} == again["zb.csv"]
    assert "has 4 devices and 8 micro-batches: leave out --p" in mistake(
        simctl("pipelines", path, "--p", 8)
    )


def test_a_picture_is_drawn(simctl: Simctl, tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    done = simctl("pipelines", "zb_v,1f1b", "--p", 2, "--batch", 4, "--plot", path)
    assert done.returncode == 0, done.stderr
    assert path.read_text().count("<image") == 2 * 2  # boxes, and idle time by its cause


def test_the_page_names_every_order() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "pipelines.md").read_text()
    assert [name for name in orders() if f"\n| `{name}" not in page] == []


def test_an_order_is_a_name_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(pipeline_csv(find("1f1b").build(2, 4)))
    order = find_order(str(path))
    assert (order.name, order.summary) == ("mine.csv", "2 stages from a file")
    assert len(order.build(2, 4)) == 16
    assert find_order("gpipe") is find("gpipe")
    assert "plan so many, and not 4 and 8" in refusal(order.build, 4, 8)


def test_bad_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    assert "no such file" in refusal(find_order, str(path))
    path.write_bytes(b"\xff\xfe0F0")
    assert "line 1: not UTF-8" in refusal(find_order, str(path))
    path.write_text("0F0,0Q0")
    assert "mine.csv: line 1: '0Q0' is no action" in refusal(find_order, str(path))
