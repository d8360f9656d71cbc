"""`import simctl`: the rows of the commands, from Python."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import simctl as door
from grouped_cases import each_case
from simctl_process import Simctl

LOG = Path(__file__).parents[1] / "examples" / "h100_10_nodes_all_reduce.csv"


def printed(simctl: Simctl, *words: str) -> object:
    done = simctl(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def same(rows: door.Rows) -> object:
    """Rows as a file of JSON has them."""
    return json.loads(json.dumps(rows))


def test_sweep_has_the_rows_of_the_command(simctl: Simctl) -> None:
    rows = door.sweep("ring,tree", "star:latency=2us", "1KiB,1MiB", p="2..4")
    line = "sweep --algo ring,tree --topology star:latency=2us --size 1KiB,1MiB --p 2..4"
    assert same(rows) == printed(simctl, *line.split())
    assert list(rows.to_frame()["ranks"]) == [2, 2, 3, 3, 4, 4] * 2
    assert "tree" in repr(rows)


def test_run_knows_the_machine_and_the_library(simctl: Simctl) -> None:
    hgx = door.machine("hgx_h100:nodes=2")
    line = "run --topology hgx_h100:nodes=2 --size 16MiB --library nccl"
    report = printed(simctl, *line.split())
    assert isinstance(report, dict)
    [row] = door.run(on=hgx, size=2**24, library="nccl")
    assert json.loads(json.dumps(row)) == report["summary"]


def test_recommend_train_and_plan_have_the_rows_of_their_commands(simctl: Simctl) -> None:
    advice = printed(simctl, "recommend", "--p", "4", "--size", "1MiB")
    assert isinstance(advice, dict)
    assert same(door.recommend(p=4, size="1MiB")) == advice["advice"]
    line = "train --model resnet50:batch=2 --p 2,4 --bucket 25MiB"
    rows = door.train("resnet50:batch=2", p="2,4", bucket="25MiB")
    assert same(rows) == printed(simctl, *line.split())
    [row] = door.plan("gpt3_1_7b:layers=2", "dp=2,tp=2,micro=1,batch=4", "dgx_a100", p=4)
    line = "plan dp=2,tp=2,micro=1,batch=4 --model gpt3_1_7b:layers=2 --p 4"
    report = printed(simctl, *line.split(), "--topology", "dgx_a100")
    assert isinstance(report, dict)
    assert row["step_s"] == report["summary"]["step_s"]


def test_values_are_texts_numbers_or_lists() -> None:
    rows = door.sweep(["ring", "tree"], "star", ["1MiB", 2**20, 3e6], p=[2, 4])
    assert len(rows) == 2 * 2 * 2
    assert {row["size_B"] for row in rows} == {2**20, 3e6}
    assert [row["ranks"] for row in door.train("resnet50", "star", gpus=range(1, 3))] == [1, 2]
    sizes = (0, 25 * 2**20), ("0", "25MiB")
    number, text = ([door.train("resnet50", p=2, bucket=size) for size in row] for row in sizes)
    assert number == text


def test_printed_rows_have_their_times_and_how_good_they_are() -> None:
    shown = repr(door.plan("gpt3_1_7b:layers=2", "dp=2,tp=2,micro=1,batch=4", "dgx_a100", p=4))
    assert {"plan", "gpus", "step_s", "tokens_per_s", "mfu"} <= set(shown.split())
    shown = repr(door.run("rings", "hgx_h100", "1MiB", library="nccl"))
    columns = {"algorithm", "ranks", "size_B", "time_s", "low_s", "high_s", "over_bound"}
    assert columns <= set(shown.split())


def test_a_search_has_the_rows_of_the_command() -> None:
    rows = door.plan("gpt3_1_7b", "auto,cp=1,recompute=none,tp=1", "hgx_h100", batch=16)
    assert rows[0]["step_s"] == min(row["step_s"] for row in rows if row["step_s"])
    assert {"mfu", "fits", "tokens_per_s"} <= rows[0].keys()


def test_logs_are_read_fitted_and_diagnosed(tmp_path: Path) -> None:
    measured = door.read(str(LOG))
    [curve] = measured.curves
    assert len(curve.to_frame()) == len(measured.to_frame()) == 10
    assert repr(measured).splitlines() == [
        "Measurements, curves: 1",
        f"  all_reduce, 10 sizes, {LOG}",
    ]
    assert [row["size_B"] for row in door.diagnose(LOG)] == [point.size for point in curve.points]
    [row] = door.diagnose(on="hgx_h100", size="1GiB", busbw="100GB/s")
    assert row["abnormal"] == "below expectation"
    rows = door.expect("hgx_h100", "all_gather", size=[2**20, 2**30], p=4)
    assert [row["size_B"] for row in rows] == [2**20, 2**30]
    profile = door.calibrate(LOG, out=tmp_path / "mine.yaml", library="nccl")
    [row] = door.run("ring", size="64MiB", p=10, profile=profile)
    assert row["low_s"] < 2.6e-3 < row["high_s"]


ANY: Any = door
"""The door for values of wrong types."""


@each_case(
    ("call", "answer"),
    [
        (lambda: door.machine("b2000"), "did you mean 'b200'"),
        (lambda: door.machine("star", beta="1GB/s"), "no option beta: topology, bandwidth, "),
        (lambda: door.run("rnig"), "did you mean 'ring'"),
        (lambda: door.run("ring", size="1e9"), "write 1GB"),
        (lambda: door.run("ring", size=-1.0), "is not positive"),
        (lambda: door.run("ring,tree", p=4), "one algorithm here, simctl sweep takes several"),
        (lambda: door.run("ring", library="x"), "library: 'x': input should be 'nccl', "),
        (lambda: door.run("ring", q=3), "no option q"),
        (lambda: door.run("ring", 5), "no topology or file '5'"),
        (lambda: door.run("ring", size=None), "size None: write a text like '1GiB', or bytes"),
        (lambda: door.run("ring", p=0), "ranks must be at least 2, got 0"),
        (lambda: door.run("ring", library="nccl", level="90%"), "level: '90%' is not a number"),
        (lambda: door.machine(7), "no topology or file '7'"),
        (lambda: ANY.machine("star", bandwidth=5), "'5' has no unit: write 5B/s or 5MB/s"),
        (lambda: door.machine(door.machine("star"), bandwidth="1GB/s"), "topology: "),
        (lambda: door.recommend(foo=1), "no option foo"),
        (lambda: ANY.recommend(collective=5), "no collective '5'"),
        (lambda: ANY.plan("gpt2", {"dp": 4}), "plan: a mapping is not text"),
        (lambda: door.train("resnet50", steps="x"), "steps: 'x' is not a whole number"),
        (lambda: door.train("resnet50", detail="all"), "detail: 'all': input should be 'auto' or"),
        (lambda: door.calibrate(LOG, out="x.yaml", foo=1), "no option foo: "),
        (lambda: ANY.calibrate(LOG, out=7), "files (7,): write names of files"),
        (lambda: door.diagnose(), "files (): write names of files"),
        (lambda: ANY.read(5), "files (5,): write names of files"),
        (lambda: door.train("resnet50", bukket="1MiB"), "no option bukket: did you mean 'bucket'?"),
        (lambda: door.train("resnet50", learn="mlp"), "learn: only the command has this option"),
        (lambda: door.train("resnet50", p=2, gpus=4), "p 2 and gpus 4: leave one of them out"),
        (lambda: door.run("ring", p=8, groups="0-1;2-3"), "groups: only the command"),
        (lambda: door.run("ring", p=8, out="row.json"), "out: only the command"),
        (lambda: door.sweep("ring", p=2, jobs="nonsense"), "jobs: only the command"),
        (lambda: door.run("ring", p=4, size=10**400), "at most 1e300 bytes"),
        (lambda: door.train("gpt2", plan="dp=2"), "no option plan"),
        (lambda: door.read("nothing.log"), "nothing.log"),
    ],
)
def test_mistakes_are_input_errors(call: Callable[[], object], answer: str) -> None:
    with pytest.raises(door.InputError) as raised:
        call()
    assert answer in str(raised.value)


def test_the_door_loads_nothing_until_it_is_used() -> None:
    heavy = "numpy", "pandas", "typer", "networkx", "experiments"
    check = f"import simctl, sys; assert not set({heavy}) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_the_door_is_small() -> None:
    assert door.__file__
    assert len(Path(door.__file__).read_text().splitlines()) <= 200
