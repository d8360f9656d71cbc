"""The command line in a process of its own, and what it says of a mistake."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Simctl = Callable[..., "subprocess.CompletedProcess[str]"]


def simctl(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    script = "from experiments.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ,
        check=False,
    )


def mistake(done: "subprocess.CompletedProcess[str]") -> str:
    """The one line with which a command is refused, without a note in front of it."""
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (2, "", 1), done.stderr
    return lines[0]
