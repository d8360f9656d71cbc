"""Files of machines: their text and values, and damage that is read or refused in one line."""

from pathlib import Path

import pytest

from grouped_cases import each_case
from refusals import refusal
from topologies.errors import as_text, shown
from topologies.link import Link
from topologies.readers.contents import LIMIT, check_text, csv_rows
from topologies.readers.files import check_connected
from topologies.readers.locations import spelling
from topologies.shapes import SHAPES
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
