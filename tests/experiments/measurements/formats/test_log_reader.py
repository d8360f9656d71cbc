"""Logs of nccl-tests: tables, and tests that died."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.measurements import Failure, Measurements, Point, read, read_all
from experiments.measurements.curve import NO_FOOTER, Unmeasured
from experiments.measurements.formats.osu_reader import parse_osu
from grouped_cases import each_case
from nccl_logs import (
    FOOTER,
    HEADER,
    IN_PLACE,
    INFO,
    OLD_HEADER,
    PLACES,
    SIZES,
    TIMES,
    WHOLE,
    cell,
    expected,
    log,
    only,
    parse,
    preamble,
    row,
    rows,
    same,
    shaped,
    timed,
)
from refusals import refusal
from topologies.errors import InputError

# What a whole log says


def test_a_plain_log_is_one_curve() -> None:
    assert parse(log()) == Measurements((WHOLE,), ())


LINES = log().splitlines()
PREFIXES = (
    "[1,0]<stdout>:",
    "[1,0]<stdout>: ",
    " 0: ",
    "node1: ",
    "2024-05-01T10:00:00.123Z ",
    "[12:00:01] worker-0 | ",
    "> ",
)


@each_case(
    "text",
    [
        *("".join(f"{prefix}{line}\n" for line in LINES) for prefix in PREFIXES),
        "".join(f"2024-05-01 10:{at:02d}:07,{at * 37} {line}\n" for at, line in enumerate(LINES)),
        "\x1b[1;32m" + log().replace("\n", "\x1b[0m\r\n\x1b[32m"),
        re.sub("[ \t]+", " ", log()),
        "\n".join(map(str.strip, LINES)),
    ],
)
def test_prefixes_colours_and_blanks_do_no_harm(text: str) -> None:
    same(text)


def test_a_byte_order_mark_is_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"\xef\xbb\xbf" + log().encode())
    assert read(path).curves[0].points == WHOLE.points


def test_lines_of_other_programs_between_the_rows_are_passed_over() -> None:
    ucx = (
        "[1622510355.903851] [node1:16747:0]    ucp_context.c:1437 UCX  WARN  UCP version is "
        "incompatible"
    )
    body = [
        line
        for entry in rows()
        for line in (entry, INFO, ucx, "", "node2:7:9 [1] transport.cc:88 NCCL WARN retry 3")
    ]
    same(log(*body))


def test_out_of_place_only() -> None:
    header = HEADER.replace("     time   algbw   busbw #wrong", "", 1)
    text = log(*(row(size, us) for size, us in zip(SIZES, TIMES, strict=True))).replace(
        HEADER, header
    )
    assert only(text).points == WHOLE.points
    assert only(text).in_place == ()


def test_a_banner_may_put_in_place_first() -> None:
    text = log().replace(
        PLACES,
        PLACES.replace("in-place", "@")
        .replace("out-of-place", "in-place")
        .replace("@", "out-of-place"),
    )
    assert (only(text).points, only(text).in_place) == (WHOLE.in_place, WHOLE.points)


def test_columns_are_found_by_name_not_by_position() -> None:
    header = "#           timestamp " + HEADER[1:].replace(
        "#wrong", "#wrong  i_min   i_cv%"
    ).replace("  count", "count  ")
    body = []
    for entry in rows():
        first, second = entry[:-31], entry[-31:]
        body.append(f"2025-10-14 01:02:03 {first}  11.11    2.5{second}  12.22    3.5")
    curve = only(log(*body).replace(HEADER, header))
    assert curve.points == tuple(
        replace(point, cv=0.025, min_s=11.11 / 1e6) for point in WHOLE.points
    )
    assert {(point.cv, point.min_s) for point in curve.in_place} == {(0.035, 12.22 / 1e6)}


def test_old_versions_print_errors_and_no_root() -> None:
    body = [row(8, "41.36", "40.92", start=" float     sum").replace("      0", "  2e-07")]
    body += [
        row(33554432, "3319.4", "3318.2", start=" float     sum").replace("      0", "  1e-06")
    ]
    body = [line.replace("      float", "   float") for line in body]
    curve = only(log(*body).replace(HEADER, OLD_HEADER))
    assert curve.points == (timed(8, 41.36, None), timed(33554432, 3319.4, None))
    assert curve.in_place[-1] == timed(33554432, 3318.2, None)


def test_the_oldest_versions_print_milliseconds() -> None:
    text = (
        "#                                                 out-of-place                    "
        "in-place\n"
        "#      bytes             N    type      op     time  algbw  busbw      res     time  "
        "algbw  busbw      res\n"
        "    10000000      10000000    char     sum    1.250   8.00  12.00    0e+00    1.600   "
        "6.25   9.38    0e+00\n"
    )
    curve = only(text)
    assert (curve.collective, curve.ranks) == ("all_reduce", None)
    assert (curve.points, curve.in_place) == ((Point(10**7, 1.25e-3),), (Point(10**7, 1.6e-3),))


def test_a_blank_redop_shifts_no_column() -> None:
    body = [entry.replace("sum", "   ") for entry in rows()]
    assert only(log(*body, name="broadcast")).points == WHOLE.points


def test_units_may_stand_in_the_header() -> None:
    header = (
        "# size (B) count (elements) type redop root time (us) algbw (GB/s) busbw (GB/s) #wrong"
    )
    assert only(f"{header}\n131072 32768 float sum -1 40.57 3.23 4.85 0\n").points == (
        Point(131072, 40.57 / 1e6, 0),
    )


def test_a_table_may_have_no_count_and_type() -> None:
    assert only("# size time algbw busbw\n131072 40.57 3.23 4.85\n").points == (
        Point(131072, 40.57 / 1e6),
    )


def test_in_place_only() -> None:
    header = HEADER.replace("     time   algbw   busbw #wrong", "", 1)
    text = log(*(row(size, us) for size, us in zip(SIZES, IN_PLACE, strict=True))).replace(
        HEADER, header
    )
    curve = only(text.replace(PLACES, "#                          in-place"))
    assert (curve.points, curve.in_place) == ((), WHOLE.in_place)


def test_wrong_results_are_kept_and_noted() -> None:
    body = rows()
    body[1] = row(1024, "21.92", "21.05", wrong="208752")
    curve = only(log(*body).replace("0 OK", "16 FAILED"))
    assert curve.points[1] == timed(1024, 21.92, 208752)
    assert "Out of bounds values : 16 FAILED" in curve.notes
    assert "wrong results out-of-place: 1 row with #wrong above 0: line 14" in curve.notes


def test_unchecked_results_have_no_wrong_count() -> None:
    body = [re.sub(" 0$", "N/A", entry).replace("      0  ", "    N/A  ") for entry in rows()]
    assert only(log(*body)).points == expected(TIMES, None)


def test_a_lowered_size_limit_is_noted() -> None:
    text = log().replace(
        PLACES, f"# Reducing maxBytes to 26549638485 due to memory limitation\n#\n{PLACES}"
    )
    assert only(text).notes == ("Reducing maxBytes to 26549638485 due to memory limitation",)
    assert [curve.capped for curve in parse(text + log()).curves] == [True, False]


# Several tests in one file


def test_the_same_collective_twice_is_two_curves() -> None:
    first, second = parse(log() + log()).curves
    assert first.points == second.points == WHOLE.points
    assert (first.source, second.source) == ("x.log:11", "x.log:30")


def test_a_test_without_a_footer_ends_where_the_next_begins() -> None:
    cut = "\n".join([*preamble(), *rows()[:2]]) + "\n"
    first, second = parse(cut + log()).curves
    assert (len(first.points), len(second.points)) == (2, 4)
    assert first.notes == ("no footer below the table: the log may be cut short",)


def test_each_test_has_its_own_ranks() -> None:
    pair = [row(size, us) + cell(size, us) for size, us in zip(SIZES, TIMES, strict=True)]
    pair = [
        entry.replace(f"{1.5 * 16777216 / 1311.4e3:6.2f}", f"{16777216 / 1311.4e3:6.2f}")
        for entry in pair
    ]
    first, second = parse(log() + log(*pair, ranks=2)).curves
    assert ((first.ranks, first.nodes), (second.ranks, second.nodes)) == ((4, 2), (2, 1))


def test_types_and_reductions_of_one_table_are_apart() -> None:
    body = rows() + [entry.replace("sum", "max").replace("20.31", "30.31") for entry in rows()]
    first, second = parse(log(*body)).curves
    assert (first.points[0].time_s, second.points[0].time_s) == (20.31 / 1e6, 30.31 / 1e6)
    assert "type float, redop max, root -1: one of 2 series in its table" in second.notes


def test_repeated_sizes_keep_the_median() -> None:
    body = [row(8, us, "19.88") for us in ("22.00", "20.00", "29.00")]
    curve = only(log(*body))
    assert (curve.points, len(curve.in_place)) == ((timed(8, 22),), 1)
    assert (
        "sizes measured up to 3 times out-of-place: the (lower) median time of each is kept"
        in curve.notes
    )


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


def said(text: str) -> list[str]:
    """The failures in a log."""
    return [failure.text for failure in parse(text).failures]


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
    ended = "all_reduce ended after 1KiB of 16MiB, and"
    assert said(cut + log()) == [f"{ended} the next test follows"]
    assert said(cut) == [f"{ended} the log ends there"]


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
    assert said(text) == ["all_reduce ended before its table"]
    assert [curve.ranks for curve in parse(text).curves] == [4]


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
    text = "\n".join([*preamble()[:-4], NCCL]) + "\n" + log()
    assert said(text) == [f"all_reduce ended before its table: {NCCL}"]
    assert [curve.ranks for curve in parse(text).curves] == [4]


def test_a_test_that_says_nothing_but_its_failure_is_one() -> None:
    for text in (log() + NCCL + "\n" + log(), NCCL + "\n" + log()):
        assert said(text) == [f"a test ended before its table: {NCCL}"]


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
    assert "a table header with no rows below" in refusal(read, path)
    assert "a table header with no rows below" in refusal(read_all, [path])
    for where in (path, tmp_path):
        measurements = read_all([where], failed=True)
        assert (measurements.curves, len(measurements.failures)) == ((), 1)
        assert measurements.skipped == (), "the failure says it"
    (tmp_path / "whole.log").write_text(log())
    assert len(read_all([tmp_path]).failures) == 1
    path.write_text("\n".join(["no table", *FOOTER]))
    with pytest.raises(InputError):
        read_all([path], failed=True)
