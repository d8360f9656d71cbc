"""Names of files and what logs say reach neither the terminal nor a spreadsheet as commands."""

import shutil
from pathlib import Path

import pytest

from simctl_process import Simctl

LOG = Path(__file__).parents[3] / "examples" / "h100_10_nodes_all_reduce.csv"
NAME = "=\x1b]0;title\x07.csv"
SHOWN = "=\\x1b]0;title\\x07.csv"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a log of a hostile name."""
    shutil.copyfile(LOG, tmp_path / NAME)
    return tmp_path


@pytest.mark.parametrize("command_name", ["diagnose", "validate"])
def test_a_name_of_a_file_steers_no_terminal(
    command_name: str, folder: Path, command: Simctl
) -> None:
    done = command(command_name, NAME, cwd=folder)
    assert SHOWN in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_a_name_of_a_file_is_no_formula(folder: Path, command: Simctl) -> None:
    first, *lines = command("diagnose", NAME, "--format", "csv", cwd=folder).stdout.splitlines()
    assert first.startswith("source,")
    assert all(line.startswith(f"'{SHOWN},") for line in lines)


def test_a_mistake_is_visible(command: Simctl, tmp_path: Path) -> None:
    for words in (
        ("sweep", "\x1b[2J"),
        ("diagnose", "\x9b2J"),
        ("topo", "show", "\x1bx:\u202ea=1"),
    ):
        done = command(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.removesuffix("\n").isprintable()
