"""`simctl train --learn`: what it prints, writes and refuses."""

import json
import sys
from pathlib import Path

import pytest

from csv_texts import rows_of
from simctl_process import Simctl, mistake

SMALL = (
    *("train", "--model", "examples/two_layer_model.yaml", "--p", "2", "--steps", "3"),
    *("--learn", "softmax"),
)


@pytest.fixture
def learned(simctl: Simctl, monkeypatch: pytest.MonkeyPatch) -> Simctl:
    """`simctl train --learn` of a small run."""
    monkeypatch.chdir(Path(__file__).parents[3])
    return lambda *options: simctl(*SMALL, *options)


def test_a_table_compares_strategies_and_workers(learned: Simctl) -> None:
    done = learned("--strategy", "ssgd; asgd", "--straggler", "1:3")
    assert done.returncode == 0
    table = done.stdout.partition("All runs\n")[2].partition("staleness:")[0]
    heading, *rows = table.strip().splitlines()
    assert heading.split() == [
        *("strategy", "workers", "updates", "time", "loss", "accuracy", "to", "0.95"),
        *("staleness", "most", "idle", "cause"),
    ]
    assert [line.split()[:2] for line in rows] == [
        ["ssgd", "alike"],
        ["asgd", "alike"],
        ["ssgd", "straggler"],
        ["asgd", "straggler"],
    ]


def test_csv_and_json_have_the_same_figures(learned: Simctl) -> None:
    (record,) = rows_of(learned("--format", "csv").stdout)
    (document,) = json.loads(learned("--format", "json").stdout)
    assert document["curve"][-1]["loss"] == document["loss"] == float(record["loss"])
    assert document["target_s"] is None
    assert record["strategy"] == "ddp"


def test_files_hold_the_table_and_a_picture(learned: Simctl, tmp_path: Path) -> None:
    out, plot = tmp_path / "out.csv", tmp_path / "plot.svg"
    assert learned("--straggler", "1:3", "--out", out, "--plot", plot).returncode == 0
    assert len(out.read_text().splitlines()) == 3
    meta = json.loads((tmp_path / "out.csv.meta.json").read_text())
    assert meta["parameters"]["learn"] == "softmax"
    assert plot.read_text().startswith("<?xml")


PLANS = (
    *("plan", "--model", "gpt3_1_7b:layers=4,hidden=512,heads=8,seq=256", "--steps", "2"),
    *("--topology", "dgx_a100", "--learn", "mlp"),
)


def test_plans_of_as_many_gpus_learn_the_same(simctl: Simctl) -> None:
    plans = "dp=8,batch=32; dp=2,pp=2,tp=2,batch=32,zero=1; dp=4,pp=2,batch=32,schedule=zb_h1"
    rows = json.loads(simctl(*PLANS, plans, "--format", "json").stdout)
    assert [row["strategy"] for row in rows] == plans.split("; ")
    assert [row["updates"] for row in rows] == [16, 16, 16]
    assert [row["loss"] for row in rows] == [pytest.approx(rows[0]["loss"], abs=1e-10)] * 3
    assert len({row["seconds"] for row in rows}) == 3


def test_a_plan_refuses_what_plans_refuse(simctl: Simctl) -> None:
    for options, message in (
        (["dp=3"], "there are 8 GPUs"),
        (["dp=8", "--straggler", "9:2"], "there is no rank 9"),
        (["dp=8", "--batches", "1:2"], "--batches 1:2: it does not go with a plan"),
    ):
        assert message in mistake(simctl(*PLANS, *options))


def test_without_scikit_learn_a_line_says_what_to_install(
    learned: Simctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.learning.task import digits

    digits.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    done = learned()
    assert done.returncode == 2
    assert "pip install '.[learn]'" in done.stderr


def test_strategies_and_plans_learn_in_one_table(simctl: Simctl, tmp_path: Path) -> None:
    picture = tmp_path / "learn.svg"
    done = simctl(
        *("plan", "--model", "bert_large:layers=4", "--topology", "hgx_h100"),
        *("--learn", "softmax:epochs=1", "--strategy", "ddp", "dp=8", "pp=2"),
        *("--straggler", "3:2", "--plot", picture, "--format", "json"),
    )
    rows = [(row["strategy"], row["disturbance"]) for row in json.loads(done.stdout)]
    alike, slow = "", "straggler 3:2"
    assert rows == [
        *(("ddp", alike), ("ddp", slow), ("dp=8", alike), ("pp=2", alike)),
        *(("dp=8", slow), ("pp=2", slow)),
    ]
    seconds = {
        row: each["seconds"] for row, each in zip(rows, json.loads(done.stdout), strict=True)
    }
    assert all(seconds[name, slow] > seconds[name, alike] for name in ("ddp", "dp=8", "pp=2"))
    assert b"dp=8" in picture.read_bytes()
