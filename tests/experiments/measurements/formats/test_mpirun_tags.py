"""Tags of mpirun in the middle of a row: it writes one before everything that a rank flushes, row
or piece of one."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements import Point
from experiments.measurements.formats.osu_reader import parse_osu
from grouped_cases import each_case
from nccl_logs import (
    FOOTER,
    INFO,
    SIZES,
    WHOLE,
    expected,
    log,
    only,
    parse,
    preamble,
    row,
    rows,
    same,
)
from refusals import refusal
from topologies.errors import InputError

TAG, OTHER, NEWER = "[1,0]<stdout>:", "[1,5]<stderr>:", "[prterun-node1-4242@1,0]<stdout>: "
CUTS = (52, 86)
"""Where nccl-tests ends what it prints at once: after the root, and after the first #wrong."""


def pieces(line: str) -> list[str]:
    return [
        line[start:end]
        for start, end in zip((0, *CUTS), (*CUTS, None), strict=True)
        if line[start:end]
    ]


def whole(line: str, tag: str) -> str:
    return f"{tag}{line}"


def glued(line: str, tag: str) -> str:
    """Every piece with a tag, all on one line."""
    return "".join(f"{tag}{piece}" for piece in pieces(line))


def glued_and_ended(line: str, tag: str) -> str:
    """As `glued`, and the line's end has a tag too."""
    return f"{glued(line, tag)}{tag}"


def a_line_each(line: str, tag: str) -> str:
    """Every piece on a line."""
    return "\n".join(f"{tag}{piece}" for piece in pieces(line))


def with_a_stranger(line: str, tag: str) -> str:
    """Another rank writes a line after each piece but the last."""
    return f"{OTHER}{INFO}\n".join(f"{tag}{piece}" for piece in pieces(line))


def with_strangers_that_end_their_lines(line: str, tag: str) -> str:
    """The same on lines of their own."""
    return f"\n{OTHER}{INFO}\n".join(f"{tag}{piece}" for piece in pieces(line))


def with_a_stranger_amid(line: str, tag: str) -> str:
    """Another rank writes pieces in between, on the same line."""
    first, second, third = pieces(line)
    return f"{tag}{first}{OTHER}one two{tag}{second}{OTHER} three{tag}{third}"


def with_several_strangers(line: str, tag: str) -> str:
    first, second, third = pieces(line)
    return f"{tag}{first}{OTHER}{INFO}\n{OTHER}{INFO}\n{tag}{second}{tag}{third}"


SHAPES: list[Callable[[str, str], str]] = [
    glued,
    glued_and_ended,
    a_line_each,
    with_a_stranger,
    with_strangers_that_end_their_lines,
    with_a_stranger_amid,
    with_several_strangers,
]
OF_THREE_PIECES = (with_a_stranger_amid, with_several_strangers)


def tagged(shape: Callable[[str, str], str], tag: str = TAG, body: list[str] | None = None) -> str:
    lines = [shape(line, tag) for line in (rows() if body is None else body)]
    return "\n".join(
        [*(f"{tag}{line}" for line in preamble()), *lines, *(f"{tag}{line}" for line in FOOTER), ""]
    )


@pytest.mark.parametrize("tag", [TAG, NEWER, "[12345,0]<stdout>:"])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_put_together_whole_from_their_pieces(
    shape: Callable[[str, str], str], tag: str
) -> None:
    same(tagged(shape, tag))


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_many_sizes_are_put_together(shape: Callable[[str, str], str]) -> None:
    sizes = [8 * 2**k for k in range(28)]
    body = [row(size, f"{20 + size / 1e5:.5g}", f"{19 + size / 1e5:.5g}") for size in sizes]
    text = tagged(shape, body=body).replace("step: 128(factor)", "step: 2(factor)")
    measurements = parse(text)
    assert measurements.skipped == ()
    (curve,) = measurements.curves
    assert curve.points == tuple(
        Point(s, float(f"{20 + s / 1e5:.5g}") / 1e6, 0, repetitions=20) for s in sizes
    )
    assert [point.size for point in curve.in_place] == sizes


def test_a_row_as_a_user_saw_it() -> None:
    """The start of the row has no tag, the others have."""
    line = rows()[3]
    first, second, third = pieces(line)
    same(log(*rows()[:3], f"{first}{TAG}{second}{TAG}{third}"))


@each_case("shape", [shape for shape in SHAPES if shape not in OF_THREE_PIECES])
def test_a_table_without_in_place_columns_is_read_too(shape: Callable[[str, str], str]) -> None:
    text = tagged(shape, body=[line[:86] for line in rows()])
    header = preamble()[-2]
    text = text.replace(header, header[: header.index("#wrong") + 6])
    assert only(text).points == expected(("20.31", "21.92", "40.57", "1311.4"))


def test_the_tag_of_another_rank_begins_another_line() -> None:
    """Two jobs at once in one file: the pieces of rank 5 are no pieces of rank 0's row."""
    line = rows()[1]
    text = tagged(whole).replace(f"{TAG}{line}", f"{TAG}{line[:52]}{OTHER}{line[52:]}")
    measurements = parse(text)
    assert [point.size for point in measurements.curves[0].points] == [
        size for size in SIZES if size != 1024
    ]
    assert measurements.skipped == ("1 row torn beyond repair: line 14",)


def test_lines_of_osu_are_put_together_too() -> None:
    body = [f"{TAG}{size:<10d}{TAG}{time:>18.2f}" for size, time in ((4, 5.1), (8, 5.2), (16, 6.0))]
    text = "\n".join(
        [
            f"{TAG}# OSU MPI Allreduce Latency Test v7.3",
            f"{TAG}# Size       Avg Latency(us)",
            *body,
            "",
        ]
    )
    measurements = parse_osu(text, "x.out")
    assert measurements.skipped == ()
    assert [(point.size, point.time_s) for point in measurements.curves[0].points] == [
        (4, 5.1 / 1e6),
        (8, 5.2 / 1e6),
        (16, 6.0 / 1e6),
    ]


TRUTH = {*WHOLE.points, *WHOLE.in_place}


@given(st.sampled_from(SHAPES), st.data())
def test_lost_lines_and_cut_ends_invent_nothing(
    shape: Callable[[str, str], str], data: st.DataObject
) -> None:
    lines = tagged(shape).split("\n")
    head = next(at for at, line in enumerate(lines) if re.search(r"\bsize\b", line)) + 1
    lost = data.draw(st.sets(st.integers(head, len(lines) - 1), max_size=6))
    text = "\n".join(line for number, line in enumerate(lines) if number not in lost)
    text = text[: data.draw(st.integers(len(text) // 2, len(text)))]
    try:
        curves = parse(text).curves
    except InputError:
        return
    measurements = {point for curve in curves for point in (*curve.points, *curve.in_place)}
    assert {(point.size, point.time_s) for point in measurements} <= {
        (point.size, point.time_s) for point in TRUTH
    }


def test_a_log_of_nothing_but_tags_is_refused() -> None:
    assert "no nccl-tests table" in refusal(
        lambda: parse("\n".join([TAG * 3, TAG, f"algbw{TAG}busbw"]))
    )
