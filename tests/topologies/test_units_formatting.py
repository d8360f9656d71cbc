"""SI to text: what is shown is short, in one family of units, and parses to the same value."""

import math
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grouped_cases import each_case
from topologies.units import (
    format_bandwidth,
    format_bytes,
    format_seconds,
    parse_bandwidth,
    parse_bytes,
    parse_seconds,
)

FOUR_DIGITS = 5.001e-4
"""Half a unit in the last of four significant digits, at worst."""


@given(st.floats(1, 1e18))
@example(1e6)
@example(1e9)
@example(1e10)
@example(64e6)
@example(1e15)
@example(4295032832.0)
@example(12345678.0 * 2**20)
@example(999.95)
@example(2.0**60)
def test_sizes_survive_formatting_to_displayed_precision(nbytes: float) -> None:
    assert parse_bytes(format_bytes(nbytes)) == pytest.approx(nbytes, rel=FOUR_DIGITS)


@given(st.integers(1, 1023), st.sampled_from((("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40))))
@example(1000, ("TiB", 40))
def test_whole_binary_sizes_are_shown_as_such_and_survive_exactly(
    count: int, unit: tuple[str, int]
) -> None:
    nbytes = float(count * 2 ** unit[1])
    assert format_bytes(nbytes) == f"{count}{unit[0]}"
    assert parse_bytes(format_bytes(nbytes)) == nbytes


@given(st.integers(1, 999), st.sampled_from((("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))))
@example(1, ("GB", 1e9))
@example(64, ("MB", 1e6))
@example(10, ("GB", 1e9))
def test_whole_decimal_sizes_are_never_shown_in_odd_binary_numbers(
    count: int, unit: tuple[str, float]
) -> None:
    nbytes = count * unit[1]
    assert parse_bytes(format_bytes(nbytes)) == nbytes
    assert len(format_bytes(nbytes)) <= 9
    assert "e" not in format_bytes(nbytes)


@given(st.floats(1e-15, 1e6))
@example(999.95e-6)
@example(999.96e-9)
@example(0.99999)
@example(12345.0)
def test_times_survive_formatting_to_displayed_precision(seconds: float) -> None:
    assert parse_seconds(format_seconds(seconds)) == pytest.approx(seconds, rel=FOUR_DIGITS)


@given(st.floats(1, 1e18))
@example(999.99)
@example(999.96e9)
def test_bandwidths_survive_formatting_to_displayed_precision(bandwidth: float) -> None:
    assert parse_bandwidth(format_bandwidth(bandwidth)) == pytest.approx(bandwidth, rel=FOUR_DIGITS)


@each_case(
    ("text", "expected"),
    [
        (format_bytes(0.0), "0B"),
        (format_bytes(1.0), "1B"),
        (format_bytes(1023.0), "1.023kB"),
        (format_bytes(1024.0), "1KiB"),
        (format_bytes(1536.0), "1.5KiB"),
        (format_bytes(64e6), "64MB"),
        (format_bytes(1e9), "1GB"),
        (format_bytes(2.0**30), "1GiB"),
        (format_seconds(0.0), "0s"),
        (format_seconds(999.96e-6), "1ms"),
        (format_seconds(59.0), "59s"),
        (format_seconds(-5e-6), "-5us"),
        (format_bandwidth(48.74e9), "48.74GB/s"),
        (format_bandwidth(1e12), "1TB/s"),
    ],
)
def test_people_read_these(text: str, expected: str) -> None:
    assert text == expected


@each_case(
    ("nbytes", "binary", "decimal"),
    [
        (0.0, "0B", "0B"),
        (1023.0, "1023B", "1.023kB"),
        (64e6, "61.04MiB", "64MB"),
        (2.0**30, "1GiB", "1.074GB"),
        (3.8125 * 2**30, "3.8125GiB", "4.094GB"),
        (127.9375 * 2**20, "127.9MiB", "134.2MB"),
        (2.0**30 - 1, "1GiB", "1.074GB"),
    ],
)
def test_bytes_are_shown_in_one_family_of_units(nbytes: float, binary: str, decimal: str) -> None:
    assert format_bytes(nbytes, binary=True) == binary
    assert format_bytes(nbytes, binary=False) == decimal


@given(st.floats(1, 1e18), st.booleans())
def test_a_family_of_units_is_kept(nbytes: float, binary: bool) -> None:
    shown = format_bytes(nbytes, binary)
    assert len(shown) <= 9
    assert ("iB" in shown) is (binary and nbytes >= 1024)
    assert parse_bytes(shown) == pytest.approx(nbytes, rel=FOUR_DIGITS)


@each_case("show", [format_bytes, format_seconds, format_bandwidth])
@each_case("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_shown_and_does_not_raise(
    show: Callable[[float], str], value: float
) -> None:
    assert str(value) in show(value)
