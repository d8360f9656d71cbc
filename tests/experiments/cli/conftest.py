"""The command line in this process and in one of its own, and a profile in a file."""

import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from simctl_process import Simctl, simctl
from sure_profile import SURE


@pytest.fixture(params=["here", pytest.param("alone", marks=pytest.mark.exhaustive)])
def command(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Simctl]:
    """`simctl` in this process, where all is imported, or in one of its own."""
    from experiments.cli import main

    def here(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd or Path.cwd())
        monkeypatch.setattr(sys, "argv", ["simctl", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        assert isinstance(stop.value.code, int | None)
        return subprocess.CompletedProcess(arguments, stop.value.code or 0, *capsys.readouterr())

    logger, level = logging.getLogger("simctl"), logging.getLogger("simctl").level
    monkeypatch.setattr("warnings.showwarning", warnings.showwarning)
    yield here if request.param == "here" else simctl
    logger.setLevel(level)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The path of a profile that says how sure it is."""
    path = tmp_path / "mine.yaml"
    path.write_text(SURE)
    return str(path)
