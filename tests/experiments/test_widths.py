"""Lines for people are no wider than a screen."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Simctl = Callable[..., "subprocess.CompletedProcess[str]"]
LOG = Path(__file__).parents[2] / "examples" / "alps_gh200_p16_aws-ofi-1.9.2.log"


@pytest.mark.parametrize(
    "command",
    [
        f"diagnose {LOG}",
        "recommend --topology hgx_h100:nodes=4 --size 16KiB",
        "list machines",
        "topo show hgx_h100",
        "train --model resnet50 --p 2",
        "report {folder}/sweep.csv --out {folder}/sweep.md",
    ],
)
def test_no_line_is_wider_than_120_characters(command: str, simctl: Simctl, tmp_path: Path) -> None:
    if command.startswith("report"):
        simctl("sweep", "--topology", "hgx_h100", "--out", tmp_path / "sweep.csv")
    done = simctl(*command.format(folder=tmp_path).split())
    assert done.stdout, done.stderr
    assert [line for line in done.stdout.splitlines() if len(line) > 120] == []
