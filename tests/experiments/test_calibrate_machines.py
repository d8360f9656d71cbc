"""Runs of NCCL on a machine whose NICs are known: `--topology` names the machine."""

import subprocess
from pathlib import Path

import pytest

from csv_texts import rows_of
from experiments.commands.calibrate import Calibrate
from experiments.profiles import read
from simctl_process import Simctl

HEADER = "collective,algorithm,ranks,nodes,size_bytes,time_us,library\n"
MACHINE = "mn5_acc:nodes=4"
NIC = 20e9
"""Bytes a second of each of the four NICs of a node."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A ring that takes all four NICs of each of four nodes."""
    path = tmp_path_factory.mktemp("machine") / "runs.csv"
    sizes = [4**k for k in range(5, 16, 2)]
    times = [40 + size * 2 * 15 / 16 / (4 * NIC) * 1e6 for size in sizes]
    rows = zip(sizes, times, strict=True)
    lines = [f"all_reduce,ring,16,4,{size},{time},NCCL 2.20" for size, time in rows]
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def profile(runs: str) -> str:
    path = Path(runs).with_name("mine.yaml")
    request = Calibrate(files=[Path(runs)], topology=MACHINE, out=path, format="csv")
    assert request.run() == 0
    return str(path)


def rows(answer: "subprocess.CompletedProcess[str]") -> list[dict[str, str]]:
    assert answer.returncode == 0, answer.stderr
    return rows_of(answer.stdout)


def test_a_nic_is_as_fast_as_its_share_of_the_ring(profile: str) -> None:
    estimate = read(Path(profile)).estimates["Simple ib 1/β"]
    assert 1 / estimate.value == pytest.approx(NIC, rel=0.1)


def test_judge_and_diagnose_expect_rings_over_all_nics(
    simctl: Simctl, profile: str, runs: str
) -> None:
    judged = rows(simctl("validate", runs, "--profile", profile, "--held-out", "--format", "csv"))
    assert {row["algorithm"] for row in judged} == {"rings"}
    assert abs(float(judged[-1]["error"])) < 0.1
    largest = rows(simctl("diagnose", runs, "--profile", profile, "--format", "csv"))[-1]
    assert float(largest["expected_s"]) == pytest.approx(float(largest["time_s"]), rel=0.1)


def test_rings_are_what_was_measured(simctl: Simctl, profile: str) -> None:
    words = "--p", "16", "--size", "1MiB", "--profile", profile, "--format", "csv"
    (row,) = rows(simctl("sweep", "--algo", "rings", *words))
    assert row["unsure"] == ""


def test_a_log_is_compared_with_rings(simctl: Simctl, runs: str) -> None:
    words = "--library", "nccl", "--topology", MACHINE, "--format", "csv"
    names = {row["algorithm"] for row in rows(simctl("validate", runs, *words))}
    assert names == {"rings"}
