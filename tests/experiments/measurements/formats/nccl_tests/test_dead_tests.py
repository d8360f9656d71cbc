"""Tests that died are failures, whatever else the log holds."""

from pathlib import Path

import pytest

from experiments.measurements import Failure, read, read_all
from experiments.measurements.curve import NO_FOOTER, Unmeasured
from experiments.measurements.formats.osu.osu_reader import parse_osu
from grouped_cases import each_case
from nccl_logs import FOOTER, HEADER, log, parse, preamble, rows, shaped
from topologies.errors import InputError

NCCL = "node1: Test NCCL failure common.cu:961 'unhandled system error'"
TIME = (
    "slurmstepd: error: *** STEP 7.0 ON node1 CANCELLED AT 2025-02-06T19:33:33 DUE TO TIME LIMIT "
    "***"
)
BARE = "\n".join(preamble()) + "\n"
LAUNCHERS = (
    "srun: error: node1: tasks 0-3: Killed",
    "=>> PBS: job killed: walltime 3600 exceeded limit",
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    "Killed",
)
ANNOUNCED = "\n".join(preamble()[:-4]) + "\n"
"""A test that hangs before its table."""


def test_a_whole_log_has_no_failure() -> None:
    assert parse(log() + TIME + "\n").failures == ()
    assert parse(log() + log()).failures == ()


def test_a_table_without_rows_is_one() -> None:
    assert parse(BARE + log()).failures == (
        Failure("test died", "x.log:11", "all_reduce has a table header and no rows"),
    )


@each_case(
    "line", [NCCL, TIME, "srun: error: node1: tasks 0-3: Exited with exit code 3", *LAUNCHERS]
)
def test_a_test_that_died_between_rows_is_one(line: str) -> None:
    cut = "\n".join([*preamble(), *rows()[:2], line]) + "\n"
    (failure,) = parse(cut + log()).failures
    assert failure == (
        "test died",
        "x.log:11",
        f"all_reduce ended after 1KiB: {' '.join(line.split())}",
    )
    assert parse(cut).failures == (failure,)


def test_a_test_that_stops_before_the_next_one_is_one() -> None:
    cut = "\n".join([*preamble(), *rows()[:2]]) + "\n"
    assert [failure.text for failure in parse(cut + log()).failures] == [
        "all_reduce ended after 1KiB of 16MiB, and the next test follows"
    ]
    assert [failure.text for failure in parse(cut).failures] == [
        "all_reduce ended after 1KiB of 16MiB, and the log ends there"
    ]


def test_a_test_that_reached_its_last_size_has_a_note_and_no_failure() -> None:
    whole = "\n".join([*preamble(), *rows()]) + "\n"
    assert parse(whole + log()).failures == ()
    measurements = parse(whole)
    assert measurements.failures == ()
    assert NO_FOOTER in measurements.curves[0].notes


def test_a_smaller_largest_size_of_the_benchmark_is_no_failure() -> None:
    head = [
        *preamble()[:2],
        "# Reducing maxBytes to 1024 due to memory limitation",
        *preamble()[2:],
    ]
    assert parse("\n".join([*head, *rows()[:2]]) + "\n").failures == ()


@pytest.mark.parametrize("text", [log() + ANNOUNCED, ANNOUNCED + log()])
def test_a_test_that_hangs_before_its_table_is_one(text: str) -> None:
    measurements = parse(text)
    assert [failure.text for failure in measurements.failures] == [
        "all_reduce ended before its table"
    ]
    assert [curve.ranks for curve in measurements.curves] == [4]


def test_a_log_that_ends_before_any_table_is_a_failure() -> None:
    with pytest.raises(Unmeasured) as raised:
        parse(ANNOUNCED)
    assert [failure.text for failure in raised.value.failures] == [
        "all_reduce ended before its table"
    ]


def test_a_header_that_is_lost_is_no_failure() -> None:
    lost = log().replace(HEADER + "\n", "")
    assert parse(log() + lost).failures == ()


def test_a_test_that_died_before_its_table_is_one_and_spoils_no_other() -> None:
    measurements = parse("\n".join([*preamble()[:-4], NCCL]) + "\n" + log())
    assert [failure.text for failure in measurements.failures] == [
        f"all_reduce ended before its table: {NCCL}"
    ]
    assert [curve.ranks for curve in measurements.curves] == [4]


def test_a_test_that_says_nothing_but_its_failure_is_one() -> None:
    for text in (log() + NCCL + "\n" + log(), NCCL + "\n" + log()):
        (failure,) = parse(text).failures
        assert failure.text == f"a test ended before its table: {NCCL}"


def test_a_test_after_one_that_died_has_its_own_name_and_settings() -> None:
    died = "\n".join([*preamble()[:-4], NCCL]) + "\n"
    command = "NCCL_PROTO=LL srun ./build/all_gather_perf\n"
    after = log(*shaped(0.75, "float    none      -1")).replace(
        "# Collective test starting: all_reduce_perf\n", ""
    )
    (curve,) = parse(died + command + after).curves
    assert (curve.collective, curve.protocol) == ("all_gather", "LL")


def test_wrong_results_end_no_test() -> None:
    text = (
        log().replace("0 OK", "16 FAILED")
        + "srun: error: node1: tasks 0-3: Exited with exit code 1\n"
    )
    assert parse(text).failures == ()


def test_osu_may_die_too() -> None:
    text = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n"
    measurements = parse_osu(text + text + "4                       1.73\n", "x.out")
    assert [(failure.kind, failure.source) for failure in measurements.failures] == [
        ("test died", "x.out:2")
    ]


def test_a_table_without_rows_is_told_once_where_failures_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(BARE + log())
    assert read_all([path]).skipped == (f"{path}: 1 table without rows: line 11",)
    measurements = read_all([path], failed=True)
    assert (measurements.skipped, len(measurements.failures)) == ((), 1)


def test_a_log_of_failures_alone_is_a_mistake_unless_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(BARE)
    with pytest.raises(InputError, match="a table header with no rows below"):
        read(path)
    with pytest.raises(InputError, match="a table header with no rows below"):
        read_all([path])
    for where in (path, tmp_path):
        measurements = read_all([where], failed=True)
        assert (measurements.curves, len(measurements.failures)) == ((), 1)
        assert measurements.skipped == (), "the failure says it"
    (tmp_path / "whole.log").write_text(log())
    assert len(read_all([tmp_path]).failures) == 1
    path.write_text("\n".join(["no table", *FOOTER]))
    with pytest.raises(InputError):
        read_all([path], failed=True)
