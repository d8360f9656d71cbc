"""`simctl pipelines`."""

import csv
import json
from pathlib import Path

import pytest

from simctl_process import Simctl, mistake
from simulator.parallel.pipelines import orders


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


def test_mistakes_are_one_line(simctl: Simctl, tmp_path: Path) -> None:
    for arguments, message in (
        (["1f2b"], "did you mean '1f1b'"),
        (["interleaved", "--batch", 9], "take a multiple of 8"),
        (["gpipe,1f1b", "--out", tmp_path / "a.csv"], "name one order, there are 2"),
        (["gpipe", "--out", tmp_path / "a.txt"], "a.txt"),
        (["gpipe", "--times", "forward=1"], "--times: forward=1: '1' has no unit"),
        (["gpipe", "--times", "1ms"], "--times '1ms': write some of forward=1ms,inputs=1ms"),
        (["zb_auto", "--batch", 10**5], "too many to search"),
        (["gpipe", "--batch", 10**9], "too many"),
    ):
        assert message in mistake(simctl("pipelines", *arguments))


def test_json_has_all_figures(simctl: Simctl) -> None:
    (row,) = json.loads(simctl("pipelines", "gpipe", "--format", "json").stdout)
    assert row["stages"] == 8
    assert row["step_s"] == pytest.approx(69e-3)


def test_a_picture_is_drawn(simctl: Simctl, tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    done = simctl("pipelines", "zb_v,1f1b", "--p", 2, "--batch", 4, "--plot", path)
    assert done.returncode == 0, done.stderr
    assert path.read_text().count("<image") == 2 * 2  # boxes, and idle time by its cause


def test_the_page_names_every_order() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "pipelines.md").read_text()
    assert [name for name in orders() if f"\n| `{name}" not in page] == []
