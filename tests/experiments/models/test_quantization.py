"""Casts to 8 bits: the laws of their times, and two measured ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.accelerators import ACCELERATORS
from experiments.models.device_times import DeviceTimes
from experiments.models.quantization import quantization_time

SIDES = st.integers(1, 2**20)
DEVICES = st.sampled_from(sorted(ACCELERATORS))


@given(DEVICES, SIDES, SIDES, SIDES)
def test_more_rows_are_never_cheaper(device: str, rows: int, more: int, columns: int) -> None:
    few, many = (quantization_time(device, n, columns) for n in (rows, rows + more))
    assert 0 < few <= many


@given(DEVICES, SIDES, SIDES)
def test_a_dynamic_scale_costs_a_pass(device: str, rows: int, columns: int) -> None:
    static = quantization_time(device, rows, columns, dynamic=False)
    assert quantization_time(device, rows, columns) > static


@pytest.mark.parametrize(
    ("device", "rows", "columns", "cast", "amax"),
    [("h100", 16384, 12288, 199e-6, 312e-6), ("b200", 32768, 3584, 79e-6, 82e-6)],
)
def test_measured_casts(device: str, rows: int, columns: int, cast: float, amax: float) -> None:
    # TensorRT-LLM 1.3.0rc10 in AIConfigurator, tables scale_matrix and computescale.
    static = quantization_time(device, rows, columns, dynamic=False)
    assert static == pytest.approx(cast, rel=0.1)
    assert quantization_time(device, rows, columns) == pytest.approx(cast + amax, rel=0.1)


def test_device_times_scale_casts() -> None:
    slow = DeviceTimes("h100", "fp8", scale=2.0)
    usual = quantization_time("h100", 4096, 4096)
    assert slow.quantize(4096, 4096) == pytest.approx(2 * usual)
    assert slow.quantize(0, 4096) == 0.0
