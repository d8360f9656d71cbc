"""Processes for which the permissions of files count, whoever runs the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_DROP = """
import ctypes, os, sys
DROP_FROM_BOUNDING_SET = 24
# With CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH root reads and writes everything.
for capability in (1, 2):
    ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def run(
    folder: Path, code: str, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Python code in a process of its own in `folder`. Skips the test where root cannot be bound by
    permissions."""
    _check(folder)
    return _run(
        folder, f"import sys; sys.path[:] = {sys.path!r}\n{code}", *arguments, **environment
    )


def _check(folder: Path) -> None:
    closed = folder / "not to be read"
    closed.write_text("")
    closed.chmod(0)
    done = _run(folder, "open('not to be read').close()")
    closed.unlink()
    if done.returncode == 0:
        pytest.skip("permissions do not bind this user, and the privilege cannot be dropped")


def _run(
    folder: Path, code: str, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _DROP, "-c", code, *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
