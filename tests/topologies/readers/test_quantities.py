"""Figures as text: exact, in the unit that people write, read back by the parsers of all text."""

from hypothesis import example, given
from hypothesis import strategies as st

from grouped_cases import each_case
from topologies.readers.quantities import (
    bandwidth_text,
    cost_text,
    read_bandwidth,
    read_cost,
    read_seconds,
    seconds_text,
)
from topologies.units import parse_bandwidth, parse_seconds

INF = float("inf")
BANDWIDTHS = {
    50e9: "50GB/s",
    1.0: "1B/s",
    999.0: "999B/s",
    1000.0: "1kB/s",
    1e9 / 3: "333.3333333333333MB/s",
    3.125e9: "3.125GB/s",
    2.0**53: "9.007199254740992PB/s",
    1e18: "1EB/s",
    INF: "inf",
}
TIMES = {
    0.0: "0s",
    6e-7: "600ns",
    1e-6: "1us",
    1.25e-6: "1.25us",
    0.1: "100ms",
    25.0: "25s",
    1500.0: "1500s",
    1e9: "1000000000s",
    2.0**-20: "953.67431640625ns",
    7e-12: "7ps",
    5e-324: "5e-324s",
}
COSTS = {
    1e-12: "1TB/s",
    1 / 50e9: "50GB/s",
    1 / 3.3e12: "3.3TB/s",
    0.0: "0s/B",
    2.0: "2s/B",
    1e-20: "1e-20s/B",
    1.7e-12: "1.7ps/B",
}


@each_case(("bandwidth", "text"), BANDWIDTHS.items())
def test_bandwidths_as_people_write_them(bandwidth: float, text: str) -> None:
    assert bandwidth_text(bandwidth) == text
    assert read_bandwidth(text) == bandwidth


@each_case(("seconds", "text"), TIMES.items())
def test_times_as_people_write_them(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text
    assert read_seconds(text) == seconds


@each_case(("cost", "text"), COSTS.items())
def test_costs_a_byte_are_bandwidths_where_one_is_exact(cost: float, text: str) -> None:
    assert cost_text(cost) == text
    assert read_cost(text) == cost


def test_what_merges_without_end_costs_nothing() -> None:
    assert read_cost("inf") == read_cost("0s/B") == 0.0


@given(st.floats(1.0, 1e18))
def test_every_bandwidth_comes_back_to_the_bit(bandwidth: float) -> None:
    assert parse_bandwidth(bandwidth_text(bandwidth)) == bandwidth


@given(st.floats(0.0, 1e9))
@example(2.2250738585072014e-308)
def test_every_time_comes_back_to_the_bit(seconds: float) -> None:
    assert parse_seconds(seconds_text(seconds)) == seconds


@given(st.floats(0.0, 1e9) | st.floats(1e-18, 1e-9))
def test_every_cost_a_byte_comes_back_to_the_bit(cost: float) -> None:
    assert read_cost(cost_text(cost)) == cost


@given(st.integers(1, 999), st.sampled_from(("kB/s", "MB/s", "GB/s", "TB/s")))
def test_what_people_write_is_written_again(number: int, unit: str) -> None:
    assert bandwidth_text(parse_bandwidth(f"{number}{unit}")) == f"{number}{unit}"
    assert cost_text(1 / parse_bandwidth(f"{number}{unit}")) == f"{number}{unit}"
