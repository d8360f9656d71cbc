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
from topologies.units import parse_bandwidth, parse_bytes, parse_counts, parse_seconds, parse_sizes

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

BAD: dict[Parse, str] = {
    parse_bytes: (
        "|  |0|0B|-0B|-64MiB|−5B|inf|nan|nan B|-inf B|1e400B|64|64M|64Mi|64G|1e3|64mib|"
        "64MIB|64kiB|64Kib|64g|64gb|64GBs|64Gb|64Mbit|64bytes|1 byte|MiB|B|64MB/s|5s|"
        "5.5.5B|--5B|5 5B|5B B|1/2B|0x10B|$5B|5%|1MiB 1MiB|64MiB64MiB|1e5e5B|5°B|None|"
        "64 M iB|one MiB|1..2MiB|1,5GB|5B # five|5B#|64mB|64uB|5cB|5µB"
    ),
    parse_seconds: (
        "|-5us|-1s|25|25u|5m|5M|25uS|25US|5min|1h|5sec|5msec|2 minutes|1:30|inf s|nan s|"
        "nans|1e999s|us|5s/s|5Hz|5B|5 u s|0x5s|a while|2,5us"
    ),
    parse_bandwidth: (
        "|0|0B/s|-1GB/s|50|50G|50GB|400Gb|400Gbit|400gbps|10mbps|50gBps|50GB/S|50GB/s/s|"
        "400gbit/s|50gib/s|50GIB/s|50 GB / s|50GByte/s|inf B/s|nan B/s|GB/s|5s|fast|"
        "12,5GB/s|10mbit/s|10mB/s|5uB/s"
    ),
    parse_counts: (
        "|,|2,|2,,4|x|1e3|2.0|2.5|+2|1 2|2;4|2-4|..|2..|..4|2...4|2..4..8|4..2|2..8:0|"
        "2..8:x1|2..8:x0|2..8:x0.5|2..8:x|2..8:|2..8:-1|2..8:y2|2..8:2:2|0..8:x2|-1..8:x2|"
        "1..200000|1..999999999|2..9999999999|64MiB|nan|inf|2..inf"
    ),
    parse_sizes: (
        "|64|64M|64MiB,|64MiB,,1GiB|1KiB..4KiB|4KiB..1KiB:x2|1KiB..8KiB:x1|1KiB..8KiB:x|"
        "1..8:x2|0B..8B:x2|1B..1TiB:1|1KiB..|..1KiB|1KiB..64M:x2|1us..4us:x2|"
        "1KiB..8KiB:1KiB"
    ),
}
"""Wrong texts, with a bar between two."""
BAD_INPUTS = [(parse, text) for parse in BAD for text in BAD[parse].split("|")]


@each_case("text", SIZES)
def test_a_size_is_exact(text: str) -> None:
    assert parse_bytes(text) == SIZES[text]


@each_case("text", TIMES)
def test_a_time_is_exact(text: str) -> None:
    assert parse_seconds(text) == pytest.approx(TIMES[text], rel=1e-15)


@each_case("text", BANDWIDTHS)
def test_a_bandwidth_is_exact(text: str) -> None:
    assert parse_bandwidth(text) == BANDWIDTHS[text]


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


def test_a_negative_number_is_not_offered_with_a_unit() -> None:
    assert refusal(parse_bytes, "-1") == "'-1' has no unit: write it like 64MiB"


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


@given(st.text(max_size=12))
def test_any_text_is_a_positive_size_or_an_input_error(text: str) -> None:
    value, message = attempt(parse_bytes, text)
    assert "\n" not in message
    assert message or 0 < float(str(value)) < math.inf


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
    message = refusal(parse_counts, "100000000000")
    assert message == "'100000000000' is too large: a whole number has at most 9 digits here"


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
