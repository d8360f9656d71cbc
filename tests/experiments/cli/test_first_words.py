"""`simctl` alone names commands to try first, and they run."""

import re
import shlex
from pathlib import Path

import pytest

from experiments.cli import FIRST_WORDS
from simctl_process import Simctl

ROOT = Path(__file__).parents[3]
LOG = ROOT / "examples" / "h100_10_nodes_all_reduce.csv"
SLOW = "  simctl recommend", "  simctl run"


def test_simctl_alone_says_what_to_try_first(simctl: Simctl) -> None:
    done = simctl()
    assert done.returncode == 0
    assert done.stdout.rstrip() == FIRST_WORDS
    assert max(map(len, FIRST_WORDS.splitlines())) <= 100


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(line, marks=[pytest.mark.exhaustive] * line.startswith(SLOW))
        for line in FIRST_WORDS.splitlines()
        if line.startswith("  simctl ")
    ],
)
def test_what_to_try_first_runs(command: str, simctl: Simctl) -> None:
    words = re.split(r"  +", command.strip())[0].replace("YOUR_LOG", str(LOG))
    done = simctl(*shlex.split(words)[1:])
    assert done.returncode == 0, done.stderr
