"""Text to SI: what is right is exact, what is ambiguous is refused in one line that names it."""

import ast
import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import Parse, attempt, refusal
from topologies.errors import InputError
from topologies.units import (
    parse_bandwidth,
    parse_bytes,
    parse_counts,
    parse_seconds,
    parse_sizes,
)

SIZES = {
    "1B": 1.0,
    "64MiB": 67108864.0,
    "64 MiB": 67108864.0,
    "  64MiB\t": 67108864.0,
    "64MB": 64e6,
    "5kB": 5e3,
    "5KB": 5e3,
    "5KiB": 5120.0,
    "1.5GiB": 1610612736.0,
    "2TiB": 2199023255552.0,
    "1PB": 1e15,
    "+5B": 5.0,
    ".5KiB": 512.0,
    "1e9B": 1e9,
}
TIMES = {
    "0": 0.0,
    "0s": 0.0,
    "25us": 2.5e-5,
    "25 us": 2.5e-5,
    "25µs": 2.5e-5,
    "25μs": 2.5e-5,
    "3ns": 3e-9,
    "1.5ms": 1.5e-3,
    "2s": 2.0,
    "7ps": 7e-12,
    "1e-6s": 1e-6,
}
BANDWIDTHS = {
    "400Gbit/s": 50e9,
    "400Gb/s": 50e9,
    "400 Gb/s": 50e9,
    "50GB/s": 50e9,
    "50GiB/s": 53687091200.0,
    "8bit/s": 1.0,
    "1B/s": 1.0,
    "3.35TB/s": 3.35e12,
    "400Gbps": 50e9,
    "400 Gbps": 50e9,
    "400GBps": 400e9,
    "100Mbps": 12.5e6,
    "50GiBps": 53687091200.0,
    "1e9B/s": 1e9,
}

BAD: dict[Parse, tuple[str, ...]] = {
    parse_bytes: (
        *("", "  ", "0", "0B", "-0B", "-64MiB", "−5B", "inf", "nan", "nan B", "-inf B", "1e400B"),
        *(
            "64",
            "64M",
            "64Mi",
            "64G",
            "1e3",
            "64mib",
            "64MIB",
            "64kiB",
            "64Kib",
            "64g",
            "64gb",
            "64GBs",
            "64Gb",
            "64Mbit",
        ),
        *(
            "64bytes",
            "1 byte",
            "MiB",
            "B",
            "64MB/s",
            "5s",
            "5.5.5B",
            "--5B",
            "5 5B",
            "5B B",
            "1/2B",
            "0x10B",
            "$5B",
        ),
        *(
            "5%",
            "1MiB 1MiB",
            "64MiB64MiB",
            "1e5e5B",
            "5°B",
            "None",
            "64 M iB",
            "one MiB",
            "1..2MiB",
        ),
    ),
    parse_seconds: (
        *(
            "",
            "-5us",
            "-1s",
            "25",
            "25u",
            "5m",
            "5M",
            "25uS",
            "25US",
            "5min",
            "1h",
            "5sec",
            "5msec",
            "2 minutes",
            "1:30",
        ),
        *(
            "inf s",
            "nan s",
            "nans",
            "1e999s",
            "us",
            "5s/s",
            "5Hz",
            "5B",
            "5 u s",
            "0x5s",
            "a while",
        ),
    ),
    parse_bandwidth: (
        *(
            "",
            "0",
            "0B/s",
            "-1GB/s",
            "50",
            "50G",
            "50GB",
            "400Gb",
            "400Gbit",
            "400gbps",
            "10mbps",
            "50gBps",
            "50GB/S",
            "50GB/s/s",
        ),
        *(
            "400gbit/s",
            "50gib/s",
            "50GIB/s",
            "50 GB / s",
            "50GByte/s",
            "inf B/s",
            "nan B/s",
            "GB/s",
            "5s",
            "fast",
        ),
    ),
    parse_counts: (
        *(
            "",
            ",",
            "2,",
            "2,,4",
            "x",
            "1e3",
            "2.0",
            "2.5",
            "+2",
            "1 2",
            "2;4",
            "2-4",
            "..",
            "2..",
            "..4",
            "2...4",
            "2..4..8",
        ),
        *(
            "4..2",
            "2..8:0",
            "2..8:x1",
            "2..8:x0",
            "2..8:x0.5",
            "2..8:x",
            "2..8:",
            "2..8:-1",
            "2..8:y2",
            "2..8:2:2",
        ),
        *(
            "0..8:x2",
            "-1..8:x2",
            "1..200000",
            "1..999999999",
            "2..9999999999",
            "64MiB",
            "nan",
            "inf",
            "2..inf",
        ),
    ),
    parse_sizes: (
        *(
            "",
            "64",
            "64M",
            "64MiB,",
            "64MiB,,1GiB",
            "1KiB..4KiB",
            "4KiB..1KiB:x2",
            "1KiB..8KiB:x1",
            "1KiB..8KiB:x",
        ),
        *(
            "1..8:x2",
            "0B..8B:x2",
            "1B..1TiB:1",
            "1KiB..",
            "..1KiB",
            "1KiB..64M:x2",
            "1us..4us:x2",
            "1KiB..8KiB:1KiB",
        ),
    ),
}
BAD_INPUTS = [(parse, text) for parse in BAD for text in BAD[parse]]


@each_case("text", SIZES)
def test_a_size_is_exact(text: str) -> None:
    assert parse_bytes(text) == SIZES[text]


@each_case("text", TIMES)
def test_a_time_is_exact(text: str) -> None:
    assert parse_seconds(text) == pytest.approx(TIMES[text], rel=1e-15)


@each_case("text", BANDWIDTHS)
def test_a_bandwidth_is_exact(text: str) -> None:
    assert parse_bandwidth(text) == BANDWIDTHS[text]


def test_gb_and_gib_differ_by_seven_percent() -> None:
    assert parse_bytes("1GiB") / parse_bytes("1GB") == 1.073741824
    assert parse_bandwidth("1GiB/s") / parse_bandwidth("1GB/s") == 1.073741824


def test_a_bit_is_an_eighth_of_a_byte() -> None:
    assert parse_bandwidth("8Gbit/s") == parse_bandwidth("8Gb/s") == parse_bandwidth("1GB/s")


def test_there_are_many_bad_inputs_in_the_table() -> None:
    assert len(BAD_INPUTS) > 120
    assert all(len(texts) > 15 for texts in BAD.values())


@each_case(("parse", "text"), BAD_INPUTS)
def test_bad_input_is_one_line_that_names_the_value(parse: Parse, text: str) -> None:
    message = refusal(parse, text)
    assert "\n" not in message
    assert len(message) < 160
    quoted = re.match(r"'[^']*'|\"[^\"]*\"", message)
    assert quoted is not None, message
    assert ast.literal_eval(quoted[0]) in text


@each_case("text", ["64M", "1G", "2T", "7k", "7K", "0.5M", "1e3M", "1e3"])
def test_a_bare_number_is_offered_readings_that_parse(text: str) -> None:
    message = refusal(parse_bytes, text)
    offered = re.findall(r"[\d.e+]+[kKMGT]?i?B\b", message)
    assert offered
    for reading in offered:
        assert parse_bytes(reading) > 0


def test_a_bare_prefix_offers_both_readings() -> None:
    assert "64MB or 64MiB" in refusal(parse_bytes, "64M")
    assert "50GB/s or 50GiB/s" in refusal(parse_bandwidth, "50G")


@each_case(
    ("text", "right"),
    [
        *(
            ("400Gb", "400Gbit/s"),
            ("400Gbit", "400Gbit/s"),
            ("400gbps", "400Gbit/s"),
            ("10mbit/s", "10Mbit/s"),
        ),
        *(("50GB", "50GB/s"), ("50 GB", "50GB/s"), ("2.5kb", "2.5kbit/s"), ("50GByte/s", "50GB/s")),
    ],
)
def test_a_bandwidth_with_another_unit_is_answered_with_the_right_spelling(
    text: str, right: str
) -> None:
    assert refusal(parse_bandwidth, text).endswith(f": write {right}")
    parse_bandwidth(right)


@pytest.mark.parametrize(
    ("parse", "text", "right"),
    [
        (parse_seconds, "1e3us", "1000us"),
        (parse_bandwidth, "1e30GB/s", f"1{'0' * 30}GB/s"),
        (parse_bytes, "1e-99999999KiB", "0KiB"),
    ],
)
def test_a_power_of_ten_is_answered_without(parse: Parse, text: str, right: str) -> None:
    assert f"write {right}" in refusal(parse, text)


@each_case("text", ["64mib", "64MIB", "64kiB", "64gIb", "1.5tib"])
def test_a_misspelt_binary_unit_is_answered_with_the_right_spelling(text: str) -> None:
    offered = re.search(r"write (\S+)", refusal(parse_bytes, text))
    assert offered is not None
    number = float(re.match(r"[\d.]+", text)[0])  # type: ignore[index]
    power = {"k": 10, "m": 20, "g": 30, "t": 40}[text[-3].lower()]
    assert parse_bytes(offered[1]) == number * 2**power


@each_case(
    ("parse", "text"),
    [(parse_bytes, text) for text in ("64mB", "64uB", "64nB", "5cB", "1aB", "5µB")]
    + [(parse_bandwidth, text) for text in ("10mbit/s", "10mb/s", "10mB/s", "5uB/s", "5nbit/s")],
)
def test_thousandths_of_a_byte_are_a_slip_of_the_shift_key(parse: Parse, text: str) -> None:
    """`10mbit/s` means megabits to whoever writes it; as a prefix `m` is a thousandth, 10^9 times
    less."""
    assert text in refusal(parse, text)


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_bytes, "1,5GB"), (parse_seconds, "2,5us"), (parse_bandwidth, "12,5GB/s")],
)
def test_a_decimal_comma_is_refused_not_dropped(parse: Parse, text: str) -> None:
    assert text in refusal(parse, text)


@pytest.mark.parametrize("text", ["5\nB", "5B # five", "5B#"])
def test_nothing_hides_behind_or_inside_a_quantity(text: str) -> None:
    refusal(parse_bytes, text)


@given(st.text(max_size=12))
def test_any_text_is_a_positive_size_or_an_input_error(text: str) -> None:
    value, message = attempt(parse_bytes, text)
    assert "\n" not in message
    assert message or 0 < float(str(value)) < math.inf


def test_the_spelling_that_is_offered_is_right() -> None:
    for text in ("1e3GB/s", "400Gb", "2.50gbit/s", "50gBps"):
        with pytest.raises(InputError, match="write") as error:
            parse_bandwidth(text)
        assert parse_bandwidth(str(error.value).rpartition(" ")[2]) > 0


@given(
    st.integers(1, 10**9),
    st.sampled_from(["", "k", "K", "M", "G", "Ki", "Mi", "Gi"]),
    st.sampled_from([(parse_bytes, "B", 1), (parse_bandwidth, "B/s", 1)])
    | st.sampled_from([(parse_bandwidth, unit, 8) for unit in ("bit/s", "b/s", "bps")]),
)
def test_digits_and_prefix_are_rounded_once(
    number: int, prefix: str, how: tuple[Parse, str, int]
) -> None:
    parse, unit, bits = how
    power = "kMG".find(prefix[:1].replace("K", "k")) + 1 if prefix else 0
    exact = Fraction(number * (1024 if prefix.endswith("i") else 1000) ** power, bits)
    if 1 <= exact <= 10**18:
        assert parse(f"{number}{prefix}{unit}") == float(exact)
