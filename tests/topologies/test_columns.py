"""Columns of text behave as the tuples that they stand for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from topologies.columns import MediumNames, Words

WORDS = st.lists(st.text(max_size=3), max_size=12)


def wires(shared: tuple[str, ...] = ()) -> MediumNames:
    return MediumNames(
        ("a", "b", "c"), np.array([0, 1], dtype=np.int32), np.array([1, 2], dtype=np.int32), shared
    )


@given(WORDS)
def test_a_column_says_what_it_was_made_of(words: list[str]) -> None:
    column = Words.of(words)
    assert list(column) == words
    assert len(column) == len(words)
    assert column == words == list(column)
    assert column == tuple(words)
    assert repr(column) == repr(tuple(words))
    assert len(set(column.vocabulary)) == len(column.vocabulary) == len(set(words))


@given(WORDS, st.integers(-15, 15))
def test_a_row_is_that_of_the_tuple(words: list[str], row: int) -> None:
    column = Words.of(words)
    if -len(words) <= row < len(words):
        assert column[row] == words[row]
    else:
        with pytest.raises(IndexError, match=f"row {row}: there are {len(words)}"):
            column[row]


@given(WORDS, st.slices(12))
def test_a_slice_is_that_of_the_tuple(words: list[str], part: slice) -> None:
    assert Words.of(words)[part] == tuple(words)[part]


@given(WORDS, WORDS)
def test_columns_are_equal_where_their_words_are(left: list[str], right: list[str]) -> None:
    assert (Words.of(left) == Words.of(right)) is (left == right)
    assert (Words.of(left) != Words.of(right)) is (left != right)


def test_how_words_are_numbered_is_no_part_of_what_they_say() -> None:
    assert Words(np.array([1, 0], dtype=np.int8), ("b", "a")) == Words.of(["a", "b"])


@each_case("value", [("gpu",), ("gpu", "nic", "gpu"), ("gpu", "gpu"), (), None, 2])
def test_a_column_differs_from_what_says_something_else(value: Any) -> None:
    assert Words.of(["gpu", "nic"]) != value


@pytest.mark.parametrize("value", [(1,), [None], [b"gpu"]])
def test_a_column_differs_from_what_is_no_text(value: Any) -> None:
    assert Words.of(["gpu"]) != value


def test_a_column_is_no_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Words.of(["gpu"]))


@given(
    st.lists(st.sampled_from(("gpu", "cpu", "nic")), max_size=12),
    st.sets(st.sampled_from(("gpu", "nic", "tpu"))),
)
def test_rows_that_say_one_of_some_words(words: list[str], wanted: set[str]) -> None:
    assert Words.of(words).are(*wanted).tolist() == [word in wanted for word in words]


def test_the_words_of_a_column_can_be_searched() -> None:
    column = Words.of(["gpu", "nic", "gpu"])
    assert "nic" in column
    assert "cpu" not in column
    assert (column.index("nic"), column.count("gpu")) == (1, 2)
    assert list(reversed(column)) == ["gpu", "nic", "gpu"]


def test_a_wire_is_named_by_its_ends_and_shared_media_follow() -> None:
    assert wires() == ("a->b", "b->c")
    assert wires(("bus",)) == ("a->b", "b->c", "bus")
    assert wires(("bus",))[-1] == wires(("bus",))[2] == "bus"
    assert wires(("bus", "port"))[1:] == ("b->c", "bus", "port")


def test_there_is_no_medium_beyond_the_last() -> None:
    for row in (2, -3):
        with pytest.raises(IndexError, match=f"row {row}: there are 2"):
            wires()[row]
