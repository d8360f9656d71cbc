"""OSU micro-benchmarks: tables, pairs and damage."""

import re
from pathlib import Path

import pytest

from experiments.measurements import Point, read
from experiments.measurements.formats.osu_reader import parse_osu
from grouped_cases import each_case
from nccl_logs import INFO
from osu_outputs import AVERAGES, FULL, LATENCY, PLAIN, RATES, SIZES, WHOLE, only, parse, renamed
from refusals import refusal
from topologies.errors import InputError


def test_the_plain_form_is_the_average() -> None:
    curve = only(PLAIN)
    assert (curve.collective, curve.points, curve.in_place) == ("all_reduce", AVERAGES, ())
    assert (curve.ranks, curve.nodes, curve.dtype, curve.source) == (None, None, "float", "x.out:4")
    assert curve.notes == (
        "OSU Allreduce Latency Test v7.4",
        "time is the average over ranks: the slowest takes longer",
    )


def test_the_full_form_is_the_slowest_rank() -> None:
    curve = only(FULL)
    assert curve.points == WHOLE
    assert (
        curve.notes[1]
        == "time is that of the slowest rank (Max Latency), the mean of its iterations"
    )


@each_case(
    ("name", "collective"),
    [
        ("Broadcast Latency", "broadcast"),
        ("Reduce Latency", "reduce"),
        ("Reduce_scatter Latency", "reduce_scatter"),
        ("Allgather Latency", "all_gather"),
        ("Gather Latency", "gather"),
        ("Scatter Latency", "scatter"),
        ("All-to-All Personalized Exchange Latency", "all_to_all"),
        ("Multi Latency", "send_recv"),
    ],
)
@each_case("library", ["MPI", "MPI-CUDA", "MPI-ROCM", "NCCL-CUDA"])
def test_a_title_names_collective_and_memory(name: str, collective: str, library: str) -> None:
    curve = only(renamed(PLAIN, name).replace("OSU MPI", f"OSU {library}"))
    assert (curve.collective, len(curve.points)) == (collective, 3)
    assert curve.device == library.partition("-")[2]
    assert curve.library == ("NCCL" if library.startswith("NCCL") else "")


@pytest.mark.parametrize(
    ("name", "program"), [("Allgather Latency", "allgather"), ("Scatter Latency", "scatter")]
)
def test_sizes_of_a_rank_become_the_total(name: str, program: str) -> None:
    unknown = only(renamed(PLAIN, name))
    assert unknown.points == AVERAGES
    assert "sizes are a rank's part of the total: the number of ranks is unknown" in unknown.notes
    known = only(f"$ srun -N 2 -n 8 ./osu_{program} -m 4:\n" + renamed(PLAIN, name))
    assert [point.size for point in known.points] == [8 * size for size in SIZES]
    assert (known.ranks, known.nodes, known.gpus_per_node) == (8, 2, 4)


@each_case(
    ("command", "ranks"),
    [
        ("mpirun -np 16 --map-by ppr:8:node osu_allreduce -f", 16),
        ("+ mpiexec -n 4 /opt/omb/osu_allreduce", 4),
        ("srun --ntasks=32 osu_allreduce", 32),
        ("srun -n8 osu_allreduce", 8),
        ("mpirun -np 16 osu_bcast", None),
        ("mpirun osu_allreduce -n 3", 3),
        ("mpirun -np 0 osu_allreduce", None),
        ("osu_allreduce mpirun -np 4", None),
    ],
)
def test_ranks_by_the_command_line_above(command: str, ranks: int | None) -> None:
    curves = parse(f"{command}\n{PLAIN}{PLAIN}").curves
    assert [curve.ranks for curve in curves] == [ranks, None]


def test_percentiles_and_validation() -> None:
    text = (
        "# OSU MPI Broadcast Latency Test v7.5\n# Datatype: MPI_CHAR.\n"
        "# Size       Avg Latency(us)   Max Latency(us)  P50 Tail Lat(us)  P90 Tail Lat(us)      "
        "  Validation\n"
        "1                       2.24              2.94              2.20              2.80      "
        "        Pass\n"
        "2                       2.23              2.92              2.20              2.70      "
        "        Fail\n"
        "4                       2.23              2.92              2.20              2.70      "
        "           -\n"
    )
    curve = only(text)
    assert curve.points[0] == Point(1, 2.94 / 1e6, 0, p90_s=2.80 / 1e6)
    assert [point.wrong for point in curve.points] == [0, 1, None]
    assert curve.notes[-1].startswith("validation failed at 1 size ")
    assert curve.notes[-1].endswith("2 B")


def test_several_tests_and_types_in_one_file() -> None:
    again = PLAIN.split("v7.4\n")[1].replace("FLOAT", "INT").replace("1.73", "1.83")
    curves = parse(FULL + LATENCY + PLAIN + again).curves
    assert [(curve.collective, curve.dtype) for curve in curves] == [
        ("all_reduce", ""),
        ("send_recv", ""),
        ("all_reduce", "float"),
        ("all_reduce", "int"),
    ]
    assert curves[3].points[0] == Point(4, 1.83 / 1e6)


def test_a_type_may_stand_below_the_header() -> None:
    header, kind = "# Size       Avg Latency(us)\n", "# Datatype: MPI_FLOAT.\n"
    assert only(PLAIN.replace(kind + header, header + kind)).dtype == "float"


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_limit_that_the_tool_lowered_is_seen(where: str) -> None:
    warning = (
        "Warning! Limiting max message size to: 1048576. Increase -M, --mem-limit for higher "
        "message sizes."
    )
    text = FULL + (
        warning + PLAIN if where == "before" else PLAIN.replace("v7.4\n", f"v7.4\n{warning}\n")
    )
    first, second = parse(text).curves
    assert (first.capped, second.capped) == (False, True)
    assert "Limiting max message size to: 1048576" in second.notes


def test_osu_and_nccl_tests_in_one_file(tmp_path: Path) -> None:
    log = (
        "# size count type redop root time algbw busbw #wrong\n131072 32768 float sum -1 40.57 "
        "3.23 4.85 0\n"
    )
    path = tmp_path / "both.out"
    path.write_text(PLAIN + "\n" + log)
    first, second = read(path).curves
    assert (first.points, second.points) == (AVERAGES, (Point(131072, 40.57 / 1e6, 0),))
    path.write_text(PLAIN + "\n" + log.partition("\n")[0] + "\n")
    half = read(path)
    assert (len(half.curves), len(half.skipped)) == (1, 1)
    assert half.skipped[0].endswith(
        "line 9: a table header with no rows below: the log was cut short"
    )
    path.write_text(LATENCY[:40] + "\n" + log.partition("\n")[0] + "\n")
    with pytest.raises(
        InputError, match=r"^no usable row of OSU .*; .* a table header with no rows below"
    ):
        read(path)


@pytest.mark.parametrize(("name", "messages"), [("Bandwidth", 1), ("Bi-Directional Bandwidth", 2)])
def test_a_bandwidth_is_no_latency(name: str, messages: int) -> None:
    text = (
        f"# OSU MPI {name} Test v5.6.2\n# Size      Bandwidth (MB/s)\n1000                 "
        f"2000.00\n"
    )
    curve = only(text)
    assert (curve.ranks, curve.points) == (2, (Point(1000, messages * 0.5e-6),))
    assert "not a latency" in curve.notes[1]


@each_case(
    ("name", "kind"),
    [
        ("Latency", "latency"),
        ("Multi Latency", "multi-pair latency"),
        ("Bandwidth", "bandwidth"),
        ("Bi-Directional Bandwidth", "bidirectional bandwidth"),
    ],
)
def test_a_curve_says_what_was_measured(name: str, kind: str) -> None:
    column = "Bandwidth (MB/s)" if kind.endswith("bandwidth") else "Latency (us)"
    curve = only(
        f"# OSU MPI {name} Test v7.4\n# Size      {column}\n1000                 2000.00\n"
    )
    assert curve.kind == kind
    assert curve.streams == kind.endswith("bandwidth")
    assert only(RATES).kind == "multi-pair bandwidth"
    assert only(PLAIN).kind == "collective"


def test_a_rate_of_all_pairs_is_shared_by_them() -> None:
    curve = only(RATES)
    assert (curve.ranks, curve.dtype) == (8, "char")
    assert curve.points == (Point(1, 0.5e-6), Point(1048576, 4 * 1048576 / 20e9))


def test_a_rate_of_nobody_knows_how_many_pairs_is_skipped() -> None:
    result = parse(PLAIN + re.sub("# .*pairs.*\n", "", RATES))
    assert len(result.curves) == 1
    assert result.skipped == ("1 table of all pairs together that does not say how many: line 10",)


def test_kinds_that_are_not_known_are_counted() -> None:
    unknown_benchmarks = (
        "# OSU MPI Non-blocking Allreduce Latency Test v7.1\n# Size   Overall(us)  Compute(us)\n"
        "4   1.20   2.30\n"
    )
    barrier = "# OSU MPI Barrier Latency Test v7.1\n# Avg Latency(us)\n             5.55\n"
    result = parse(unknown_benchmarks + PLAIN + barrier)
    assert len(result.curves) == 1
    assert result.skipped == ("2 tests of a kind or with columns not known here: line 1, line 11",)


@pytest.mark.parametrize("foreign", [f"\n{INFO}\n", f"{INFO}\n", "\n"])
@pytest.mark.parametrize("text", [FULL, PLAIN])
def test_a_torn_row_is_never_taken_for_another(text: str, foreign: str) -> None:
    truth = WHOLE if text == FULL else AVERAGES
    at = text.index("1024 ")
    end = text.index("\n", at)
    for column in range(at + 1, end):
        result = parse(text[:column] + foreign + text[column:])
        points = result.curves[0].points
        assert [(point.size, point.time_s) for point in points if point not in truth] == []
        assert len(points) == 3 or "row" in result.skipped[0]


@each_case("layout", ["{} {}", "{}\t{}", "{:<24}{}"])
def test_a_table_without_columns_to_the_right_keeps_its_rows(layout: str) -> None:
    values = dict(
        zip((1, 2, 4, 8, 16, 1024, 1048576), (1.23, 1.24, 1.31, 1.4, 9.55, 17, 230), strict=True)
    )
    rows = "".join(layout.format(size, f"{us:.2f}") + "\n" for size, us in values.items())
    curve = only("# OSU MPI Allreduce Latency Test v7.0\n# Size  Avg Latency(us)\n" + rows)
    assert [point.size for point in curve.points] == list(values)


def test_tables_without_rows_are_counted() -> None:
    assert parse("".join(PLAIN.splitlines(keepends=True)[:4]) + PLAIN).skipped == (
        "1 table without rows: line 4",
    )


PREFIXES = [
    "[1,0]<stdout>:",
    " 0: ",
    "node1: ",
    "2024-05-01T10:00:00.123Z ",
    "[12:00:01] worker-0 | ",
    "> ",
]


@each_case("prefix", PREFIXES)
def test_a_launchers_prefix_on_every_line_is_taken_off(prefix: str) -> None:
    curve = only("".join(f"{prefix}{line}\n" for line in FULL.splitlines()))
    assert curve.points == WHOLE


def test_carriage_returns_colours_and_lines_of_others_do_no_harm() -> None:
    assert only(FULL.replace("\n", "\x1b[0m\r\n\x1b[32m")).points == WHOLE
    assert only(FULL.replace("\n1", f"\n{INFO}\nwarning: 7 of 9\n1")).points == WHOLE
    assert only(re.sub(" +", " ", FULL)).points == WHOLE


@each_case(
    ("text", "says"),
    [
        (
            "# OSU MPI Allreduce Latency Test v7.4\n",
            "1 test of a kind or with columns not known here: line 1",
        ),
        (
            "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n",
            "1 table without rows: line 2",
        ),
        (
            "# OSU MPI Alltoallv Latency Test v7.4\n# Size       Avg Latency(us)\n4  1.00\n",
            "1 test of a kind or with columns",
        ),
        (
            "# OSU MPI Bandwidth Test v7\n# Size      Bandwidth (MB/s)\n4     0.00\n",
            "1 row of size or time 0: line 3",
        ),
    ],
)
def test_output_without_rows_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "run.out"
    path.write_text(text)
    message = refusal(read, path)
    assert re.search(f"no usable row of OSU micro-benchmarks in .*run.out: {says}", message)


def test_other_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.out"
    path.write_text("hello\n")
    assert "no title" in refusal(parse_osu, path.read_text(), str(path))
    path.write_text("")
    assert "is empty" in refusal(read, path)
