"""Options of commands, patterns and machines; files that a command reads are never written."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from csv_texts import rows_of
from experiments.cli.command_classes import check_kept
from experiments.commands.report import ReportPage
from experiments.commands.run import CollectiveRun
from experiments.commands.sweep import Sweep
from experiments.options.completion import (
    BEFORE,
    algorithm_names,
    completer,
    machine_names,
    measured_names,
    profile_names,
)
from experiments.options.machine_options import MachineOptions
from experiments.options.training_options import TrainingOptions
from grouped_cases import each_case
from refusals import refusal
from simctl_process import Simctl, mistake
from topologies.catalogue import find


def test_all_options_with_a_value_are_stored_with_a_result() -> None:
    options = TrainingOptions(p="2,4", strategy="ddp", seed=3, fail="rank=1,step=2,restart=1s")
    assert options.parameters == {
        "model": "resnet50",
        "strategy": "ddp",
        "p": "2,4",
        "fail": "rank=1,step=2,restart=1s",
        "seed": 3,
        "detail": "auto",
    }


def test_what_an_answer_is_not_of_is_not_stored_with_it() -> None:
    files = {"out": Path("a.csv"), "plot": Path("a.png"), "report": Path("a.md")}
    how = {"jobs": "2", "resume": True, "force": True, "format": "csv", "metric": "time"}
    asked = Sweep(algo="ring", p="2")
    assert replace(asked, **files, **how).parameters == asked.parameters  # type: ignore[arg-type]


def test_what_the_user_leaves_out_is_stored_as_the_command_takes_it() -> None:
    shape = {"topology": "star", "bandwidth": "50GB/s", "latency": "1us", "gap": "0us"}
    assert (
        Sweep().parameters.items()
        >= (shape | {"algo": "ring", "p": "2..64", "size": "64MiB"}).items()
    )
    slow = Sweep(topology="star:latency=5us", bandwidth="1GB/s").parameters
    assert (slow.get("latency"), slow["bandwidth"], slow["gap"]) == (None, "1GB/s", "0us")
    of_profile = Sweep(profile="mn5_acc").parameters
    assert of_profile["topology"] == "nodes:per_node=4"
    assert "bandwidth" not in of_profile
    of_machine = Sweep(topology="hgx_h100", latency=None).parameters
    assert (of_machine["p"], "latency" in of_machine) == ("8", False)


def test_completion_knows_algorithms_and_shapes() -> None:
    assert completer(algorithm_names)("ring,tre") == [
        "ring,tree_barrier",
        "ring,tree",
        "ring,tree_reduce",
        "ring,tree_broadcast",
    ]
    assert "star" in completer(machine_names)("s")


def test_the_last_of_a_list_is_completed() -> None:
    assert completer(lambda: ["ring", "rings", "tree"])("tree,ri") == ["tree,ring", "tree,rings"]
    assert completer(lambda: ["ring"])("x") == []


def test_what_is_measured_is_the_librarys_and_ours() -> None:
    assert {"all_reduce", "barrier", "ring"} <= set(measured_names())
    assert "leonardo_cpu" in profile_names()


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("run --algo ring_red", ["ring_reduce_scatter", "ring_reduce_scatterv"]),
        ("validate --algo ring_red", ["ring_reduce_scatter", "ring_reduce_scatterv"]),
        ("sweep --algo tree,ring_red", ["tree,ring_reduce_scatter", "tree,ring_reduce_scatterv"]),
        ("sweep --topology hgx", ["hgx_h100", "hgx_h800", "hgx_h200", "hgx_b300"]),
        ("sweep --placement r", ["round-robin"]),
        ("run --profile leo", ["leonardo_cpu"]),
        ("validate x.csv --profile leo", ["leonardo_cpu"]),
        ("train --model bert", ["bert_base", "bert_large"]),
        ("train --strategy d", ["ddp", "dp"]),
        ("topo show hgx", ["hgx_h100", "hgx_h800", "hgx_h200", "hgx_b300"]),
        ("topo import hgx", ["hgx_h100", "hgx_h800", "hgx_h200", "hgx_b300"]),
        ("measure --collective barrier,all_g", ["barrier,all_gather"]),
        ("measure --library g", ["gloo"]),
        ("calibrate --library f", ["fujitsu"]),
        ("calibrate --topology hgx", ["hgx_h100", "hgx_h800", "hgx_h200", "hgx_b300"]),
        ("train --strategy ddp:bu", ["ddp:bucket=25MiB"]),
        ("train --strategy ssgd,ddp:bucket=1MiB,ov", ["ssgd,ddp:bucket=1MiB,overlap=yes"]),
        ("train --strategy ddp : bu", ["bucket=25MiB"]),
        ("train --strategy ddp : bucket = 1MiB,ov", ["1MiB,overlap=yes"]),
        ("train --strategy ssp :", ["server=gpu", "update=0s", "server_memory=0B/s", "bound=3"]),
        ("sweep --topology = hgx_h100 : no", ["nodes=2", "nodes_per_leaf=4"]),
        ("sweep --topology = hgx_h2", ["hgx_h200"]),
        ("topo show nobody : no", []),
        ("run --algo nvls :", ["segments=8"]),
        ("train --model bert_large : la", ["layers=24"]),
    ],
)
def test_a_shell_completes(
    line: str,
    completed: list[str],
    simctl: Simctl,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = f"simctl {line}"
    for name, value in {"_SIMCTL_COMPLETE": "complete_bash", "COMP_WORDS": words}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    monkeypatch.setenv(BEFORE, "")  # simctl writes it, and no later test may read it.
    assert simctl().stdout.split() == completed


def test_a_value_that_an_option_does_not_have_is_named(simctl: Simctl) -> None:
    assert mistake(simctl("sweep", "--format", "xml")) == (
        "simctl: Invalid value for '--format': 'xml' is not one of 'table', 'wide', 'csv', 'json'."
    )


@pytest.mark.parametrize("case", ["a log", "a file with options", "a file of several", "measured"])
def test_a_file_that_is_read_is_not_written(case: str, tmp_path: Path) -> None:
    file = tmp_path / "log.md"
    request = {
        "a log": ReportPage(files=[file], out=file),
        "a file with options": CollectiveRun(topology=f"{file}:nodes=2", report=file),
        "a file of several": Sweep(algo_file=["a.xml", str(file)], out=file),
        "measured": Sweep(measured=file, plot=file),
    }[case]
    check_kept(request)  # the file does not exist yet
    file.write_text("size time")
    assert "log.md: the command reads this file" in refusal(check_kept, request)


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    file, link = tmp_path / "log.csv", tmp_path / "link.md"
    file.write_text("size time")
    link.symlink_to(file)
    assert "the command reads this file" in refusal(check_kept, ReportPage(files=[file], out=link))


def test_a_file_may_be_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ring", "x.csv"):
        Path(name).write_text("")
        check_kept(Sweep(algo="ring", out=Path(name), size="\0"))


def test_a_report_does_not_replace_its_log(simctl: Simctl, tmp_path: Path) -> None:
    log = tmp_path / "log.md"
    log.write_text("size time")
    done = simctl("report", log, "--out", log)
    assert (done.returncode, log.read_text()) == (2, "size time")
    assert done.stderr.startswith(f"simctl: --out {log}: ")


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
