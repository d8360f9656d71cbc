"""Options of commands, and files that a command reads are never written."""

from pathlib import Path

import pytest

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
from refusals import refusal
from simctl_process import Simctl, mistake


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
