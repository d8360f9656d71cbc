"""Lists and ranges of counts and sizes: in order, once each, and an end that is left out is
named."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import Parse, attempt, refusal
from topologies.errors import InputError
from topologies.units import (
    parse_counts,
    parse_sizes,
)


@pytest.mark.parametrize("text", ["1KiB..8KiB", "1KiB..4MiB", "1KiB..8KiB:1KiB"])
def test_a_range_of_sizes_that_lacks_a_factor_is_answered_with_one_that_works(text: str) -> None:
    offered = re.search(r"write it like (\S+)", refusal(parse_sizes, text))
    assert offered is not None
    assert parse_sizes(offered[1])[0] == 1024


@given(
    st.text(alphabet="0123456789.,:x-eMiB ks/", max_size=14),
    st.sampled_from((parse_counts, parse_sizes)),
)
def test_any_range_is_a_list_or_an_input_error(text: str, parse: Parse) -> None:
    values, message = attempt(parse, text)
    assert "\n" not in message
    assert message or (isinstance(values, list) and len(values) == len(set(values)) > 0)


@each_case(
    ("text", "expected"),
    [
        ("8", [8]),
        ("2,4,8", [2, 4, 8]),
        ("8,4,2", [8, 4, 2]),
        ("8,8,8", [8]),
        (" 2 , 4 ", [2, 4]),
        ("2..2", [2]),
        ("2..6", [2, 3, 4, 5, 6]),
        ("2 .. 4", [2, 3, 4]),
        ("2..9:3", [2, 5, 8]),
        ("2..64:x2", [2, 4, 8, 16, 32, 64]),
        ("2..65:x2", [2, 4, 8, 16, 32, 64]),
        ("2..63:x2", [2, 4, 8, 16, 32]),
        ("3..243:x3", [3, 9, 27, 81, 243]),
        ("1..1000000:x10", [1, 10, 100, 1000, 10000, 100000, 1000000]),
        ("2..4,3..6,2", [2, 3, 4, 5, 6]),
    ],
)
def test_counts_are_listed_in_order_once_each(text: str, expected: list[int]) -> None:
    assert parse_counts(text) == expected


@given(st.integers(1, 300), st.integers(0, 300), st.integers(1, 20))
def test_a_range_of_counts_is_pythons_with_both_ends(low: int, length: int, step: int) -> None:
    assert parse_counts(f"{low}..{low + length}:{step}") == list(range(low, low + length + 1, step))


@given(st.integers(1, 9), st.integers(2, 10), st.integers(0, 8))
def test_a_growing_range_reaches_its_end_exactly(low: int, factor: int, terms: int) -> None:
    high = low * factor**terms
    if high < 10**9:
        assert parse_counts(f"{low}..{high}:x{factor}") == [
            low * factor**k for k in range(terms + 1)
        ]


@each_case("text", ["1..3:0.5", "2..4:x1.2", "2..9:x1.1", "1..5:1.5"])
def test_a_range_with_fractions_has_whole_numbers_once_each_or_is_refused(text: str) -> None:
    counts, message = attempt(parse_counts, text)
    assert message or (isinstance(counts, list) and counts == sorted(set(counts)))


@each_case(
    ("text", "expected"),
    [
        ("64MiB", [2.0**26]),
        ("64MiB,1GB", [2.0**26, 1e9]),
        ("1KiB,1KiB,1024B", [1024.0]),
        ("1MiB..4MiB:x2", [2.0**20, 2.0**21, 2.0**22]),
        ("1MiB..5MiB:x2", [2.0**20, 2.0**21, 2.0**22]),
        ("8B..128MiB:x2", [2.0**k for k in range(3, 28)]),
        ("1KiB..4KiB:1024", [1024.0, 2048.0, 3072.0, 4096.0]),
        ("1kB..1MB:x10", [1e3, 1e4, 1e5, 1e6]),
    ],
)
def test_sizes_are_listed_in_order_once_each(text: str, expected: list[float]) -> None:
    assert parse_sizes(text) == expected


def test_a_number_too_long_to_count_is_said_to_be() -> None:
    with pytest.raises(
        InputError, match=r"^'100000000000' is too large: a whole number has at most 9 digits here$"
    ):
        parse_counts("100000000000")


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (
            parse_sizes,
            "1MiB..1GiB:x8",
            "1MiB..1GiB:x8 ends at 512MiB: 1GiB is left out, 1MiB..1GiB:x8,1GiB has it too",
        ),
        (
            parse_sizes,
            "8B,1kB..5kB:x2",
            "1kB..5kB:x2 ends at 4kB: 5kB is left out, 1kB..5kB:x2,5kB has it too",
        ),
        (parse_counts, "2..65:x2", "2..65:x2 ends at 64: 65 is left out, 2..65:x2,65 has it too"),
        (parse_counts, "2..9:3", "2..9:3 ends at 8: 9 is left out, 2..9:3,9 has it too"),
    ],
)
def test_an_end_that_a_range_leaves_out_is_named(
    parse: Parse, text: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="simctl"):
        parse(text)
    assert caplog.messages == [message]


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        *(
            (parse_sizes, text)
            for text in ("1MiB..1GiB:x8,1GiB", "1MiB..1GiB:x2", "1kB..1MB:x10", "1B..2.25B:x1.5")
        ),
        *((parse_counts, text) for text in ("2..64", "2..64:x2", "65,2..65:x2", "1..7:3")),
    ],
)
def test_a_range_that_has_its_end_says_nothing(
    parse: Parse, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="simctl"):
        parse(text)
    assert not caplog.messages
