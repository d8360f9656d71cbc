"""CSV files of measured curves: what they say, where the rest is looked up, what is refused, and
the real ones."""

import csv
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements import COLLECTIVES, Curve, Point, read
from experiments.measurements.formats.runs_csv.csv_reader import parse_csv, read_csv
from topologies.errors import InputError

ROOT = Path(__file__).parents[5]
MEASURED = ROOT / ".." / "shared" / "measured"

PLAIN = "size_bytes,time_us\n8,20.5\n1024,30\n"
POINTS = (Point(8, 20.5 / 1e6), Point(1024, 30 / 1e6))


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


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
    "collective,algorithm,protocol,ranks,nodes,size_bytes,in_place,time_us,min_us,p90_us,mean_us,cv,repetitions,wrong,"
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


INDEX = (
    'case,collective,ranks,nodes,algorithm,note\nrun,sendrecv,8,2,Ring,"4 pairs, one way"\n'
    "odd,what,many,,,\n"
)


@pytest.mark.parametrize("where", [".", ".."])
def test_an_index_beside_the_file_or_one_up_says_the_rest(tmp_path: Path, where: str) -> None:
    folder = tmp_path / "curves"
    folder.mkdir()
    written(folder / where, "index.csv", INDEX)
    (curve,) = read(written(folder, "run.csv", PLAIN)).curves
    assert (curve.collective, curve.ranks, curve.nodes) == ("send_recv", 8, 2)
    assert (curve.algorithm, curve.notes) == ("ring", ("algorithm: Ring", "note: 4 pairs, one way"))


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("osu_mbw_mr", "multi-pair bandwidth"),
        ("osu_latency", "latency"),
        ("osu_allreduce", "collective"),
    ],
)
def test_an_index_that_names_the_program_says_what_was_measured(
    tmp_path: Path, program: str, kind: str
) -> None:
    written(
        tmp_path,
        "index.csv",
        f"case,collective,note\nrun,sendrecv,{program}: aggregate over 4 pairs\n",
    )
    assert read(written(tmp_path, "run.csv", PLAIN)).curves[0].kind == kind


FULL_INDEX = (
    "case,family,collective,ranks,nodes,gpus_per_node,gpu_model,intra,inter,nccl_or_mpi_version,algorithm,note\n"
    "run,F01 One,all_reduce,16,4,4,H100,NVLink4,4x NDR200,2.18.3,NCCL_PROTO=LL128,\n"
    'off,F01 One,all_reduce,16,4,4,H100,NVLink4,,NCCL 2.8.4-1,"label NVLS, NOT effective",\n'
    "own,F04 Two,all_reduce,64,64,1,,,,Cray MPICH (_over = the authors own),rabenseifner_over,\n"
)


def test_an_index_says_all_of_a_curve(tmp_path: Path) -> None:
    written(tmp_path, "index.csv", FULL_INDEX)
    run, off, own = (
        read(written(tmp_path, f"{case}.csv", PLAIN)).curves[0] for case in ("run", "off", "own")
    )
    assert (run.algorithm, run.protocol, run.library, run.gpus_per_node) == (
        "",
        "LL128",
        "NCCL 2.18.3",
        4,
    )
    assert (run.device, run.family, run.machine) == ("H100", "F01 One", "H100; NVLink4; 4x NDR200")
    assert (off.algorithm, off.library) == ("", "NCCL 2.8.4-1")
    assert off.notes[1] == "the label of the algorithm had no effect: the library chose"
    assert (own.algorithm, own.library) == (
        "halving_doubling",
        "Cray MPICH, the authors' own algorithm",
    )


def test_an_index_that_says_nonsense_is_noted(tmp_path: Path) -> None:
    written(tmp_path, "index.csv", INDEX)
    (curve,) = read(written(tmp_path, "odd.csv", PLAIN)).curves
    assert (curve.collective, curve.ranks, curve.nodes) == ("unknown", None, None)
    assert curve.notes == ("unknown collective 'what' in index.csv",)


def test_a_number_of_thousands_of_digits_in_an_index_is_none(tmp_path: Path) -> None:
    written(tmp_path, "index.csv", f"case,collective,ranks\nrun,all_reduce,{'1' * 5000}\n")
    assert read(written(tmp_path, "run.csv", PLAIN)).curves[0].ranks is None


def test_an_index_that_cannot_be_read_is_noted(tmp_path: Path) -> None:
    (tmp_path / "index.csv").write_bytes(b"case\0")
    (curve,) = read(written(tmp_path, "run_ar_p4.csv", PLAIN)).curves
    assert (curve.collective, curve.ranks) == ("all_reduce", 4)
    assert curve.notes[0].startswith("index not used: ")


def test_the_columns_outrank_the_index_and_the_index_the_name(tmp_path: Path) -> None:
    written(tmp_path, "index.csv", "case,collective,ranks\nrun_ar_p4,broadcast,8\n")
    (curve,) = read(written(tmp_path, "run_ar_p4.csv", PLAIN)).curves
    assert (curve.collective, curve.ranks) == ("broadcast", 8)
    text = "size_bytes,time_us,ranks\n8,1,16\n"
    (curve,) = read(written(tmp_path, "run_ar_p4.csv", text)).curves
    assert (curve.collective, curve.ranks) == ("broadcast", 16)


@pytest.mark.parametrize(
    ("name", "collective", "ranks"),
    [
        ("leo_ring_ompi_ar_p16", "all_reduce", 16),
        ("leo_allgather_reduce_ompi_ar_p4", "all_reduce", 4),
        ("x_ag_p1024", "all_gather", 1024),
        ("x_rs_p8", "reduce_scatter", 8),
        ("x_a2a_p8", "all_to_all", 8),
        ("x_bc_p8", "broadcast", 8),
        ("x_sr_p2", "send_recv", 2),
        ("all-reduce_p8", "all_reduce", 8),
        ("reduce_scatter_p8", "reduce_scatter", 8),
        ("allreduce", "all_reduce", None),
        ("nothing_p0", "unknown", None),
        ("star", "unknown", None),
    ],
)
def test_a_name_says_what_nothing_else_does(
    tmp_path: Path, name: str, collective: str, ranks: int | None
) -> None:
    (curve,) = read(written(tmp_path, f"{name}.csv", PLAIN)).curves
    assert (curve.collective, curve.ranks) == (collective, ranks)
    assert bool(curve.notes) == (collective != "unknown")


def test_rows_of_nothing_are_counted(tmp_path: Path) -> None:
    result = read(written(tmp_path, "run.csv", PLAIN + "0,3\n2048,0\n"))
    assert result.curves[0].points == POINTS
    assert result.skipped == ("2 rows of size or time 0: line 4, line 5",)


def test_a_bandwidth_that_disagrees_is_noted(tmp_path: Path) -> None:
    text = "size_bytes,time_us,algbw_GBps\n1048576,0.1,10.48576\n2097152,200,10.48576\n"
    (curve,) = read(written(tmp_path, "run.csv", text)).curves
    assert curve.notes == (
        "1 row whose algbw_GBps is not size_bytes / time_us (another unit?): line 2",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        (
            "size,time\n8,1\n",
            "line 1: no column size_bytes and time_us: expected size_bytes,time_us",
        ),
        ("size_bytes;time_us\n8;1\n", "line 1: no column size_bytes and time_us"),
        ("size_bytes,time\n8,1\n", "line 1: no column time_us"),
        ("size_bytes,time_us,time_us\n8,1,1\n", "line 1: a column name twice"),
        ("size_bytes,time_us\n", "a header and no rows"),
        ("size_bytes,time_us\n0,0\n", "a header and no rows with a size and a time above 0"),
        ("size_bytes,time_us\n8,abc\n", "line 2: time_us 'abc' is not a number"),
        ("size_bytes,time_us\n8,\n", "line 2: time_us '' is not a number"),
        ("size_bytes,time_us\n8,1_0\n", "line 2: time_us '1_0' is not a number"),
        (
            "size_bytes,time_us\n\n8,nan\n",
            "line 3: time_us 'nan': expected a finite number above 0",
        ),
        ("size_bytes,time_us\n8,inf\n", "line 2: time_us 'inf': expected a finite number above 0"),
        ("size_bytes,time_us\n8,-1\n", "line 2: time_us '-1': expected a finite number above 0"),
        ("size_bytes,time_us\n-8,1\n", "line 2: size_bytes '-8': expected a finite number above 0"),
        (
            "size_bytes,time_us\n8.5,1\n",
            "line 2: size_bytes '8.5': expected a whole number of bytes",
        ),
        ("size_bytes,time_us\n64M,1\n", "line 2: size_bytes '64M' is not a number"),
        (
            "size_bytes,time_us\n8,1\n8,2\n",
            "line 3: size_bytes 8 a second time: expected each size once",
        ),
        (
            "size_bytes,time_us,rate\n8,1,5\n8,2,9\n",
            "line 3: size_bytes 8 a second time: expected each size once (put what rate says "
            "under topology)",
        ),
        ("size_bytes,time_us\n8\n", "line 2: 1 value under 2 columns"),
        ("size_bytes,time_us\n8,1,2\n", "line 2: 3 values under 2 columns"),
        (
            "size_bytes,time_us,inplace_time_us\n8,1,x\n",
            "line 2: inplace_time_us 'x' is not a number",
        ),
        (
            "size_bytes,time_us,ranks\n8,1,two\n",
            "line 2: ranks 'two': expected a whole number above 0",
        ),
        ("size_bytes,time_us,in_place\n8,1,yes\n", "line 2: in_place 'yes': expected 0 or 1"),
        ("size_bytes,time_us,in_place\n8,1,1\n8,1,1\n", "line 3: size_bytes 8 a second time"),
        ("size_bytes,time_us,cv\n8,1,-1\n", "line 2: cv '-1': expected a finite number above 0"),
        (
            "size_bytes,time_us,repetitions\n8,1,0\n",
            "line 2: repetitions '0': expected a whole number above 0",
        ),
        ("size_bytes,time_us,wrong\n8,1,1.5\n", "line 2: wrong '1.5': expected a whole number"),
        ("size_bytes,time_us,min_us\n8,1,fast\n", "line 2: min_us 'fast' is not a number"),
        ("size_bytes,time_us,nodes\n8,1,0\n", "line 2: nodes '0': expected a whole number above 0"),
        ("size_bytes,time_us\n" + "9" * 5000 + ",1\n", "line 2: size_bytes '" + "9" * 40 + "'"),
        (
            "size_bytes,time_us\n1e300,1\n",
            "line 2: size_bytes '1e300': expected a whole number of bytes below 1e18",
        ),
        ("size_bytes,time_us,ranks\n8,1," + "9" * 5000 + "\n", "line 2: ranks '" + "9" * 40 + "'"),
        (
            "size_bytes,time_us,kind\n8,1,fast\n",
            "line 2: kind 'fast': expected one of collective, latency, ",
        ),
        (
            "size_bytes,time_us,collective\n8,1,foo\n",
            "line 2: collective 'foo': expected one of all_reduce, ",
        ),
        (
            'size_bytes,time_us\n8,"' + "x" * 200_000 + "\n",
            "not a CSV: field larger than field limit",
        ),
        ("size_bytes,time_us\n8,1\0\n", "line 2: a NUL byte"),
    ],
)
def test_a_bad_csv_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, "run.csv", text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_mistakes_of_a_file_are_reported_together(tmp_path: Path) -> None:
    path = written(tmp_path, "run.csv", "size_bytes,time_us\n8,a\n9,b\n10,c\n11,d\n12,e\n")
    with pytest.raises(InputError, match=r"line 2: .*; line 3: .*; line 4: .*; and 2 more$"):
        read_csv(path)


SIZES = st.lists(st.integers(1, 2**50), min_size=1, unique=True)
TIMES = st.floats(1e-3, 1e9)


@given(SIZES, st.data())
def test_what_is_written_is_read(sizes: list[int], data: st.DataObject) -> None:
    times = [data.draw(TIMES) for _ in sizes]
    text = "size_bytes,time_us\n" + "".join(
        f"{size},{us!r}\n" for size, us in zip(sizes, times, strict=True)
    )
    (curve,) = parse_csv(text, Path("nowhere/run.csv")).curves
    assert curve.points == tuple(
        Point(size, us / 1e6) for size, us in sorted(zip(sizes, times, strict=True))
    )


@given(st.text(alphabet="size_byt,mu\n\r\"' 0123456789.-enaif;", max_size=200))
def test_any_text_is_read_or_refused(tail: str) -> None:
    try:
        curves = parse_csv("size_bytes,time_us\n" + tail, Path("nowhere/run.csv")).curves
    except InputError as error:
        refused = str(error)
    else:
        refused = ""
        assert all(
            point.size > 0 and point.time_s > 0 for curve in curves for point in curve.points
        )
    assert "\n" not in refused


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


# Real curves


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
