"""CSV files of measured curves: their columns, and what they say of a curve."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from curve_csvs import PLAIN, POINTS, written
from experiments.measurements import Curve, Point, read

ROOT = Path(__file__).parents[5]


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
