"""`simctl sweep`: rows as they come, points that fail, how much work is taken on, and what is said
below."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from csv_texts import rows_of
from experiments.commands import sweep as command
from experiments.options.values import parse_ranks
from experiments.simulations import grid, workload
from experiments.simulations.grid import Grid, sweep
from experiments.simulations.sweep_rows import PointVerdict, SweepRow
from simctl_process import Simctl, mistake
from simulator.analysis import bounds
from simulator.collectives import algorithms, find
from topologies.catalogue import find as find_machine
from topologies.resources import Need

HGX = ("--topology", "hgx_h100:nodes=4")


def table(text: str) -> list[str]:
    """The headings and the rows, between the machine and the explanation."""
    return text.split("\n\n")[1].splitlines()


@pytest.mark.parametrize("how", ["csv", "table"])
def test_a_row_is_printed_before_the_next_is_simulated(
    how: str, simctl: Simctl, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[list[str]] = []

    def watched(*arguments: Any) -> Iterator[SweepRow]:
        for row in sweep(*arguments):
            yield row
            printed.append(capsys.readouterr().out.splitlines())

    monkeypatch.setattr(grid, "sweep", watched)
    simctl("sweep", "--p", "2..4", "--format", how)
    machine = 2 if how == "table" else 0
    assert [len(lines) for lines in printed] == [machine + 2, 1, 1]
    assert printed[0][machine].startswith("algorithm")


@pytest.mark.parametrize(
    ("topology", "ranks"),
    [
        ("hgx_h100:nodes=4", ["32"]),
        ("torus:dims=3x4", ["12"]),
        ("star", [str(p) for p in range(2, 65)]),
    ],
)
def test_without_a_number_of_ranks_a_machine_has_all_of_its_own(
    topology: str, ranks: list[str], simctl: Simctl
) -> None:
    done = simctl("sweep", "--topology", topology, "--format", "csv")
    assert done.returncode == 0
    assert [row["ranks"] for row in rows_of(done.stdout)] == ranks


def test_servers_of_a_shape_are_among_its_ranks(simctl: Simctl) -> None:
    line = ("sweep", "--topology", "torus:dims=3x4", "--algo", "parameter_server_apart")
    assert [row["ranks"] for row in json.loads(simctl(*line, "--format", "json").stdout)] == [11]


def test_a_point_that_fails_costs_only_itself(simctl: Simctl, tmp_path: Path) -> None:
    out = tmp_path / "sweep.csv"
    done = simctl("sweep", *HGX, "--p", "8,33,16", "--format", "csv", "--out", out)
    assert done.returncode == 2
    assert [row["ranks"] for row in rows_of(done.stdout)] == ["8", "16"]
    assert out.read_text() == done.stdout
    why = "hgx_h100:nodes=4 has 32 GPUs, not 33: take fewer ranks or more nodes"
    assert done.stderr.splitlines() == [f"note: failed ring, 33 ranks: {why}"]


def test_a_failed_check_counts_more_than_a_point_that_fails(
    simctl: Simctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PointVerdict, "failed", True)
    done = simctl("sweep", *HGX, "--p", "32,33")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 2


def test_a_reason_is_named_once_for_all_numbers_of_ranks(simctl: Simctl) -> None:
    done = simctl("sweep", "--algo", "ring,nvls", "--topology", "star", "--p", "2..4")
    why = "nvls needs switches in a node that reduce, and topology 'star' has none"
    assert done.returncode == 0
    [line] = done.stderr.splitlines()
    assert line.startswith(f"note: skipped nvls, 2, 3, 4 ranks: {why}")


def test_what_cannot_be_built_takes_no_time(simctl: Simctl) -> None:
    done = simctl("sweep", "--p", "30000", "--symmetry", "off")
    assert "take fewer ranks" in mistake(done)


def test_many_points_that_fail_are_counted(simctl: Simctl) -> None:
    done = simctl("sweep", *HGX, "--p", "32..50")
    assert len(table(done.stdout)) == 2
    assert len(done.stderr.splitlines()) == command.NAMED + 1
    assert done.stderr.splitlines()[-1] == "note: failed 18 points in all"


def test_a_sweep_of_which_all_points_fail_is_one_mistake(simctl: Simctl) -> None:
    assert mistake(simctl("sweep", *HGX, "--p", "33..50", "--format", "csv")).startswith(
        "simctl: ring, 33 ranks: hgx_h100:nodes=4 has 32 GPUs, not 33"
    )


def test_a_sweep_of_days_is_refused_at_once_with_one_that_runs(simctl: Simctl) -> None:
    line = mistake(simctl("sweep", "--p", "2..20000", "--topology", "line"))
    assert line.startswith("simctl: 19999 points with ring of ")
    advice = line.split("like --p ")[1].partition(",")[0]
    machine = find_machine("line").build
    points = Grid([find("ring")], parse_ranks(advice), [1e6], machine).points
    workload.check_points(points, len(points), jobs=1)


def test_a_sweep_without_enough_memory_goes_on_with_force(
    simctl: Simctl, free: Callable[[float], None]
) -> None:
    free(1e6)
    done = simctl("sweep", "--p", "4")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("simctl: ring of 4 ranks: this takes about 0.4 s and 60MB of")
    assert simctl("run", "--p", "4").stderr == done.stderr
    for name in ("sweep", "run"):
        forced = simctl(name, "--p", "4", "--force")
        assert (forced.returncode, forced.stderr) == (0, "")


@pytest.mark.parametrize("much", [Need(0.1, 1e9), Need(1e9, 1e6)])
def test_long_work_is_announced(
    simctl: Simctl, monkeypatch: pytest.MonkeyPatch, much: Need
) -> None:
    monkeypatch.setattr(workload, "ANNOUNCED", much)
    needs = "this takes about 0.4 s and 60MB of memory\n"
    for name in ("sweep", "run"):
        assert simctl(name, "--p", "4").stderr == f"note: ring of 4 ranks: {needs}"
    assert simctl("sweep", "--p", "4,5").stderr == f"note: 2 points: {needs}"


def test_words_are_explained_once_below_the_table(simctl: Simctl) -> None:
    done = simctl("sweep", "--p", "2..4", "--algo", "ring,tree", "--topology", "ring")
    _, rows, below, verdicts, _ = done.stdout.split("\n\n")
    terms = "V", "of bound", "busbw", "not claimed", "--format wide"
    assert [line.split("  ")[1] for line in below.splitlines()] == [*terms]
    assert "not claimed: routes differ (tree)" in verdicts
    assert "not claimed" in rows
    assert "not claimed" not in simctl("sweep", "--p", "2..4").stdout
    assert simctl("run", "--p", "4").stdout.count("busbw  ") == 1


NAMES = ",".join(algorithms())
WIDE_SWEEPS = {
    "all algorithms": ("--algo", NAMES, "--p", "8", "--size", "3.8125GiB"),
    "rules without a formula": ("--algo", NAMES, "--p", "4", "--sharing", "fair"),
    "large sizes": ("--p", "2..128:x4", "--size", "8B..16GiB:x1024", "--latency", "333ms"),
    "a machine": ("--algo", "rings,nvls,ring", "--p", "8..32:x2", "--size", "1kB,999MB", *HGX),
    "a profile": ("--profile", "leonardo_cpu", "--algo", "recursive_doubling,ring", "--p", "16"),
}


@pytest.mark.parametrize("arguments", WIDE_SWEEPS.values(), ids=WIDE_SWEEPS.keys())
def test_no_line_is_wider_than_100(arguments: tuple[str, ...], simctl: Simctl) -> None:
    lines = simctl("sweep", *arguments).stdout.splitlines()
    assert len(lines) > 3
    assert [line for line in lines if len(line) > 100] == []


def test_a_wide_table_has_all_columns(simctl: Simctl) -> None:
    heading = table(simctl("sweep", "--p", "4", "--format", "wide").stdout)[0]
    names = re.split(r" {2,}", heading)
    assert len(set(names)) == len(names)
    assert {"algbw", "steps", "bytes sent", "redundant by formula"} < {*names}


@pytest.mark.parametrize("how", ["table", "wide"])
def test_a_formula_that_is_not_claimed_has_no_difference(how: str, simctl: Simctl) -> None:
    line = ("sweep", "--p", "16", "--topology", "hgx_h100:nodes=2", "--format")
    heading, row = table(simctl(*line, how).stdout)
    names = re.split(r" {2,}", heading)
    cells = dict(zip(names, re.split(r" {2,}", row), strict=True))
    assert names[-1] == "verdict"
    reason = "not claimed: routes differ" if how == "wide" else "not claimed"
    assert (cells["difference"], cells["verdict"]) == ("-", reason)
    assert json.loads(simctl(*line, "json").stdout)[0]["difference"] > 6


def test_the_columns_of_a_wide_table_do_not_shift(simctl: Simctl) -> None:
    """All bytes are in units of one family."""
    line = ("sweep", "--algo", "ring,tree", "--p", "2..64", "--topology", "star", "--format")
    heading, *rows = table(simctl(*line, "wide").stdout)
    place = heading.index("verdict")
    assert {row[place - 2 : place] for row in rows} == {"  "}
    assert all(row[place:].startswith(("ok", "not claimed")) for row in rows)
    assert not re.search(r"\d[kMG]B ", "\n".join(rows))


def test_bounds_that_are_left_out_are_named(
    simctl: Simctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ("--algo", "tree", "--topology", "line")
    assert "Bounds" not in simctl("sweep", *line, "--p", "4").stdout
    monkeypatch.setattr(bounds, "SEARCHED_CUTS", 20)
    assert "p = 4 to 6: every cut." in simctl("sweep", *line, "--p", "3..6").stdout
    assert "Bounds left out: every cut." in simctl("run", *line, "--p", "8").stdout
    text = simctl("sweep", *line, "--p", "3,4", "--format", "csv").stdout
    rows = rows_of(text)
    assert [row["bounds_left_out"] for row in rows] == ["", "every cut"]
    [record] = json.loads(simctl("sweep", *line, "--p", "9", "--format", "json").stdout)
    assert record["bounds_left_out"] == "every cut"


def test_a_table_is_kept_where_nobody_reads_on(tmp_path: Path) -> None:
    shell = (
        f'{sys.executable} -c "from experiments.cli import main; main()" sweep --p 2..6 --out '
        f"x.csv | head -1"
    )
    done = subprocess.run(
        ["sh", "-c", shell], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stderr == ""
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 6
