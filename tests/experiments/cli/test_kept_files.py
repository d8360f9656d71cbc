"""No command overwrites a file that it reads."""

from pathlib import Path

import pytest

from experiments.cli.kept_files import check_kept
from simctl_process import Simctl
from topologies.errors import InputError

LINES = {
    "a log": ["report", "{}", "--out", "{}"],
    "an option in one word": ["judge", "h100", "{}", "--report={}"],
    "a file with options": ["run", "--topology", "{}:nodes=2", "--report", "{}"],
    "a file of several": ["sweep", "--algo-file", "a.xml,{}", "--out", "{}"],
    "a file of an option": ["sweep", "--out", "{}", "--measured={}"],
}


@pytest.mark.parametrize("case", LINES)
def test_a_file_that_is_read_is_not_written(case: str, tmp_path: Path) -> None:
    file = tmp_path / "log.md"
    words = [word.format(file) for word in LINES[case]]
    check_kept(words)  # the file does not exist yet
    file.write_text("size time")
    with pytest.raises(InputError, match=r"log\.md: the command reads this file"):
        check_kept(words)


def test_a_link_to_a_file_is_that_file(tmp_path: Path) -> None:
    file, link = tmp_path / "log.csv", tmp_path / "link.md"
    file.write_text("size time")
    link.symlink_to(file)
    with pytest.raises(InputError, match="the command reads this file"):
        check_kept(["report", str(file), "--out", str(link)])


def test_a_file_may_be_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ring", "x.csv"):
        Path(name).write_text("")
        check_kept(["sweep", "--algo", "ring", "--out", name, "--size", "\0"])


def test_a_report_does_not_replace_its_log(simctl: Simctl, tmp_path: Path) -> None:
    log = tmp_path / "log.md"
    log.write_text("size time")
    done = simctl("report", log, "--out", log)
    assert (done.returncode, log.read_text()) == (2, "size time")
    assert done.stderr.startswith(f"simctl: --out {log}: ")
