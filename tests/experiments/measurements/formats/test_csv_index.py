"""Indexes of CSV files, and CSV files that are damaged or too long."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csv_texts import PLAIN, POINTS, written
from experiments.measurements import Point, read, read_all
from experiments.measurements.formats import runs_csv
from experiments.measurements.formats.csv_index import MOST_LINES, entries
from experiments.measurements.formats.runs_csv import parse_csv
from grouped_cases import each_case
from refusals import refusal
from topologies.errors import InputError

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
    "case,family,collective,ranks,nodes,gpus_per_node,gpu_model,intra,inter,"
    "nccl_or_mpi_version,algorithm,note\n"
    "run,F01 One,all_reduce,16,4,4,H100,NVLink4,4x NDR200,2.18.3,NCCL_PROTO=LL128,\n"
    'off,F01 One,all_reduce,16,4,4,H100,NVLink4,,NCCL 2.8.4-1,"label NVLS, NOT effective",\n'
    "own,F04 Two,all_reduce,64,64,1,,,,Cray MPICH (_over = the authors own),rabenseifner_over,\n"
)


def test_an_index_says_all_of_a_curve(tmp_path: Path) -> None:
    written(tmp_path, "index.csv", FULL_INDEX)
    run, off, variant = (
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
    assert (variant.algorithm, variant.library) == (
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


@each_case(
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


HEADER = "size_bytes,time_us\n"


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


SPOILED = [
    (",time_us\n8,1,1", "line 1: a column name twice"),
    ("\n0,0", "a header and no rows with a size and a time above 0"),
    ("\n8,abc", "line 2: time_us 'abc' is not a number"),
    ("\n8,", "line 2: time_us '' is not a number"),
    ("\n8,1_0", "line 2: time_us '1_0' is not a number"),
    ("\n\n8,nan", "line 3: time_us 'nan': expected a finite number above 0"),
    ("\n8,inf", "line 2: time_us 'inf': expected a finite number above 0"),
    ("\n8,-1", "line 2: time_us '-1': expected a finite number above 0"),
    ("\n-8,1", "line 2: size_bytes '-8': expected a finite number above 0"),
    ("\n8.5,1", "line 2: size_bytes '8.5': expected a whole number of bytes"),
    ("\n64M,1", "line 2: size_bytes '64M' is not a number"),
    ("\n8,1\n8,2", "line 3: size_bytes 8 a second time: expected each size once"),
    (",rate\n8,1,5\n8,2,9", "expected each size once (put what rate says under topology)"),
    ("\n8", "line 2: 1 value under 2 columns"),
    ("\n8,1,2", "line 2: 3 values under 2 columns"),
    (",inplace_time_us\n8,1,x", "line 2: inplace_time_us 'x' is not a number"),
    (",ranks\n8,1,two", "line 2: ranks 'two': expected a whole number above 0"),
    (",in_place\n8,1,yes", "line 2: in_place 'yes': expected 0 or 1"),
    (",in_place\n8,1,1\n8,1,1", "line 3: size_bytes 8 a second time"),
    (",cv\n8,1,-1", "line 2: cv '-1': expected a finite number above 0"),
    (",repetitions\n8,1,0", "line 2: repetitions '0': expected a whole number above 0"),
    (",wrong\n8,1,1.5", "line 2: wrong '1.5': expected a whole number"),
    (",min_us\n8,1,fast", "line 2: min_us 'fast' is not a number"),
    (",nodes\n8,1,0", "line 2: nodes '0': expected a whole number above 0"),
    ("\n1e300,1", "line 2: size_bytes '1e300': expected a whole number of bytes below 1e18"),
    (",kind\n8,1,fast", "line 2: kind 'fast': expected one of collective, latency, "),
    (",collective\n8,1,foo", "line 2: collective 'foo': expected one of all_reduce, "),
    ("\n8,1\0", "line 2: a NUL byte"),
]
"""What follows the two columns of a header, and why it is refused."""


@each_case(
    ("text", "says"),
    [
        ("", "is empty"),
        (
            "size,time\n8,1\n",
            "line 1: no column size_bytes and time_us: expected size_bytes,time_us",
        ),
        ("size_bytes;time_us\n8;1\n", "line 1: no column size_bytes and time_us"),
        ("size_bytes,time\n8,1\n", "line 1: no column time_us"),
        ("size_bytes,time_us\n", "a header and no rows"),
        ("size_bytes,time_us\n" + "9" * 5000 + ",1\n", "line 2: size_bytes '" + "9" * 40 + "'"),
        ("size_bytes,time_us,ranks\n8,1," + "9" * 5000 + "\n", "line 2: ranks '" + "9" * 40 + "'"),
        (
            'size_bytes,time_us\n8,"' + "x" * 200_000 + "\n",
            "not a CSV: field larger than field limit",
        ),
        *((f"size_bytes,time_us{text}\n", says) for text, says in SPOILED),
    ],
)
def test_a_bad_csv_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, "run.csv", text)
    message = refusal(read, path)
    assert says in message
    assert str(path) in message


def test_the_mistakes_of_a_file_are_reported_together(tmp_path: Path) -> None:
    path = written(tmp_path, "run.csv", "size_bytes,time_us\n8,a\n9,b\n10,c\n11,d\n12,e\n")
    with pytest.raises(InputError, match=r"line 2: .*; line 3: .*; line 4: .*; and 2 more$"):
        read(path)


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


def test_a_million_rows_are_refused_before_any_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "long.csv"
    file.write_text(HEADER + "".join(f"{8 * k},{k}.5\n" for k in range(1, 1_000_001)))
    monkeypatch.setattr(runs_csv, "_named", lambda row: pytest.fail(f"read {row}"))
    tracemalloc.start()
    message = refusal(lambda: read(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (
        message
        == f"{file} has 1000001 lines: expected at most {MOST_LINES}, split it by collective"
    )
    assert peak < 5 * file.stat().st_size


def test_as_many_rows_as_allowed_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.measurements.formats.csv_index.MOST_LINES", 4)
    file = tmp_path / "long.csv"
    file.write_text(f"{HEADER}8,1\n16,2\n32,3\n")
    assert len(read(file).curves[0].points) == 3
    file.write_text(f"{HEADER}8,1\n16,2\n32,3\n64,4\n")
    assert "has 5 lines: expected at most 4" in refusal(lambda: read(file))


def test_an_index_of_too_many_lines_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.measurements.formats.csv_index.MOST_LINES", 2)
    (tmp_path / "index.csv").write_text("case,family\na,F\nb,F\n")
    assert "has 3 lines" in refusal(lambda: entries(tmp_path / "index.csv"))
    assert "has 3 lines" in refusal(lambda: read_all([tmp_path]))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_do_on_any_system(end: str, tmp_path: Path) -> None:
    file = tmp_path / "ends.csv"
    file.write_bytes(
        end.join(
            ("size_bytes,time_us,source", '8,1.5,"two', 'lines"', "", "16,2.5,\u2028x", "")
        ).encode()
    )
    measurements = read(file)
    assert [point.size for curve in measurements.curves for point in curve.points] == [8, 16]
    assert [curve.source for curve in measurements.curves] == [f"two{end}lines", "\u2028x".strip()]


def test_a_mistake_is_named_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mistake.csv"
    file.write_text(f'{HEADER}8,1\n16,"2\n3"\n')
    assert f"{file} line 4: time_us '2\\n3' is not a number" in refusal(lambda: read(file))
