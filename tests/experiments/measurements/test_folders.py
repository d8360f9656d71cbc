"""Several files read as one, their network, and a curve as a table."""

from pathlib import Path

import pandas as pd
import pytest

import nccl_logs
from experiments.measurements import Curve, Point, read, read_all
from experiments.measurements.formats.osu_reader import parse_osu
from experiments.measurements.networks import network_of
from experiments.measurements.reading import belongs
from grouped_cases import each_case
from nccl_logs import log, only, parse
from refusals import refusal
from topologies.errors import InputError

MEASURED = Path(__file__).parents[3] / ".." / "shared" / "measured"
PLAIN = "size_bytes,time_us\n8,20.5\n"
INDEX = (
    "case,family,collective,ranks,algorithm\na,F01 One,all_reduce,4,Ring\nb,F02 "
    "Two,all_reduce,8,\nc,F01 One,,,\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An index of three curves in two families, the third of which is not there."""
    (tmp_path / "curves").mkdir()
    (tmp_path / "index.csv").write_text(INDEX)
    (tmp_path / "curves" / "a.csv").write_text(PLAIN)
    (tmp_path / "curves" / "b.csv").write_text(PLAIN)
    return tmp_path


def test_a_folder_with_an_index_is_the_curves_it_lists(folder: Path) -> None:
    measurements = read_all([folder])
    assert [(curve.family, curve.ranks, curve.algorithm) for curve in measurements.curves] == [
        ("F01 One", 4, "ring"),
        ("F02 Two", 8, ""),
    ]
    assert measurements.skipped == (f"{folder / 'c.csv'}: not read: no such file",)


@pytest.mark.parametrize("family", ["F02", "f02 two", "F02 Two"])
def test_a_family_alone(folder: Path, family: str) -> None:
    measurements = read_all([folder], family)
    assert ([curve.ranks for curve in measurements.curves], measurements.skipped) == ([8], ())


def test_a_family_that_is_not_there_names_those_that_are(folder: Path) -> None:
    with pytest.raises(
        InputError, match=r"no curve of family 'F0' in .*: expected one of F01 One, F02 Two$"
    ):
        read_all([folder], "F0")
    assert not belongs("F01p One", "F01")


def test_a_folder_without_an_index_is_its_files(tmp_path: Path) -> None:
    (tmp_path / "b_ar_p4.csv").write_text(PLAIN + "0,1\n")
    (tmp_path / "a_bc_p4.txt").write_text(PLAIN)
    (tmp_path / "notes.txt").write_text("hello\n")
    (tmp_path / "empty.log").write_text("")
    (tmp_path / "picture.png").write_text("no")
    (tmp_path / "inside.csv").mkdir()
    measurements = read_all([tmp_path])
    assert [curve.source for curve in measurements.curves] == [
        str(tmp_path / "a_bc_p4.txt"),
        str(tmp_path / "b_ar_p4.csv"),
    ]
    assert [line.partition(": ")[0] for line in measurements.skipped] == [
        str(tmp_path / name) for name in ("b_ar_p4.csv", "empty.log", "notes.txt")
    ]
    assert measurements.skipped[0].endswith("b_ar_p4.csv: 1 row of size or time 0: line 3")


def test_a_family_of_files_without_families_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text("size_bytes,time_us\n8,20.5\n")
    with pytest.raises(InputError, match=r"the files name no family: leave out --family$"):
        read_all([tmp_path], "F0")


def test_curves_of_no_family_are_counted(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.csv"
    alone.write_text(PLAIN)
    measurements = read_all([alone, folder], "F02")
    assert (len(measurements.curves), measurements.skipped) == (
        1,
        ("1 of 2 curves: not of family F02",),
    )


def test_a_file_given_by_name_must_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("size_bytes,time_us\n8,x\n")
    assert "time_us 'x' is not a number" in refusal(read_all, [tmp_path / "a.csv"])
    assert "no such file" in refusal(read_all, [tmp_path / "b.csv"])
    with pytest.raises(
        InputError, match=r"no measurements in .*: .*a.csv: not read: .*'x' is not a number"
    ):
        read_all([tmp_path])
    assert "no measurements in no file" in refusal(read_all, [])


def test_an_index_written_anew_is_read_anew(folder: Path) -> None:
    assert len(read_all([folder], "F02").curves) == 1
    (folder / "index.csv").write_text(INDEX.replace("F02 Two", "F03 Three"))
    assert len(read_all([folder], "F03").curves) == 1


@pytest.mark.skipif(
    not MEASURED.is_dir(), reason="the measured curves are not beside this checkout"
)
def test_the_real_folder() -> None:
    measurements = read_all([MEASURED])
    assert (len(measurements.curves), measurements.skipped) == (229, ())
    ours = read_all([MEASURED], "F01").curves
    assert {(curve.algorithm, curve.nodes, curve.gpus_per_node) for curve in ours} == {
        (algorithm, nodes, 4) for algorithm in ("ring", "tree", "") for nodes in (4, 8, 16)
    }
    assert sum("NOT effective" in " ".join(curve.notes) for curve in ours) == 6
    slow = read_all([MEASURED], "F06p").curves
    assert sum("NOT a latency" in " ".join(curve.notes) for curve in slow) == 4
    assert {curve.library for curve in read_all([MEASURED], "F04").curves} == {
        "Cray MPICH 8.1.29",
        "Cray MPICH 8.1.29, the authors' own algorithm",
    }


def test_a_file_given_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(PLAIN)
    (tmp_path / "b.csv").write_text(PLAIN)
    (tmp_path / "link.csv").symlink_to("a.csv")
    once = read_all([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert (len(once.curves), once.skipped) == (2, ())
    again = tmp_path / "." / "link.csv"
    twice = read_all([tmp_path / "a.csv", again])
    assert (len(twice.curves), twice.skipped) == (1, (f"{again}: given twice, counted once",))
    folder = read_all([tmp_path, tmp_path / "b.csv"])
    first = tmp_path / "link.csv"
    assert (len(folder.curves), folder.skipped) == (
        2,
        (f"{first} and 1 other file: given twice, counted once",),
    )


def test_what_says_how_a_table_was_made_is_no_measurement(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(PLAIN)
    (tmp_path / "a.csv.meta.json").write_text("{}")
    assert read_all([tmp_path]).skipped == ()


def test_a_case_that_no_file_can_be_called_is_refused(folder: Path) -> None:
    (folder / "index.csv").write_text(f"{INDEX}{'x' * 300},F01 One,,,\n")
    with pytest.raises(
        InputError,
        match=rf"^{folder}/index\.csv: case 'x{{40}}'\.\.\. has 300 characters: 200 at most$",
    ):
        read_all([folder])


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.csv", "size_bytes,time_us\n8,x\n", "line 2: time_us 'x' is not a number"),
        (
            "a.csv",
            "size_bytes,time_us\n",
            "a header and no rows with a size and a time above 0: expected at least one",
        ),
        (
            "a.csv",
            "",
            "it is empty: expected an nccl-tests log or a CSV with size_bytes and time_us",
        ),
        (
            "a.log",
            "nothing",
            "no nccl-tests table: expected a header line with size, time, algbw, busbw",
        ),
    ],
)
def test_a_file_that_is_skipped_is_named_once(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    (tmp_path / "whole.log").write_text(nccl_logs.log())
    (tmp_path / name).write_text(text)
    (line,) = read_all([tmp_path]).skipped
    assert line.startswith(f"{tmp_path / name}: not read: {why}")
    assert line.count(name) == 1


INFO = "node1:42:50 [0] NCCL INFO "


@each_case(
    ("line", "network"),
    [
        (f"{INFO}NET/OFI Selected Provider is cxi (found 4 nics)", "Slingshot"),
        (f"{INFO}NET/OFI Selected provider is efa, fabric is efa-direct (found 4 nics)", "EFA"),
        ("+ export FI_CXI_RX_MATCH_MODE=software", "Slingshot"),
        ("FI_PROVIDER=cxi", "Slingshot"),
        ("MPICH Slingshot Network Summary: 0 network timeouts", "Slingshot"),
        (
            f"{INFO}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
            "InfiniBand",
        ),
        (f"{INFO}NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>", "RoCE"),
        (f"{INFO}NCCL_IB_HCA set by environment to mlx5", "InfiniBand"),
        (f"{INFO}Using network Socket", "TCP"),
        (f"{INFO}NCCL_IB_DISABLE set by environment to 1", ""),
        (f"{INFO}NET/IB : No device found.", ""),
        (f"NCCL_IB_HCA=mlx5\n{INFO}NET/OFI Selected Provider is cxi (found 4 nics)", "Slingshot"),
        ("cd /home/me/slingshot/profile/aws-ofi-nccl", ""),
    ],
)
def test_a_line_of_a_log_names_the_network(line: str, network: str) -> None:
    assert network_of(line) == network
    assert only(f"{line}\n{log()}").network == network
    assert only(f"{log()}{line}\n").network == network


@pytest.mark.parametrize(
    ("column", "network"),
    [("2x Slingshot-11", "Slingshot"), ("4x NDR200 InfiniBand", "InfiniBand"), ("NVLink", "")],
)
def test_a_csv_names_it_under_topology(tmp_path: Path, column: str, network: str) -> None:
    path = tmp_path / "slingshot_cxi_ofi.csv"
    path.write_text(f"size_bytes,time_us,topology\n8,1,{column}\n")
    assert read(path).curves[0].network == network


@each_case(
    ("line", "names"),
    [
        ("+ export FI_CXI_RX_MATCH_MODE=software", ("FI_CXI_RX_MATCH_MODE",)),
        (
            "mpirun -x NCCL_IB_HCA=mlx5_0 -x UCX_TLS=rc,cuda ./all_reduce_perf",
            ("NCCL_IB_HCA", "UCX_TLS"),
        ),
        (f"{INFO}NCCL_NET_GDR_LEVEL set by environment to PHB", ("NCCL_NET_GDR_LEVEL",)),
        ("export NCCL_TOPO_FILE=/etc/topo.xml", ("NCCL_TOPO_FILE",)),
        ("export NCCL_DEBUG=INFO\nunset NCCL_DEBUG", ()),
        ("export NCCL_DEBUG=$LEVEL", ()),
        ("please set FI_CXI_RX_MATCH_MODE=hybrid", ()),
        ("libfabric: FI_CXI_RX_MATCH_MODE=[hybrid|software] is required", ()),
    ],
)
def test_a_log_names_the_variables_that_are_set(line: str, names: tuple[str, ...]) -> None:
    assert only(f"{line}\n{log()}").variables == names


def test_variables_of_one_test_are_not_those_of_the_next() -> None:
    first, second = parse(f"NCCL_PROTO=LL srun\n{log()}{log()}").curves
    assert (first.variables, second.variables) == (("NCCL_PROTO",), ())


def test_osu_names_both_too() -> None:
    text = (
        "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n4                  "
        "     1.73\n"
    )
    (curve,) = parse_osu(f"export FI_CXI_RDZV_THRESHOLD=16384\n{text}", "x.out").curves
    assert (curve.network, curve.variables) == ("Slingshot", ("FI_CXI_RDZV_THRESHOLD",))


LOUD = Curve("all_gather", None, None, (), (Point(64, 1e-5, 3),), "y.csv", capped=True)
CURVE = Curve(
    "all_reduce",
    4,
    2,
    (Point(8, 2e-6), Point(16, 3e-6, 0, 0.01, 20, 1e-6, 4e-6, 3.1e-6)),
    (Point(8, 1e-6),),
    "x.csv",
    ("one", "two"),
    algorithm="ring",
    gpus_per_node=2,
)
TYPES = {
    "collective": "string",
    "ranks": "Int64",
    "size_B": "int64",
    "in_place": "bool",
    "time_s": "float64",
    "wrong": "Int64",
    "cv": "float64",
    "capped": "bool",
}


def test_a_row_for_each_point() -> None:
    table = CURVE.to_frame()
    assert {name: str(table[name].dtype) for name in TYPES} == TYPES
    assert table["size_B"].tolist() == [8, 16, 8]
    assert table["time_s"].tolist() == [2e-6, 3e-6, 1e-6]
    assert table["in_place"].tolist() == [False, False, True]
    assert table["algorithm"].tolist() == ["ring"] * 3
    assert LOUD.to_frame()[["size_B", "in_place", "capped"]].values.tolist() == [[64, True, True]]


def test_what_is_not_known_is_missing_and_not_zero() -> None:
    table = CURVE.to_frame()
    assert LOUD.to_frame()["ranks"].isna().all()
    assert table["wrong"].isna().tolist() == [True, False, True]
    assert table["cv"].isna().tolist() == [True, False, True]
    statistics = table[["wrong", "repetitions", "min_s", "p90_s", "mean_s"]].to_dict("records")[1]
    assert list(statistics.values()) == [0, 20, 1e-6, 4e-6, 3.1e-6]


def test_a_curve_without_points_is_a_table_without_rows() -> None:
    table = Curve("reduce", 2, 1, (), (), "z.csv").to_frame()
    assert len(table) == 0
    assert {name: str(table[name].dtype) for name in TYPES} == TYPES


def test_tables_of_a_file_can_be_joined(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(
        "collective,algorithm,ranks,size_bytes,time_us\nallreduce,Ring,4,8,1\n"
        "allreduce,Tree,4,8,2\n"
    )
    table = pd.concat(curve.to_frame() for curve in read(path).curves)
    assert table.groupby("algorithm")["time_s"].sum().to_dict() == {"ring": 1e-6, "tree": 2e-6}
    assert set(table["source"]) == {str(path)}
