"""NCCL's tuner file: what is written is read back, and what is wrong is refused with its line."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from experiments.simulations.tuner_file import (
    ALGORITHMS,
    COLLECTIVES,
    LAST,
    PROTOCOLS,
    Line,
    ranges,
    read_tuner,
    written,
)
from grouped_cases import each_case
from refusals import refusal

whole = st.integers(0, LAST)
option = st.integers(-1, 1024)
lines = st.lists(
    st.builds(
        Line,
        st.sampled_from(sorted(COLLECTIVES.values())),
        st.integers(0, 2**16),
        st.integers(2**16, LAST),
        st.sampled_from(ALGORITHMS),
        st.sampled_from(PROTOCOLS),
        *[option] * 5,
    )
)


@given(lines)
def test_lines_are_read_back(lines: list[Line]) -> None:
    text = written(lines, ["a comment"])
    assert text.startswith("# a comment\n")
    assert [tuple(row.split(",")) for row in text.splitlines()[1:]] == [
        tuple(map(str, line)) for line in lines
    ]


def test_a_file_is_read_back(tmp_path: Path) -> None:
    wanted = [
        Line("allreduce", 0, 65535, "tree", "ll", 4, 2, 16),
        Line("allreduce", 65536, LAST, "ring", "simple", -1, 2, 16),
    ]
    path = tmp_path / "nccl_tuner.conf"
    path.write_text(written(wanted, ["made by a test"]))
    assert read_tuner(path) == wanted


def test_lines_of_eight_fields_leave_the_last_two_open(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n# old\nbroadcast,0,1024,ring,ll128,-1,-1,-1\n")
    assert read_tuner(path) == [Line("broadcast", 0, 1024, "ring", "ll128")]


@each_case(
    ("row", "message"),
    [
        ("allreduce,0,1", "3 fields, expected 8, 9 or 10"),
        ("alltoall,0,1,ring,ll,-1,-1,-1", "collective 'alltoall', expected one of allreduce, "),
        ("allreduce,0,1,rnig,ll,-1,-1,-1", "algorithm 'rnig', expected one of tree, ring, "),
        ("allreduce,0,1,ring,l1,-1,-1,-1", "protocol 'l1', expected one of ll, ll128, simple"),
        ("allreduce,9,1,ring,ll,-1,-1,-1", "9 to 1 bytes, the first is greater"),
        ("allreduce,0,x,ring,ll,-1,-1,-1", "'x' is no whole number"),
        ("allreduce,0,1,ring,ll,-2,-1,-1", "-2, expected -1 to 4294967295"),
        ("allreduce,0,4294967296,ring,ll,-1,-1,-1", "4294967296, expected 0 to 4294967295"),
    ],
)
def test_wrong_lines_are_refused(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"# comment\n{row}\n")
    assert refusal(read_tuner, path).startswith(f"{path} line 2: {message}")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8" in refusal(read_tuner, path)


def test_ranges_cover_all_sizes() -> None:
    spans = ranges([8.0, 4096.0, 2.0**33])
    assert spans == [(0, 4095), (4096, LAST)]
