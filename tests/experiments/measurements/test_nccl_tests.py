"""Invented logs with every habit that logs have."""

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.measurements import Curve, Measurements, Point, loading, read
from experiments.measurements.nccl_tests import parse_log, read_log
from topologies.errors import InputError

INFO = "node1:4242:4250 [0] NCCL INFO Channel 00 : 0 1 2 3"

PLACES = "#" + 62 * " " + "out-of-place" + 23 * " " + "in-place"
HEADER = "#       size         count      type   redop    root" + 2 * "     time   algbw   busbw #wrong"
UNITS = "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"
OLD_HEADER = (
    "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error"
)
SIZES = (8, 1024, 131072, 16777216)
TIMES = ("20.31", "21.92", "40.57", "1311.4")
IN_PLACE = ("19.88", "21.05", "39.93", "1302.7")


def cell(size: int, time_us: str, wrong: str = "0", factor: float = 1.5) -> str:
    algbw = size / float(time_us) / 1e3
    return f"  {time_us:>7}  {algbw:6.2f}  {factor * algbw:6.2f}  {wrong:>5}"


def row(size: int, time_us: str, in_place_us: str = "", wrong: str = "0", start: str = "float     sum      -1") -> str:
    second = cell(size, in_place_us) if in_place_us else ""
    return f"{size:12d}  {size // 4:12d}     {start}{cell(size, time_us, wrong)}{second}"


def rows() -> list[str]:
    return [row(*entry) for entry in zip(SIZES, TIMES, IN_PLACE, strict=True)]


def devices(ranks: int = 4, each: int = 2) -> list[str]:
    form = "#  Rank {0:2d} Group  0 Pid {1:6d} on      node{2} device {3:2d} [0x0{3}] NVIDIA H100"
    return [form.format(rank, 4200 + rank, 1 + rank // each, rank % each) for rank in range(ranks)]


def preamble(name: str = "all_reduce", ranks: int = 4) -> list[str]:
    start = [
        f"# Collective test starting: {name}_perf",
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 16777216 step: 128(factor) warmup iters: 5 iters: 20 validation: 1",
        "#",
        "# Using devices",
    ]
    return [*start, *devices(ranks), "#", PLACES, HEADER, UNITS]


FOOTER = ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 12.5", "#"]


def log(*body: str, name: str = "all_reduce", ranks: int = 4) -> str:
    return "\n".join([*preamble(name, ranks), *(body or rows()), *FOOTER]) + "\n"


def parse(text: str) -> Measurements:
    return parse_log(text, "x.log")


def only(text: str) -> Curve:
    (curve,) = parse(text).curves
    return curve


def timed(size: int, us: float, wrong: int | None = 0) -> Point:
    return Point(size, us / 1e6, wrong, repetitions=20)


def expected(times: tuple[str, ...], wrong: int | None = 0) -> tuple[Point, ...]:
    return tuple(timed(size, float(us), wrong) for size, us in zip(SIZES, times, strict=True))


WHOLE = Curve("all_reduce", 4, 2, expected(TIMES), expected(IN_PLACE), "x.log:11", ())
WHOLE = replace(WHOLE, gpus_per_node=2, device="NVIDIA H100", dtype="float")


def same(text: str) -> None:
    """The damage in `text` is no damage: everything is read, and nothing is said to be skipped."""
    result = parse(text)
    assert result.skipped == ()
    assert [(c.collective, c.ranks, c.nodes, c.points, c.in_place) for c in result.curves] == [
        (WHOLE.collective, WHOLE.ranks, WHOLE.nodes, WHOLE.points, WHOLE.in_place)
    ]


# What a whole log says


def test_a_plain_log_is_one_curve() -> None:
    assert parse(log()) == Measurements((WHOLE,), ())


@pytest.mark.parametrize(
    "prefix",
    [
        "[1,0]<stdout>:",
        "[1,0]<stdout>: ",
        " 0: ",
        "node1: ",
        "2024-05-01T10:00:00.123Z ",
        "[12:00:01] worker-0 | ",
        "> ",
    ],
)
def test_a_launchers_prefix_on_every_line_is_taken_off(prefix: str) -> None:
    same("".join(f"{prefix}{line}\n" for line in log().splitlines()))


def test_time_stamps_that_change_from_line_to_line_are_a_prefix_too() -> None:
    same(
        "".join(
            f"2024-05-01 10:{number:02d}:07,{number * 37} {line}\n" for number, line in enumerate(log().splitlines())
        )
    )


def test_carriage_returns_and_colours_are_taken_off() -> None:
    same("\x1b[1;32m" + log().replace("\n", "\x1b[0m\r\n\x1b[32m"))


def test_a_byte_order_mark_is_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"\xef\xbb\xbf" + log().encode())
    assert read(path).curves[0].points == WHOLE.points


def test_lines_of_other_programs_between_the_rows_are_passed_over() -> None:
    ucx = "[1622510355.903851] [node1:16747:0]    ucp_context.c:1437 UCX  WARN  UCP version is incompatible"
    body = [
        line for entry in rows() for line in (entry, INFO, ucx, "", "node2:7:9 [1] transport.cc:88 NCCL WARN retry 3")
    ]
    same(log(*body))


def test_blanks_squeezed_to_one_do_no_harm() -> None:
    same(re.sub("[ \t]+", " ", log()))


def test_leading_blanks_lost_do_no_harm() -> None:
    same("\n".join(map(str.strip, log().splitlines())))


def test_out_of_place_only() -> None:
    header = HEADER.replace("     time   algbw   busbw #wrong", "", 1)
    text = log(*(row(size, us) for size, us in zip(SIZES, TIMES, strict=True))).replace(HEADER, header)
    assert only(text).points == WHOLE.points
    assert only(text).in_place == ()


def test_a_banner_may_put_in_place_first() -> None:
    text = log().replace(
        PLACES,
        PLACES.replace("in-place", "@").replace("out-of-place", "in-place").replace("@", "out-of-place"),
    )
    assert (only(text).points, only(text).in_place) == (WHOLE.in_place, WHOLE.points)


def test_columns_are_found_by_name_not_by_position() -> None:
    header = "#           timestamp " + HEADER[1:].replace("#wrong", "#wrong  i_min   i_cv%").replace(
        "  count", "count  "
    )
    body = []
    for entry in rows():
        first, second = entry[:-31], entry[-31:]
        body.append(f"2025-10-14 01:02:03 {first}  11.11    2.5{second}  12.22    3.5")
    curve = only(log(*body).replace(HEADER, header))
    assert curve.points == tuple(replace(point, cv=0.025, min_s=11.11 / 1e6) for point in WHOLE.points)
    assert {(point.cv, point.min_s) for point in curve.in_place} == {(0.035, 12.22 / 1e6)}


def test_old_versions_print_errors_and_no_root() -> None:
    body = [row(8, "41.36", "40.92", start=" float     sum").replace("      0", "  2e-07")]
    body += [row(33554432, "3319.4", "3318.2", start=" float     sum").replace("      0", "  1e-06")]
    body = [line.replace("      float", "   float") for line in body]
    curve = only(log(*body).replace(HEADER, OLD_HEADER))
    assert curve.points == (timed(8, 41.36, None), timed(33554432, 3319.4, None))
    assert curve.in_place[-1] == timed(33554432, 3318.2, None)


def test_the_oldest_versions_print_milliseconds() -> None:
    text = (
        "#                                                 out-of-place                    in-place\n"
        "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res\n"
        "    10000000      10000000    char     sum    1.250   8.00  12.00    0e+00    1.600   6.25   9.38    0e+00\n"
    )
    curve = only(text)
    assert (curve.collective, curve.ranks) == ("all_reduce", None)
    assert (curve.points, curve.in_place) == ((Point(10**7, 1.25e-3),), (Point(10**7, 1.6e-3),))


def test_a_blank_redop_shifts_no_column() -> None:
    body = [entry.replace("sum", "   ") for entry in rows()]
    assert only(log(*body, name="broadcast")).points == WHOLE.points


def test_units_may_stand_in_the_header() -> None:
    header = "# size (B) count (elements) type redop root time (us) algbw (GB/s) busbw (GB/s) #wrong"
    assert only(f"{header}\n131072 32768 float sum -1 40.57 3.23 4.85 0\n").points == (Point(131072, 40.57 / 1e6, 0),)


def test_a_table_may_have_no_count_and_type() -> None:
    assert only("# size time algbw busbw\n131072 40.57 3.23 4.85\n").points == (Point(131072, 40.57 / 1e6),)


def test_in_place_only() -> None:
    header = HEADER.replace("     time   algbw   busbw #wrong", "", 1)
    text = log(*(row(size, us) for size, us in zip(SIZES, IN_PLACE, strict=True))).replace(HEADER, header)
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
    text = log().replace(PLACES, f"# Reducing maxBytes to 26549638485 due to memory limitation\n#\n{PLACES}")
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
    pair = [entry.replace(f"{1.5 * 16777216 / 1311.4e3:6.2f}", f"{16777216 / 1311.4e3:6.2f}") for entry in pair]
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
    assert "sizes measured up to 3 times out-of-place: the (lower) median time of each is kept" in curve.notes


# Which collective, how many ranks


def unnamed(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "_perf" not in line) + "\n"


def shaped(factor: float, start: str, in_place_wrong: str = "0") -> list[str]:
    form = "{0:12d}  {1:12d}     {2}".format
    return [
        form(size, size // 16, start) + cell(size, us, factor=factor) + cell(size, us, in_place_wrong, factor)
        for size, us in zip(SIZES, TIMES, strict=True)
    ]


@pytest.mark.parametrize(
    ("factor", "start", "in_place", "collective"),
    [
        (1.5, "float     sum      -1", "0", "all_reduce"),
        (0.75, "float     sum      -1", "0", "reduce_scatter"),
        (1.0, "float     sum      -1", "N/A", "send_recv"),
        (1.0, "float     sum       0", "0", "reduce"),
        (1.0, "float    none       0", "0", "broadcast"),
        (0.75, "float    none      -1", "0", "all_gather"),
        (0.75, "float    none      -1", "N/A", "all_to_all"),
        (0.75, "float    none       0", "0", "unknown"),
        (1.3, "float     sum      -1", "0", "unknown"),
    ],
)
def test_an_unnamed_collective_is_inferred_or_unknown(
    factor: float, start: str, in_place: str, collective: str
) -> None:
    curve = only(unnamed(log(*shaped(factor, start, in_place))))
    assert curve.collective == collective
    assert curve.notes[0].startswith("collective unknown" if collective == "unknown" else "collective inferred")


def test_all_gather_and_all_to_all_unchecked_are_ambiguous() -> None:
    body = [entry.replace("      0  ", "    N/A  ") for entry in shaped(0.75, "float    none      -1", "N/A")]
    curve = only(unnamed(log(*body)))
    assert curve.collective == "unknown"
    assert "fit all_gather or all_to_all" in curve.notes[0]


def test_a_bus_factor_in_algbw_may_be_hypercubes() -> None:
    body = []
    for size, us in zip(SIZES, TIMES, strict=True):
        part = cell(size * 3 // 4, us, factor=1)
        body.append(f"{size:12d}  {size // 16:12d}     float    none      -1{part}{part}")
    assert "fit all_gather or hypercube" in only(unnamed(log(*body))).notes[0]


def test_a_command_line_names_the_collective() -> None:
    text = "+ srun -l ./build/alltoall_perf -b 8 -e 16M -f 128\n" + unnamed(
        log(*shaped(0.75, "float    none      -1", "N/A"))
    )
    assert only(text).collective == "all_to_all"
    assert only(text).notes == ()


def test_a_script_that_names_them_all_names_none() -> None:
    text = "all_reduce_perf all_gather_perf alltoall_perf\n" + unnamed(log())
    assert only(text).notes == ("collective inferred from redop, root and busbw: all_reduce is not named in the log",)


def test_a_program_nobody_knows_is_unknown() -> None:
    assert only(log(name="alltoallv")).notes[0] == "collective unknown: alltoallv_perf is none that is known here"


def test_an_algbw_that_holds_the_bus_factor_is_understood() -> None:
    body = []
    for size, us in zip(SIZES, TIMES, strict=True):
        old = cell(size * 3 // 4, us, factor=1)
        body.append(f"{size:12d}  {size // 16:12d}     float    none      -1{old}{old}")
    curve = only(log(*body, name="hypercube"))
    assert (curve.collective, curve.ranks, curve.points) == ("hypercube", 4, expected(TIMES))
    assert curve.notes[0].startswith("algbw is (n-1)/n of size / time, n = 4")


def without_devices(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "Rank" not in line) + "\n"


def test_ranks_without_devices_are_unknown() -> None:
    curve = only(without_devices(log()))
    assert (curve.ranks, curve.nodes) == (None, None)
    assert curve.notes == ("number of ranks unknown: no list of devices",)


def test_ranks_by_threads_need_the_busbw_to_agree() -> None:
    curve = only(without_devices(log()).replace("nGpus 1", "nGpus 4"))
    assert (curve.ranks, curve.nodes) == (4, 1)
    assert only(without_devices(log()).replace("nGpus 1", "nGpus 8")).ranks is None


def test_ranks_by_ncclis_own_word() -> None:
    info = "node1:1:2 [0] NCCL INFO comm 0x55 rank 0 nranks 4 cudaDev 0 - Init COMPLETE\n"
    assert only(info + without_devices(log())).ranks == 4
    assert only(info + info.replace("nranks 4", "nranks 2") + without_devices(log())).ranks is None


@pytest.mark.parametrize(
    ("gone", "why"),
    [
        ("Rank  2", "the list of devices has 3 ranks, the highest is 3"),
        ("Rank  3", "busbw is not all_reduce's on 3 ranks"),
    ],
)
def test_a_damaged_list_of_devices_gives_no_number_of_ranks(gone: str, why: str) -> None:
    curve = only("\n".join(line for line in log().splitlines() if gone not in line) + "\n")
    assert curve.ranks is None
    assert curve.notes[0] == f"number of ranks unknown: {why}"


def test_a_torn_list_of_devices_gives_no_number_of_ranks() -> None:
    curve = only(log().replace("Rank  3 Group", f"Rank  3 Gr{INFO}\noup"))
    assert curve.ranks is None
    assert curve.notes[0] == "number of ranks unknown: a line of the list of devices is torn"


def test_processes_that_did_not_join_are_not_counted_as_ranks() -> None:
    text = log().replace("Rank  1", "Rank  0")
    assert only(text).ranks is None
    assert only(text).notes[0].startswith("number of ranks unknown: rank 0 is listed twice")


def test_a_piece_of_a_device_line_between_rows_starts_no_new_test() -> None:
    body = rows()
    assert only(log(*body[:2], "srun: launched Pid 4242 on node1", *body[2:])).points == WHOLE.points


def test_ranks_of_one_group_when_the_job_is_split() -> None:
    text = log(ranks=8)
    for rank in range(8):
        text = text.replace(f"Rank  {rank} Group  0", f"Rank  {rank} Group  {rank % 2}")
    assert (only(text).ranks, only(text).nodes) == (4, 4)
    assert only(text).notes[0] == "8 ranks in groups of 4; ranks of one group"


# What the log says of the library and its environment


def version(text: str) -> str:
    return f"# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902\n{text}"


@pytest.mark.parametrize(
    ("before", "library"),
    [
        ("node1:1:2 [0] NCCL INFO NCCL version 2.18.3+cuda12.1\n", "NCCL 2.18.3+cuda12.1"),
        ("NCCL version 2.4.7+cuda10.1\n", "NCCL 2.4.7+cuda10.1"),
        ("RCCL version : 2.22.3-develop:abc\n", "RCCL 2.22.3-develop"),
        ("# rccl-tests: Version develop:a7809b3\n", "RCCL"),
        ("# nccl-tests version 2.13.6 nccl-headers=2804 nccl-library=2804\n", "NCCL 2.8.4"),
        ("# nccl-tests version 2.13.6 nccl-library=22902\nNCCL version 2.29.2+cuda13.0\n", "NCCL 2.29.2+cuda13.0"),
        ("", ""),
    ],
)
def test_the_library_is_the_one_that_the_log_names(before: str, library: str) -> None:
    assert only(before + log()).library == library


def test_two_versions_in_one_test_are_none() -> None:
    curve = only("NCCL version 2.18.3\n" + version(log()).replace("22902", "21903"))
    assert curve.library == "NCCL 2.19.3"  # the first stands before the test that says its own
    curve = only(log().replace("# Using", "NCCL version 2.18.3\nNCCL version 2.19.3\n# Using"))
    assert curve.library == ""
    assert curve.notes[-1] == "library unknown: the log names NCCL 2.18.3 and NCCL 2.19.3"


def test_each_test_has_its_own_version() -> None:
    curves = parse(version(log()) + version(log()).replace("22902", "21903") + log()).curves
    assert [curve.library for curve in curves] == ["NCCL 2.29.2", "NCCL 2.19.3", ""]


@pytest.mark.parametrize(
    ("before", "forced"),
    [
        ("mpirun -x NCCL_ALGO=Ring -x NCCL_PROTO=LL128 ./all_reduce_perf -b 8\n", ("ring", "LL128")),
        ("NCCL_ALGO=Tree mpirun ./all_reduce_perf\n", ("tree", "")),
        ("+ export 'NCCL_PROTO=Simple'\n", ("", "Simple")),
        ("n1:1:2 [0] NCCL INFO NCCL_ALGO set by environment to allreduce:tree\n" * 4, ("tree", "")),
        ("export NCCL_ALGO=Ring\nunset NCCL_ALGO\n", ("", "")),
        ("NCCL_ALGO=$ALGO NCCL_PROTO=${P} mpirun -x NCCL_ALGO ./all_reduce_perf\n", ("", "")),
    ],
)
def test_what_the_environment_forced(before: str, forced: tuple[str, str]) -> None:
    curve = only(before + log())
    assert (curve.algorithm, curve.protocol) == forced
    assert curve.notes == ()


def test_what_leaves_a_choice_is_noted() -> None:
    curve = only("NCCL_ALGO=Ring,Tree mpirun ./all_reduce_perf\n" + log())
    assert (curve.algorithm, curve.notes) == ("", ("NCCL_ALGO=Ring,Tree leaves NCCL the choice",))
    curve = only("mpirun -x NCCL_PROTO=LL\n[0] NCCL INFO NCCL_PROTO set by environment to Simple\n" + log())
    assert (curve.protocol, curve.notes) == ("", ("NCCL_PROTO is LL and Simple in the log: not known which",))


def test_a_setting_is_of_its_own_test_and_an_export_of_all() -> None:
    info = "[0] NCCL INFO NCCL_PROTO set by environment to LL\n"
    tests = ["export NCCL_PROTO=Simple\n", "NCCL_ALGO=Tree mpirun\n", info, "NCCL_ALGO=Ring mpirun\n"]
    curves = parse("".join(before + log() for before in tests)).curves
    assert [(curve.algorithm, curve.protocol) for curve in curves] == [
        ("", "Simple"),
        ("tree", "Simple"),
        ("", "LL"),
        ("ring", "Simple"),
    ]


def test_a_setting_told_late_is_of_the_table_above() -> None:
    body = rows()
    late = log(*body[:2], "[0] NCCL INFO NCCL_ALGO set by environment to Ring", *body[2:])
    first, second = parse(late + log()).curves
    assert (first.algorithm, second.algorithm) == ("ring", "")


def test_a_forced_algorithm_is_one_of_the_collective() -> None:
    gather = log(*shaped(0.75, "float    none      -1"), name="all_gather")
    assert only("NCCL_ALGO=Ring srun\n" + gather).algorithm == "ring_all_gather"
    curve = only("NCCL_ALGO=Tree srun\n" + gather)
    assert (curve.algorithm, curve.notes) == ("", ("NCCL_ALGO=Tree has no effect on all_gather",))


def test_devices_tell_ranks_a_node_and_models() -> None:
    assert (only(log(ranks=4)).gpus_per_node, only(log(ranks=4)).device) == (2, "NVIDIA H100")
    uneven = log().replace("Pid   4203 on      node2", "Pid   4203 on      node1")
    assert (only(uneven).nodes, only(uneven).gpus_per_node) == (2, None)
    mixed = only(log().replace("[0x01] NVIDIA H100", "[0x01] NVIDIA A100"))
    assert (mixed.device, mixed.notes) == ("", ("2 models of GPU: NVIDIA A100, NVIDIA H100",))


# Rows that are not to be used


def test_rows_of_size_zero_are_counted() -> None:
    result = parse(log(row(0, "5.12", "5.10"), *rows()))
    assert result.curves[0].points == WHOLE.points
    assert result.skipped == ("1 row of size 0: line 13",)


def test_rows_of_time_zero_are_counted() -> None:
    body = rows()
    body[0] = body[0].replace("20.31", " 0.00")
    assert parse(log(*body)).skipped == ("1 row with a time of 0 or N/A: line 13",)


def test_rows_that_contradict_themselves_are_counted() -> None:
    body = rows()
    body[2] = body[2].replace("40.57", "80.57")
    result = parse(log(*body))
    assert [point.size for point in result.curves[0].points] == [8, 1024, 16777216]
    assert result.skipped == ("1 row inconsistent (size / time is not the algbw printed): line 15",)


def test_rows_outside_a_table_are_counted() -> None:
    assert parse(log() + rows()[2] + "\n").skipped == ("1 row without a table header above: line 20",)


def test_a_table_without_rows_is_counted() -> None:
    empty = "\n".join([*preamble(), *FOOTER]) + "\n"
    assert parse(empty + log()).skipped == ("1 table without rows: line 11",)


def test_lines_too_long_are_counted_and_do_not_take_long() -> None:
    began = time.monotonic()
    for filling in ("1 ", "x", " ", "#", "1", "_perf", "\x1b[", "(", "aaaa_"):
        assert parse(filling * (3_000_000 // len(filling)) + "\n" + log()).skipped == (
            "1 line too long to read: line 1",
        )
    assert time.monotonic() - began < 5


# Torn rows


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("foreign", [f"\n{INFO}\n", f"{INFO}\n", "\n", "10.0.0.1:7: warning\n"])
def test_a_row_torn_anywhere_is_put_together(which: int, foreign: str) -> None:
    for column in range(len(rows()[which]) + 1):
        body = rows()
        body[which] = body[which][:column] + foreign + body[which][column:]
        same(log(*body))


def test_a_row_torn_in_two_says_so() -> None:
    body = rows()
    body[1] = body[1][:60] + INFO + "\n" + body[1][60:]
    curve = only(log(*body))
    assert curve.points == WHOLE.points
    assert curve.notes == ("1 row torn in two and put together again: line 14",)


def test_a_header_torn_in_its_last_name_is_mended() -> None:
    for missing in range(1, 7):
        same(log().replace(HEADER, f"{HEADER[:-missing]}\n{HEADER[-missing:]}"))
        same(log().replace(HEADER, f"{HEADER[:-missing]}{INFO}\n{HEADER[-missing:]}"))


def test_a_torn_row_with_a_prefix_on_both_pieces() -> None:
    body = rows()
    body[1] = body[1][:60] + "\n" + INFO + "\n" + body[1][60:]
    text = log(*body)
    assert only("".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines())).points == WHOLE.points


def test_a_torn_row_that_lost_a_piece_is_counted() -> None:
    body = rows()
    first, second = body[1][:60], body[3][60:]
    result = parse(log(body[0], first, INFO, body[2], INFO, second))
    assert [point.size for point in result.curves[0].points] == [8, 131072]
    assert result.skipped == ("2 rows torn beyond repair: line 14, line 18",)


def test_halves_of_two_rows_are_not_one_row() -> None:
    body = rows()
    chimera = [body[0][:60], INFO, body[1][60:]]
    result = parse(log(*chimera, body[2], body[3]))
    assert [point.size for point in result.curves[0].points] == [131072, 16777216]
    assert result.skipped == ("1 row torn beyond repair: line 13",)


def test_a_last_row_cut_short_is_counted() -> None:
    text = "\n".join([*preamble(), *rows()])
    assert len(only(text).points) == 4
    for cut in range(1, 100):
        assert parse(text[:-cut]).curves[0].points == WHOLE.points[:3]


def test_a_wrong_count_cut_short_is_not_taken_for_whole() -> None:
    text = "\n".join([*preamble(), *rows()[:3], row(16777216, "1311.4") + cell(16777216, "1302.7", "12345")])
    assert only(text + "\n").in_place[-1].wrong == 12345
    assert len(only(text).in_place) == 3


# Files that are no logs


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"hello\n", "no nccl-tests table in"),
        (b"# size time algbw\n8 2 3\n", "expected a header line with size, time, algbw, busbw"),
        (b"some\nbytes\0\n", "line 2: a NUL byte"),
        ("\n".join(preamble()).encode("utf-16"), "line 1: not UTF-8|NUL"),
        (b"one\ntwo\xff\n", "line 2: not UTF-8"),
        ("\n".join(preamble()).encode(), "line 11: a table header with no rows below"),
        (log(row(0, "5.12", "5.10")).encode(), "no usable row in .*: 1 row of size 0: line 13"),
    ],
)
def test_a_file_that_is_no_log_is_refused_in_one_line(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(data)
    with pytest.raises(InputError, match=says) as caught:
        read_log(path)
    assert "\n" not in str(caught.value)
    assert "run.log" in str(caught.value)


def test_a_file_that_is_not_there_or_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "none.log")
    with pytest.raises(InputError, match="is a directory"):
        read(tmp_path)


def test_a_file_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"
    path.write_text(log())
    monkeypatch.setattr(loading, "LIMIT", 100)
    with pytest.raises(InputError, match="larger than 64 MiB"):
        read(path)


@pytest.mark.parametrize("piece", ["garbage 1 2 3\n", "1 ", "x", "8 2 float sum -1 20.31 0.00 0.00 0\n"])
def test_a_large_file_of_garbage_is_refused_soon(piece: str) -> None:
    text = piece * (20_000_000 // len(piece))
    began = time.monotonic()
    with pytest.raises(InputError, match="no nccl-tests table"):
        parse(text)
    assert time.monotonic() - began < 5
