"""--library: a library on a machine that nobody has measured."""

import csv
import io
import json
import subprocess
from collections.abc import Callable

import pytest

Simctl = Callable[..., "subprocess.CompletedProcess[str]"]
NOTE = "note: nccl on machines like this: population of "


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--algo", "rings", "--p", "8"),
        ("sweep", "--algo", "rings", "--p", "8", "--size", "1MiB"),
        pytest.param(("recommend", "--p", "8", "--size", "1MiB"), marks=pytest.mark.exhaustive),
    ],
)
def test_a_note_says_where_figures_are_from(simctl: Simctl, words: tuple[str, ...]) -> None:
    done = simctl(*words, "--library", "nccl", "--topology", "dgx_a100")
    assert done.returncode == 0
    assert done.stderr.startswith(NOTE)
    assert done.stderr.count("note:") == 1


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_note_names_what_the_library_cannot_run(simctl: Simctl, command: str) -> None:
    for name, notes in (("blue_connect", 1), ("rings", 0)):
        words = (command, "--algo", name, "--size", "1MiB", "--topology", "hgx_h100:nodes=2")
        done = simctl(*words, "--library", "nccl")
        text = f"note: {name}: the library does not run it on 16 ranks of this machine"
        assert done.stderr.count(text) == notes
        assert text not in simctl(*words).stderr


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_times_have_intervals(simctl: Simctl, command: str) -> None:
    words = (command, "--algo", "ring", "--p", "8", "--size", "1MiB", "--topology", "dgx_a100")
    factors = []
    for level in ((), ("--level", "0.95")):
        done = simctl(*words, "--library", "nccl", *level, "--format", "csv")
        (row,) = csv.DictReader(io.StringIO(done.stdout))
        assert float(row["expected_s"]) == pytest.approx(float(row["time_s"]))
        factors.append(float(row["high_s"]) / float(row["low_s"]))
    usual, wide = factors
    assert 1.5 < usual < wide
    assert "80% of runs" in simctl(*words, "--library", "nccl").stdout


def test_advice_has_intervals(simctl: Simctl) -> None:
    """What both algorithms share does not blur which is faster."""
    words = ("recommend", "--p", "8", "--explain", "1MiB", "--topology", "dgx_a100")
    rows = json.loads(simctl(*words, "--library", "nccl", "--format", "json").stdout)
    assert all(row["low_s"] < row["expected_s"] < row["high_s"] for row in rows)
    assert any(row["low_s"] < rows[0]["high_s"] and not row["rival"] for row in rows[1:])


def test_more_ranks_than_one_node_have_links_between_nodes(simctl: Simctl) -> None:
    """The user does not say how many nodes there are."""
    words = "sweep", "--algo", "ring", "--p", "8,16", "--size", "1KiB", "--format", "csv"
    for machine in ("hgx_h100", "nodes:per_node=8"):
        done = simctl(*words, "--library", "nccl", "--topology", machine)
        inside, between = csv.DictReader(io.StringIO(done.stdout))
        assert float(inside["time_s"]) < float(between["time_s"])


def test_software_takes_longer_than_links(simctl: Simctl) -> None:
    words = "sweep", "--algo", "ring", "--p", "8", "--size", "1KiB", "--topology", "dgx_a100"
    bare, nccl = (
        next(csv.DictReader(io.StringIO(simctl(*words, *more, "--format", "csv").stdout)))
        for more in ((), ("--library", "nccl"))
    )
    assert float(nccl["time_s"]) > 1.5 * float(bare["time_s"])


def test_nodes_of_any_size_have_links_between_them(simctl: Simctl) -> None:
    words = "sweep", "--algo", "ring", "--p", "32", "--size", "1MiB", "--format", "csv"
    for per_node in (8, 16):
        machine = f"nodes:per_node={per_node}"
        done = simctl(*words, "--library", "openmpi", "--topology", machine)
        assert done.returncode == 0, done.stderr
