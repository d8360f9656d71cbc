"""OSU micro-benchmarks of collectives: versions 5 and 7, all columns, several tests in a file."""

from pathlib import Path

import pytest

from experiments.measurements import Point, read
from grouped_cases import each_case
from osu_outputs import AVERAGES, FULL, LATENCY, PLAIN, SIZES, WHOLE, only, parse, renamed
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
