"""Factors on the times of a device from measured steps."""

from math import exp, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.models.device_times import DeviceTimes
from experiments.parallel.compute_calibration import KNOWN, ROW, Factors, Row, calibrate
from topologies.errors import InputError

TIMES = DeviceTimes("a100", launch=1e-3)


def step(times: DeviceTimes) -> float:
    """Two seconds of the device, or a thousand launches if they take longer."""
    return max(2.0 * times.scale, 1000 * times.launch)


@given(st.floats(0.5, 3))
@settings(max_examples=10)
def test_a_row_that_the_device_binds_moves_its_factor_half_way(factor: float) -> None:
    """Two normal logarithms with the same standard deviation."""
    assert KNOWN == ROW
    got = calibrate([Row(lambda times: 2.0 * times.scale, 2 * factor)], TIMES)
    assert got.scale == pytest.approx(factor**0.5, rel=1e-3)
    assert got.launch == pytest.approx(1, rel=1e-3)


def test_a_row_far_above_the_device_tells_of_the_launch() -> None:
    got = calibrate([Row(step, 10.0)], TIMES)
    assert got.launch == pytest.approx(exp(log(10) / (1 + ROW**2)), rel=0.01)
    assert got.scale == pytest.approx(1, abs=0.01)


def test_many_rows_leave_little_of_what_was_known_before() -> None:
    rows = [Row(lambda times: 2.0 * times.scale, 3.0)] * 20
    assert calibrate(rows, TIMES).scale == pytest.approx(1.5 ** (20 / 21), rel=1e-3)


def test_a_row_that_is_predicted_changes_nothing() -> None:
    assert calibrate([Row(step, step(TIMES))], TIMES) == pytest.approx(Factors(), rel=1e-6)


def test_factors_apply_to_times() -> None:
    times = Factors(2.0, 3.0).of(TIMES)
    assert (times.scale, times.launch) == (2.0, 3e-3)


def test_a_step_without_seconds_is_refused() -> None:
    with pytest.raises(InputError, match="above 0"):
        calibrate([Row(step, 0.0)], TIMES)
