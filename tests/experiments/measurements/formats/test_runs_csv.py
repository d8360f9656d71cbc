"""CSV files of measured curves: read and written."""

import csv
import subprocess
import sys
import time
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csv_texts import PLAIN, POINTS, written
from experiments.measurements import COLLECTIVES, Curve, Point, read, write_runs
from experiments.measurements.curve import KINDS
from experiments.measurements.formats.runs_csv import parse_csv
from topologies.errors import InputError

ROOT = Path(__file__).parents[4]


def test_size_and_time_are_enough(tmp_path: Path) -> None:
    result = read(written(tmp_path, "run.csv", PLAIN))
    (curve,) = result.curves
    assert (curve.collective, curve.ranks, curve.nodes, curve.in_place) == (
        "unknown",
        None,
        None,
        (),
    )
    assert (curve.points, curve.notes, result.skipped) == (POINTS, (), ())
    assert curve.source == str(tmp_path / "run.csv")


def test_a_csv_needs_no_name_of_its_own(tmp_path: Path) -> None:
    assert read(written(tmp_path, "run.txt", PLAIN)).curves[0].points == POINTS


def test_a_log_may_be_called_csv(tmp_path: Path) -> None:
    log = (
        "# size count type redop root time algbw busbw #wrong\n131072 32768 float sum -1 40.57 "
        "3.23 4.85 0\n"
    )
    assert read(written(tmp_path, "run.csv", log)).curves[0].points == (
        Point(131072, 40.57 / 1e6, 0),
    )


def test_columns_come_in_any_order_with_blanks_and_line_ends(tmp_path: Path) -> None:
    text = (
        "iters, time_us ,algbw_GBps, size_bytes\r\n20, 30,0.0341, 1024\r\n\r\n20, 20.5,0.00039, "
        "8\r\n"
    )
    (curve,) = read(written(tmp_path, "run.csv", text)).curves
    assert curve.points == tuple(replace(point, repetitions=20) for point in POINTS)


def test_in_place_times_may_be_missing_here_and_there(tmp_path: Path) -> None:
    text = "size_bytes,time_us,inplace_time_us\n8,20.5,\n1024,30,29\n"
    (curve,) = read(written(tmp_path, "run.csv", text)).curves
    assert curve.in_place == (Point(1024, 29 / 1e6),)
    assert curve.notes == ("in-place times for 1 of 2 sizes",)


def test_columns_may_name_collective_and_ranks(tmp_path: Path) -> None:
    text = "collective,ranks,size_bytes,time_us\nalltoall,8,8,1\nalltoall,16,8,2\nAllReduce,8,8,3\n"
    curves = read(written(tmp_path, "x_ag_p4.csv", text)).curves
    assert [(curve.collective, curve.ranks) for curve in curves] == [
        ("all_to_all", 8),
        ("all_to_all", 16),
        ("all_reduce", 8),
    ]


COLUMNS = (
    "collective,algorithm,protocol,ranks,nodes,size_bytes,in_place,"
    "time_us,min_us,p90_us,mean_us,cv,repetitions,wrong,"
    "backend,device,dtype,library,topology,source\n"
)
GPU = "NVIDIA H100"
RUNS = f"""\
{COLUMNS}allreduce,Ring,ll128,8,2,8,0,2,1,4,3,0.5,20,0,nccl,{GPU},float32,NCCL 2.29.2,star,host a
allreduce,Ring,ll128,8,2,8,1,1,,,,,,,nccl,NVIDIA H100,float32,NCCL 2.29.2,star,host a
allreduce,Ring,ll128,8,2,16,0,3,,,,,,7,nccl,NVIDIA H100,float32,NCCL 2.29.2,star,host a
allreduce,tree,,8,3,8,0,2,,,,,,,gloo,,,,,
"""


def test_all_columns_of_measured_runs(tmp_path: Path) -> None:
    result = read(written(tmp_path, "runs.csv", RUNS))
    ring, tree = result.curves
    assert result.skipped == ()
    assert ring == Curve(
        "all_reduce",
        8,
        2,
        (Point(8, 2e-6, 0, 0.5, 20, 1e-6, 4e-6, 3e-6), Point(16, 3e-6, 7)),
        (Point(8, 1e-6),),
        "host a",
        ("in-place times for 1 of 2 sizes",),
        "ring",
        "LL128",
        "NCCL 2.29.2",
        4,
        "nccl",
        "NVIDIA H100",
        "float32",
        "star",
    )
    assert (tree.algorithm, tree.backend, tree.gpus_per_node) == ("tree", "gloo", None)
    assert tree.source == str(tmp_path / "runs.csv")


def test_columns_not_known_are_named_once(tmp_path: Path) -> None:
    text = "size_bytes,time_us,mood,algorithm,weather\n8,1,good,ring,fair\n8,1,bad,tree,foul\n"
    assert read(written(tmp_path, "run.csv", text)).skipped == (
        "2 columns with names not known here: mood, weather",
    )


def test_older_columns_tell_least_and_mean_time(tmp_path: Path) -> None:
    text = "size_bytes,time_us,algbw_GBps,busbw_GBps,time_min_us,time_mean_us,iters\n8,2,,,1,3,9\n"
    assert read(written(tmp_path, "run.csv", text)).curves[0].points == (
        Point(8, 2e-6, repetitions=9, min_s=1e-6, mean_s=3e-6),
    )


def test_a_barrier_has_no_size(tmp_path: Path) -> None:
    (curve,) = read(
        written(tmp_path, "run.csv", "collective,size_bytes,time_us\nbarrier,0,7\n")
    ).curves
    assert (curve.collective, curve.points) == ("barrier", (Point(0, 7e-6),))


def test_many_curves_are_read_soon(tmp_path: Path) -> None:
    row = "all_reduce,ring,LL,{0},1,{1},0,{2},1,2,3,0.1,20,0,gloo,cpu,float32,torch,star,here\n"
    rows = [
        row.format(ranks, size, ranks + size) for ranks in range(1, 101) for size in range(1, 101)
    ]
    began = time.monotonic()
    result = read(written(tmp_path, "runs.csv", COLUMNS + "".join(rows)))
    assert time.monotonic() - began < 5
    assert [(curve.ranks, len(curve.points)) for curve in result.curves] == [
        (ranks, 100) for ranks in range(1, 101)
    ]


def test_reading_loads_no_heavy_library() -> None:
    code = (
        "import sys, experiments.measurements; "
        "print([name for name in ('numpy', 'pandas', 'networkx', 'pydantic') if name in "
        "sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


MEASURED = Path(__file__).parents[5] / "shared" / "measured"
needs_curves = pytest.mark.skipif(
    not MEASURED.is_dir(), reason="the measured curves are not beside this checkout"
)


def index() -> dict[str, dict[str, str]]:
    with (MEASURED / "index.csv").open(newline="", encoding="utf-8") as file:
        return {row["case"]: row for row in csv.DictReader(file)}


def named(about: dict[str, str]) -> str:
    return {"alltoall": "all_to_all", "sendrecv": "send_recv"}.get(
        about["collective"], about["collective"]
    )


@needs_curves
def test_all_real_curves_are_what_their_index_says() -> None:
    cases = index()
    assert len(cases) == 229
    for case, about in cases.items():
        result = read(MEASURED / "curves" / f"{case}.csv")
        (curve,) = result.curves
        assert curve.collective == named(about)
        assert curve.collective in COLLECTIVES
        assert (curve.ranks, curve.nodes) == (int(about["ranks"]), int(about["nodes"]))
        assert (len(curve.points), result.skipped) == (int(about["rows"]), ())
        assert (curve.points[0].size, curve.points[-1].size) == (
            int(about["min_bytes"]),
            int(about["max_bytes"]),
        )
        assert not any("algbw_GBps" in note for note in curve.notes)


@needs_curves
def test_real_curves_have_the_values_written() -> None:
    folder = MEASURED / "curves"
    (ring,) = read(folder / "rtx2080ti_10g_tree_ar_p16.csv").curves
    assert (ring.points[0], ring.in_place[0]) == (
        Point(1048576, 5351.0 / 1e6),
        Point(1048576, 7940.7 / 1e6),
    )
    assert ring.notes == ("algorithm: Tree (by file name)",)
    (alps,) = read(folder / "alps_gh200_ofi192_ar_p16.csv").curves
    assert (len(alps.points), len(alps.in_place)) == (30, 29)


@needs_curves
def test_names_of_real_curves_agree_with_their_index(tmp_path: Path) -> None:
    for case, about in index().items():
        (curve,) = read(written(tmp_path, f"{case}.csv", PLAIN)).curves
        if curve.ranks is not None:
            assert (curve.ranks, curve.collective) == (int(about["ranks"]), named(about))


TIMES = st.floats(1e-9, 1e4)
WORDS = st.text("abcXYZ019 ,\"'_-.;é", max_size=12).map(str.strip)


DRAWN = st.builds(
    Point,
    st.integers(1, 2**50),
    TIMES,
    st.none() | st.integers(0, 2**40),
    st.none() | st.floats(0, 10),
    st.none() | st.integers(1, 10**6),
    *[st.none() | TIMES] * 3,
)
SERIES = st.lists(DRAWN, max_size=4, unique_by=lambda point: point.size).map(
    lambda points: tuple(sorted(points, key=lambda point: point.size))
)


@st.composite
def drawn_curves(draw: st.DrawFn) -> list[Curve]:
    collectives = [
        ("all_reduce", "ring"),
        ("all_gather", "ring_all_gather"),
        ("all_reduce", "trix6"),
        ("reduce", ""),
    ]
    curves = []
    for number in range(draw(st.integers(1, 4))):
        collective, algorithm = draw(st.sampled_from(collectives))
        per_node, nodes = draw(st.tuples(st.integers(1, 8), st.integers(1, 999)))
        points, in_place = draw(st.tuples(SERIES, SERIES).filter(any))
        protocol, library = draw(st.sampled_from(["", "LL128", "eager"])), draw(WORDS)
        curve = Curve(
            collective,
            per_node * nodes,
            nodes,
            points,
            in_place,
            f"{number}",
            (),
            algorithm,
            protocol,
            library,
            per_node,
        )
        backend, device, dtype, topology = draw(st.tuples(WORDS, WORDS, WORDS, WORDS))
        kind = draw(st.sampled_from(KINDS))
        curves.append(
            replace(
                curve, backend=backend, device=device, dtype=dtype, topology=topology, kind=kind
            )
        )
    return curves


def close(point: Point) -> object:
    """What a point equals that went to microseconds and back, which costs a last digit."""
    return tuple(
        value if not isinstance(value, float) else pytest.approx(value, rel=1e-14)
        for value in astuple(point)
    )


@given(drawn_curves())
def test_written_curves_are_read_again(curves: list[Curve]) -> None:
    measurements = parse_csv(write_runs(curves), Path("nowhere/run.csv"))
    assert measurements.skipped == ()
    assert [replace(curve, points=(), in_place=(), notes=()) for curve in measurements.curves] == [
        replace(curve, points=(), in_place=()) for curve in curves
    ]
    for again, wrote in zip(measurements.curves, curves, strict=True):
        assert list(map(astuple, again.points)) == list(map(close, wrote.points))
        assert list(map(astuple, again.in_place)) == list(map(close, wrote.in_place))


def test_a_point_is_a_row() -> None:
    curve = Curve(
        "reduce",
        None,
        None,
        (Point(8, 2e-6, 0, 0.5, 3, ran="tree LL"),),
        (Point(8, 1e-6),),
        "log",
        library="NCCL 2.29.2",
    )
    assert write_runs([curve]).splitlines() == [
        "collective,algorithm,protocol,ranks,nodes,size_bytes,in_place,"
        "time_us,min_us,p90_us,mean_us,cv,repetitions,"
        "wrong,ran,backend,device,dtype,library,topology,source,kind",
        "reduce,,,,,8,0,2.0,,,,0.5,3,0,tree LL,,,,NCCL 2.29.2,,log,collective",
        "reduce,,,,,8,1,1.0,,,,,,,,,,,NCCL 2.29.2,,log,collective",
    ]


def test_what_the_library_ran_is_read_and_canonical(tmp_path: Path) -> None:
    header = "collective,ranks,size_bytes,time_us,ran\n"
    rows = "all_gather,8,8,5,Ring ll128\nall_gather,8,16,5,\nall_reduce,8,8,5,tree\n"
    gathered, reduced = parse_csv(header + rows, tmp_path / "x.csv").curves
    assert [point.ran for point in gathered.points] == ["ring_all_gather LL128", ""]
    assert [point.ran for point in reduced.points] == ["tree"]
    [again, _] = parse_csv(write_runs([gathered, reduced]), tmp_path / "y.csv").curves
    assert again.points == gathered.points
    with pytest.raises(InputError, match="line 2: ran 'a b c': expected algorithm and protocol"):
        parse_csv(header + "all_gather,8,8,5,a b c\n", tmp_path / "x.csv")
