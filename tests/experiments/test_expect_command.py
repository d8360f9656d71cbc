"""`simctl expect`, and one measured number in `simctl diagnose`."""

import json
import re

import pytest

from csv_texts import rows_of
from grouped_cases import each_case
from simctl_process import Simctl

MACHINE = ("--topology", "hgx_h100:nodes=2")
SIZES = "1KiB,1MiB,1GiB"


def test_the_numbers_are_those_of_run(simctl: Simctl) -> None:
    text = simctl("expect", *MACHINE, "--size", SIZES, "--format", "csv").stdout
    for row in rows_of(text):
        options = ("--library", "nccl", "--size", f"{row['size_B']}B", "--format", "json")
        (run,) = [json.loads(simctl("run", *MACHINE, *options).stdout)["summary"]]
        for name in ("expected_s", "low_s", "high_s"):
            assert float(row[name]) == pytest.approx(run[name], rel=1e-9)


@each_case(
    ("machine", "library", "version", "algorithm"),
    [
        ("hgx_h100", "nccl", "2.16", "double_tree"),
        ("hgx_h100", "nccl", "2.17.1", "nvls"),
        ("hgx_h100:nodes=2", "nccl", "2.17", "double_tree"),
        ("hgx_h100:nodes=2", "nccl", "2.18.5", "nvls_tree"),
        ("nodes:per_node=1", "openmpi", "4.0.5", "ring"),
        ("nodes:per_node=1", "openmpi", "4.1", "halving_doubling"),
    ],
)
def test_a_version_decides_what_runs(
    simctl: Simctl, machine: str, library: str, version: str, algorithm: str
) -> None:
    options = "--library", library, "--library-version", version
    size = "--size", "1GiB" if library == "nccl" else "1MiB"
    text = simctl("expect", "--topology", machine, *options, *size, "--format", "csv").stdout
    [row] = rows_of(text)
    assert (row["library"], row["version"]) == (library, version)
    assert row["algorithm"].partition(":")[0].partition(",")[0] == algorithm


def test_the_version_is_said(simctl: Simctl) -> None:
    size = "--topology", "hgx_h100", "--size", "1GiB"
    done = simctl("expect", *size, "--library-version", "2.16")
    assert "Expected: all_reduce of nccl 2.16, 8 ranks" in done.stdout
    done = simctl("diagnose", *size, "--busbw", "370GB/s", "--library-version", "2.16")
    assert "that nccl 2.16 on hgx_h100 should give" in done.stdout


def test_a_table_has_bandwidths_and_their_intervals(simctl: Simctl) -> None:
    done = simctl("expect", "all_gather", "--topology", "b200", "--size", SIZES, "--level", "0.9")
    assert done.returncode == 0
    assert "Expected: all_gather of nccl, 8 ranks on b200" in done.stdout
    assert "90% of runs" in done.stdout


def test_prometheus_reads_the_lines(simctl: Simctl) -> None:
    done = simctl("expect", *MACHINE, "--size", SIZES, "--format", "prometheus")
    lines = done.stdout.splitlines()
    pattern = re.compile(r'[a-z_]+\{([a-z_A-Z]+="[^"]*",?)+\} [0-9.e+-]+')
    assert len([line for line in lines if pattern.fullmatch(line)]) == 6 * 3
    assert len([line for line in lines if line.startswith("# TYPE ")]) == 6
    assert all(line.startswith("# ") or pattern.fullmatch(line) for line in lines)


@each_case(
    ("busbw", "code", "words"),
    [
        ("450GB/s", 0, "as expected"),
        ("390GB/s", 0, "outside the interval"),
        ("300GB/s", 1, "below expectation"),
    ],
)
def test_one_number_is_enough(simctl: Simctl, busbw: str, code: int, words: str) -> None:
    done = simctl("diagnose", *MACHINE, "--size", "8GiB", "--busbw", busbw)
    assert done.returncode == code
    assert words in done.stdout
