"""Columns of text are the tuples that they stand for, and no name of a device is there twice."""

from collections.abc import Iterable
from itertools import count, islice
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from grouped_cases import each_case
from refusals import refusal
from topologies.columns import DeviceNames, MediumNames, Numbered, Words, distinct_rows, plain_rows

WORDS = st.lists(st.text(max_size=3), max_size=12)


def wires(shared: tuple[str, ...] = ()) -> MediumNames:
    return MediumNames(
        ("a", "b", "c"), np.array([0, 1], dtype=np.int32), np.array([1, 2], dtype=np.int32), shared
    )


def column_of(words: Iterable[str]) -> Words:
    index: dict[str, int] = {}
    codes = [index.setdefault(word, len(index)) for word in words]
    return Words(np.array(codes, dtype=np.int8), tuple(index))


@given(WORDS)
def test_a_column_says_what_it_was_made_of(words: list[str]) -> None:
    column = column_of(words)
    assert list(column) == words
    assert len(column) == len(words)
    assert column == words == list(column)
    assert column == tuple(words)
    assert repr(column) == repr(tuple(words))
    assert len(set(column.vocabulary)) == len(column.vocabulary) == len(set(words))


@given(WORDS, st.integers(-15, 15))
def test_a_row_is_that_of_the_tuple(words: list[str], row: int) -> None:
    column = column_of(words)
    if -len(words) <= row < len(words):
        assert column[row] == words[row]
    else:
        with pytest.raises(IndexError, match=f"row {row}: there are {len(words)}"):
            column[row]


@given(WORDS, st.slices(12))
def test_a_slice_is_that_of_the_tuple(words: list[str], part: slice) -> None:
    assert column_of(words)[part] == tuple(words)[part]


@given(WORDS, WORDS)
def test_columns_are_equal_where_their_words_are(left: list[str], right: list[str]) -> None:
    assert (column_of(left) == column_of(right)) is (left == right)
    assert (column_of(left) != column_of(right)) is (left != right)


def test_how_words_are_numbered_is_no_part_of_what_they_say() -> None:
    assert Words(np.array([1, 0], dtype=np.int8), ("b", "a")) == column_of(["a", "b"])


@each_case("value", [("gpu",), ("gpu", "nic", "gpu"), ("gpu", "gpu"), (), None, 2])
def test_a_column_differs_from_what_says_something_else(value: Any) -> None:
    assert column_of(["gpu", "nic"]) != value


@pytest.mark.parametrize("value", [(1,), [None], [b"gpu"]])
def test_a_column_differs_from_what_is_no_text(value: Any) -> None:
    assert column_of(["gpu"]) != value


def test_a_column_is_no_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(column_of(["gpu"]))


@given(
    st.lists(st.sampled_from(("gpu", "cpu", "nic")), max_size=12),
    st.sets(st.sampled_from(("gpu", "nic", "tpu"))),
)
def test_rows_that_say_one_of_some_words(words: list[str], wanted: set[str]) -> None:
    assert column_of(words).are(*wanted).tolist() == [word in wanted for word in words]


def test_a_wire_is_named_by_its_ends_and_shared_media_follow() -> None:
    assert wires() == ("a->b", "b->c")
    assert wires(("bus",)) == ("a->b", "b->c", "bus")
    assert wires(("bus",))[-1] == wires(("bus",))[2] == "bus"
    assert wires(("bus", "port"))[1:] == ("b->c", "bus", "port")


def test_there_is_no_medium_beyond_the_last() -> None:
    for row in (2, -3):
        with pytest.raises(IndexError, match=f"row {row}: there are 2"):
            wires()[row]


ENDS = st.tuples(st.text("a1.", max_size=2), st.text("a1.", max_size=2))
NUMBERED = st.builds(
    lambda size, ends: Numbered(size, *ends),
    st.integers(0, 13),
    st.lists(ENDS, min_size=1, max_size=3),
)
PARTS = st.lists(
    st.one_of(NUMBERED, st.lists(st.text("ab01.", max_size=3), max_size=3)), max_size=4
)


def listed(names: Numbered) -> list[str]:
    texts = (f"{head}{number}{tail}" for number in count() for head, tail in names.ends)
    return list(islice(texts, names.size))


@given(NUMBERED)
def test_numbered_names_are_what_they_stand_for(names: Numbered) -> None:
    assert list(names) == [names[row] for row in range(len(names))] == listed(names)


@given(NUMBERED)
@example(Numbered(13, ("a", "0"), ("a0", "")))
@example(Numbered(13, ("a1", ""), ("a", "")))
def test_names_that_are_different_are_different(names: Numbered) -> None:
    if names.are_different:
        assert len(set(names)) == len(names)


@given(PARTS)
@example([Numbered(12, ("a", "")), ["a11"]])
@example([["a11"], Numbered(12, ("a", ""))])
@example([Numbered(2, ("a", "")), ["b"], ["c"], Numbered(2, ("b", ""))])
def test_a_name_that_is_there_twice_is_refused(parts: list[list[str]]) -> None:
    names, plain = DeviceNames(), list[str]()
    for part in parts:
        together = [*plain, *part]
        repeated = [name for k, name in enumerate(together) if name in together[:k]]
        if repeated:
            message = f"device {repeated[0]!r} is there twice: names are unique"
            assert refusal(lambda part=part: names.add(part)) == message
            break
        names.add(part)
        plain = together
    assert names == plain
    assert list(names) == plain
    assert names.numbers() == {name: row for row, name in enumerate(plain)}


def test_a_copy_takes_further_names_alone() -> None:
    names = DeviceNames()
    names.add(["a"])
    names.add(Numbered(2, ("b", "")))
    copy = names.copy()
    copy.add(["c"])
    names.add(["d"])
    assert (tuple(names), tuple(copy)) == (("a", "b0", "b1", "d"), ("a", "b0", "b1", "c"))


@each_case(
    ("names", "different"),
    [
        (Numbered(9, ("gpu", "")), True),
        (Numbered(9, ("out", ""), ("in", "")), True),
        (Numbered(9, ("rail0.leaf", ""), ("rail1.leaf", "")), True),
        (Numbered(9, ("node", ".gpu0"), ("node", ".gpu1")), True),
        (Numbered(9, ("node", ".gpu0"), ("node", ".gpu0")), False),
        (Numbered(9, ("a", "0"), ("a", "1")), False),
        (Numbered(9, ("a", ".b"), ("c", ".d")), False),
    ],
)
def test_heads_and_tails_tell_whether_names_are_different(names: Numbered, different: bool) -> None:
    assert names.are_different is different


@given(st.data(), st.booleans())
def test_distinct_rows_are_those_of_a_set(data: st.DataObject, met: bool) -> None:
    """However far apart the values of a column are: their product may be beyond 64 bits."""
    rows, width = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    far = st.sampled_from([-(2**33), 0, 1, 2**32, 2**33])
    columns = [data.draw(arrays(np.int64, rows, elements=far)) for _ in range(width)]
    first, number = distinct_rows(*columns, met=met)
    plain = [*plain_rows(*columns)]
    known = [*dict.fromkeys(plain)] if met else sorted({*plain})
    assert [plain[row] for row in first] == known
    assert [known[each] for each in number] == plain


def test_rows_of_far_values_do_not_collide() -> None:
    far = 2**32 * np.eye(3, dtype=np.int64)
    assert len(distinct_rows(*far)[0]) == 3
