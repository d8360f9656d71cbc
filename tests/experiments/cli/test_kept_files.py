"""No command overwrites a file that it reads."""

from pathlib import Path

import pytest

from experiments.cli.command_classes import check_kept
from experiments.commands.report import ReportPage
from experiments.commands.run import CollectiveRun
from experiments.commands.sweep import Sweep
from simctl_process import Simctl
from topologies.errors import InputError


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
    with pytest.raises(InputError, match=r"log\.md: the command reads this file"):
        check_kept(request)


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    file, link = tmp_path / "log.csv", tmp_path / "link.md"
    file.write_text("size time")
    link.symlink_to(file)
    with pytest.raises(InputError, match="the command reads this file"):
        check_kept(ReportPage(files=[file], out=link))


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
