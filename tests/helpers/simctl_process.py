"""The command line in a process of its own."""

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
