"""Factors on the times of a device from measured steps."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.models.device_times import DeviceTimes
from experiments.parallel.compute_calibration import KNOWN, ROW, Factors, Row, calibrate
from topologies.errors import InputError
from topologies.topology import Floats


def device(factors: Factors) -> Floats:
    """Two seconds of the device."""
    return np.array([2.0 * factors.scale, 0.0, 0.0])


def step(factors: Factors) -> Floats:
    """Two seconds of the device, or a second of launches if they take longer."""
    launches = np.array([0.0, factors.launch, 0.0])
    return max(device(factors), launches, key=np.sum)


@given(st.floats(0.5, 3))
@settings(max_examples=10)
def test_a_row_that_the_device_binds_moves_its_factor_half_way(factor: float) -> None:
    """Two normal logarithms with the same standard deviation."""
    assert KNOWN == ROW
    got = calibrate([Row(device, 2 * factor)])
    assert got.scale == pytest.approx(factor**0.5, rel=1e-3)
    assert got.launch == pytest.approx(1, rel=1e-3)


def test_a_row_far_above_the_device_tells_of_the_launch() -> None:
    got = calibrate([Row(step, 10.0)])
    assert got.launch == pytest.approx(exp(log(10) / (1 + ROW**2)), rel=0.01)
    assert got.scale == pytest.approx(1, abs=0.01)


def test_many_rows_leave_little_of_what_was_known_before() -> None:
    rows = [Row(device, 3.0)] * 20
    assert calibrate(rows).scale == pytest.approx(1.5 ** (20 / 21), rel=1e-3)


def test_a_row_that_is_predicted_changes_nothing() -> None:
    assert calibrate([Row(step, 2.0)]) == pytest.approx(Factors(), rel=1e-6)


def test_a_few_simulations_find_the_path_that_binds() -> None:
    tried = list[Factors]()

    def counted(factors: Factors) -> Floats:
        tried.append(factors)
        return step(factors)

    calibrate([Row(counted, 5.0)])
    assert len(tried) <= 6


def test_factors_apply_to_times() -> None:
    times = Factors(2.0, 3.0).of(DeviceTimes("a100", launch=1e-3))
    assert (times.scale, times.launch) == (2.0, 3e-3)


def test_a_step_without_seconds_is_refused() -> None:
    with pytest.raises(InputError, match="above 0"):
        calibrate([Row(step, 0.0)])
