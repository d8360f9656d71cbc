"""Files of machines: their text and values, and damage that is read or refused in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import tries
from refusals import attempt, refusal
from tests.topologies.readers.test_graph_files import GOLDEN, GOLDEN_JSON
from topologies.errors import as_text, shown, spelling
from topologies.link import Link
from topologies.readers.contents import LIMIT, check_text, csv_rows
from topologies.readers.files import check_connected, read_graphml, read_json, read_yaml, to_graphml
from topologies.readers.nccl_xml import read_nccl_xml
from topologies.readers.nvidia_smi import read_matrix
from topologies.shapes import SHAPES, star
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder


def machine(links: list[str], ranks: str) -> Topology:
    builder = TopologyBuilder("machine")
    for name in "abcd":
        builder.device(name)
    for ends in links:
        builder.link(ends[0], ends[1], Link(1e9))
    return builder.build(list(ranks))


@each_case("shape", SHAPES)
def test_every_shape_is_connected(shape: str) -> None:
    check_connected(SHAPES[shape](4, bandwidth=1e9), "file")


@each_case(
    ("links", "ranks"),
    [
        (["ab", "bc", "cd", "da"], "abcd"),
        (["ab", "ba"], "ab"),
        (["ab", "ba"], "abba"),
        (["ab"], "aa"),
        ([], "c"),
    ],
)
def test_one_way_round_and_devices_without_ranks_are_fine(links: list[str], ranks: str) -> None:
    check_connected(machine(links, ranks), "file")


@each_case(
    ("links", "ranks", "ends"),
    [
        ([], "ab", "rank 0 (a) to rank 1 (b)"),
        (["ab", "ba", "cd", "dc"], "abcd", "rank 0 (a) to rank 2 (c)"),
        (["ab", "bc"], "ac", "rank 1 (c) to rank 0 (a)"),
        (["ba"], "ab", "rank 0 (a) to rank 1 (b)"),
        (["ab", "ba", "cb"], "bac", "rank 0 (b) to rank 2 (c)"),
    ],
)
def test_two_ranks_without_a_route_are_named(links: list[str], ranks: str, ends: str) -> None:
    assert (
        refusal(check_connected, machine(links, ranks), "file.yaml")
        == f"file.yaml: no route from {ends}: connect them"
    )


@pytest.mark.parametrize(
    "text", ["a\n\tb\r\n", "é µ 😀\x85", "\ufeffa\n\tb\r\n", "x" * LIMIT], ids=lambda text: text[:9]
)
def test_text_is_taken_as_it_is_less_a_byte_order_mark(text: str) -> None:
    assert check_text(text, "file") == text.removeprefix("\ufeff")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file is empty: it describes nothing"),
        (" \n\t", "file is empty: it describes nothing"),
        ("x" * (LIMIT + 1), "file is larger than 16 MiB"),
        ("a\n\0", "file line 2: the character '\\x00' is not text: expected UTF-8"),
        ("\ud800", "file line 1: the character '\\ud800' is not text: expected UTF-8"),
        ("a\n\nb\x1b[0m", "file line 3: the character '\\x1b' is not text: expected UTF-8"),
    ],
    ids=["empty", "blank", "large", "NUL", "surrogate", "escape"],
)
def test_what_is_not_text_is_refused(text: str, message: str) -> None:
    assert refusal(check_text, text, "file") == message


@each_case(
    ("value", "text"),
    [
        ("ring", "'ring'"),
        ("x" * 60, f"'{'x' * 59}..."),
        ("x" * 10**6, f"'{'x' * 59}..."),
        (b"x", "b'x'"),
        (True, "true"),
        (-3, "-3"),
        (10**5000, "a number of more than 60 digits"),
        (1.5, "1.5"),
        (([1],), "a list"),
        ({1: 2}, "a mapping"),
    ],
)
def test_a_value_is_shown_shortly(value: object, text: str) -> None:
    assert shown(value) == text
    assert as_text(value) == (value if isinstance(value, str) else text)


def test_a_deep_place_is_cut() -> None:
    assert spelling(("links", *[0] * 16)) == f"links{'[0]' * 15}..."


def test_rows_of_a_csv_have_their_lines(tmp_path: Path) -> None:
    """A cell may have several lines, and one that is missing is empty."""
    path = tmp_path / "rows.csv"
    path.write_text('b,more,a\n1,x,2\n"3\n4",y,5\n6\n')
    rows = csv_rows(path, ("a", "b"), "row")
    assert rows == {f"{path} line 2": ["2", "1"], f"{path} line 4": ["5", "3\n4"]} | {
        f"{path} line 5": ["", "6"]
    }


class Damaged(NamedTuple):
    """A reader, whole files, and pieces of text that matter to it."""

    read: Callable[[str, str], Topology]
    files: list[str]
    pieces: tuple[str, ...]


def texts(names: str) -> list[str]:
    return [path.read_text() for path in sorted((Path(__file__).parent / "data").glob(names))]


GRAPHML = to_graphml(star(2, bandwidth=1e9, latency=1e-6))
NUMBERS = ("0", "-1", "x", '"', "\x00", "\ufffd")
READERS = {
    "nccl": Damaged(read_nccl_xml, texts("nccl_*"), (*NUMBERS, "<nic/>")),
    "nvidia-smi": Damaged(
        read_matrix, texts("smi_*"), ("\n", "\t", "NV18", "X", "GPU0 ", "|", "\x1b[", "\x00")
    ),
    "yaml": Damaged(read_yaml, [GOLDEN], (*NUMBERS, "- ", ": ")),
    "json": Damaged(read_json, [GOLDEN_JSON], (*NUMBERS, "[", ": ")),
    "graphml": Damaged(read_graphml, [GRAPHML], (*NUMBERS, "<a>")),
}


@st.composite
def damaged(draw: st.DrawFn, form: Damaged) -> str:
    """A file of which lines or a few letters are left out, doubled or overwritten."""
    text = draw(st.sampled_from(form.files))
    for _ in range(draw(st.integers(1, 3))):
        lines = text.splitlines(keepends=True) or [""]
        line = draw(st.integers(0, len(lines) - 1))
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from((0, 1, 2, 9, 20, 80))))
        piece = draw(st.sampled_from(("", *form.pieces)) | st.text(max_size=3))
        text = draw(
            st.sampled_from(
                (
                    "".join(lines[:line] + lines[line + 1 :]),
                    "".join(lines[: line + 1] + lines[line:]),
                    text[:end] + text[start:],
                    text[:start] + piece + text[end:],
                )
            )
        )
    return text


@pytest.mark.parametrize("form", READERS)
@tries(62, 250)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(form: str, data: st.DataObject) -> None:
    text = data.draw(damaged(READERS[form]))
    machine, message = attempt(lambda content: READERS[form].read(content, "file"), text)
    assert len(message.splitlines()) == (machine is None)
    assert machine or message.startswith("file")
