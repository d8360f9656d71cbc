"""Several files and folders read as one: what belongs to a family, what cannot be read, and the
real folder."""

from pathlib import Path

import pytest

import nccl_logs
from experiments.measurements import read_all
from experiments.measurements.reading import belongs
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
