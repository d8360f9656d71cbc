"""Options of patterns and of machines."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from csv_texts import rows_of
from experiments.options.machine_options import MachineOptions
from grouped_cases import each_case
from refusals import refusal
from simctl_process import Simctl
from topologies.catalogue import find


def test_a_matrix_is_simulated_at_its_size(command: Simctl, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("0,6e9,2e9\n1e9,0,0\n0,3e9,0\n")
    line = ("run", "--algo", "posted_all_to_allv", "--topology", "star")
    report = command(
        *line, "--bandwidth", "1GB/s", "--latency", "0s", "--matrix", str(tmp_path / "m.csv"),
        "--format", "json",
    )  # fmt: skip
    summary = json.loads(report.stdout)["summary"]
    assert (summary["size_B"], summary["volume_B"]) == (4e9, 12e9)
    assert summary["time_s"] == summary["bound_s"] == 9.0


def test_a_router_has_a_seed(command: Simctl) -> None:
    def time(skew: str) -> float:
        line = ("run", "--algo", "linear_gatherv", "--p", "5", "--skew", skew, "--topology", "ring")
        return float(json.loads(command(*line, "--format", "json").stdout)["summary"]["time_s"])

    assert time("zipf:1.2") == time("zipf:1.2,seed=0") != time("zipf:1.2,seed=4")


def test_a_tolerance_reports_its_error(command: Simctl) -> None:
    line = ("run", "--algo", "posted_all_to_allv", "--p", "8", "--skew", "zipf:1.2")
    rules = ("--topology", "star", "--sharing", "fair:tolerance=1e-2")
    text = command(*line, *rules).stdout
    assert "Messages end at multiples of" in text
    report = json.loads(command(*line, *rules, "--format", "json").stdout)
    assert 0 < report["grid_error_s"] < report["summary"]["time_s"] / 20
    assert report["summary"]["grid_error_s"] == report["grid_error_s"]
    exact = json.loads(command(*line, *rules[:-1], "fair", "--format", "json").stdout)
    assert "grid_s" not in exact
    assert "grid_error_s" not in exact["summary"]
    sweep = ("sweep", *line[1:], *rules)
    assert "off by" in command(*sweep).stdout
    [row] = rows_of(command(*sweep, "--format", "csv").stdout)
    assert float(row["grid_error_s"]) == report["grid_error_s"]
    assert "off by" not in command(*sweep[:-1], "fair").stdout


def test_a_tolerance_reports_its_error_for_groups(command: Simctl) -> None:
    line = ("run", "--algo", "ring", "--p", "4", "--groups", "0,1;2,3", "--topology", "star")
    rules = ("--sharing", "fair:tolerance=1e-2")
    assert "Messages end at multiples of " in command(*line, *rules).stdout
    report = json.loads(command(*line, *rules, "--format", "json").stdout)
    assert report["grid_error_s"] >= report["grid_s"]
    assert [call["grid_error_s"] for call in report["calls"]] == [report["grid_error_s"]] * 2
    assert report["calls"][0]["alone_grid_error_s"] > 0
    assert "grid" not in command(*line, "--sharing", "fair", "--format", "json").stdout


def test_a_barrier_has_no_busiest_links(command: Simctl) -> None:
    text = command("run", "--algo", "central_barrier", "--p", "4", "--topology", "star").stdout
    assert "\n\ncentral_barrier, 4 ranks, 64MiB on star: 4us" in text
    assert "busiest" not in text


def test_options_are_parsed_to_one_value() -> None:
    options = MachineOptions("star", "3GB/s", "4us", "5us", "2GB/s", "1,0")
    linked = find("star").with_links(bandwidth=3e9, latency=4e-6, gap=5e-6)
    assert options.blueprint == replace(linked, reduction=5e-10, placement=(1, 0))


@pytest.mark.parametrize("option", ["bandwidth=3GB/s", "latency=4us", "gap=5us"])
def test_a_figure_is_not_given_twice(option: str) -> None:
    options = MachineOptions(f"star:{option}", bandwidth="1GB/s", latency="1us", gap="1us")
    assert refusal(lambda: options.blueprint) == (
        f"{option.partition('=')[0]} is given twice: as an option of star, and as "
        f"--{option.partition('=')[0]}"
    )


@each_case("name", ["bandwidth", "latency", "gap", "reduction", "placement"])
def test_without_a_machine_its_options_are_refused(name: str) -> None:
    options = MachineOptions(**{name: "1GB/s"})
    message = f"--{name} 1GB/s: give --topology as well, or leave it out"
    assert refusal(lambda: options.optional_blueprint) == message
    assert MachineOptions().optional_blueprint is None


@each_case(
    ("options", "message"),
    [
        (MachineOptions("dgx1", bandwidth="1GB/s"), "dgx1 has links of its own"),
        (MachineOptions("star", latency="fast"), "fast"),
        (MachineOptions("star", placement="cyclic"), "'cyclic' is no placement"),
        (MachineOptions("stra"), "no topology or file 'stra'"),
    ],
)
def test_text_that_means_nothing_is_refused(options: MachineOptions, message: str) -> None:
    assert message in refusal(lambda: options.blueprint)


@pytest.mark.parametrize("sharing", ["fifo", "fair"])
def test_the_busiest_links_are_the_same_with_and_without_symmetry(
    command: Simctl, sharing: str
) -> None:
    run = "run --algo ring --p 48 --topology nodes:per_node=3 --reduction 100GB/s --format json"
    reports = [
        json.loads(command(*run.split(), "--sharing", sharing, "--symmetry", symmetry).stdout)
        for symmetry in ("auto", "off")
    ]
    assert [report["ranks_simulated"] for report in reports] == [3, 48]
    for part in ("busiest", "critical_path_s"):
        columns = [rounded(report[part]) for report in reports]
        assert columns[0] == columns[1]


def rounded(part: object) -> object:
    """Numbers of a report up to rounding."""
    if isinstance(part, list):
        return [rounded(each) for each in part]
    if isinstance(part, dict):
        return {name: rounded(value) for name, value in part.items()}
    return f"{part:.9g}" if isinstance(part, float) else part
