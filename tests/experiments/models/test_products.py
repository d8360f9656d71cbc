"""The shares of a peak that matrix products reach."""

import numpy as np
import pytest

from experiments.models import products
from experiments.models.accelerators import ACCELERATORS
from experiments.models.device_times import DeviceTimes
from grouped_cases import each_case


@each_case("device", ACCELERATORS)
def test_every_device_has_shares_between_nothing_and_its_peak(device: str) -> None:
    for dtype in ("bf16", "fp8"):
        rows, sides, shares = products.read(device, dtype)
        assert shares.shape == (len(rows), len(sides), len(sides))
        assert shares.min() > 0
        assert shares.max() <= 1


def test_a_measured_product_has_its_share() -> None:
    lines, sides, shares = products.read("a100", "bf16")
    rows, outputs, inner = (np.exp(axis[-3]) for axis in (lines, sides, sides))
    assert products.share("a100", "bf16", rows, outputs, inner) == pytest.approx(shares[-3, -3, -3])


def test_a_product_that_was_not_measured_lies_between_its_neighbours() -> None:
    lines, measured, shares = products.read("h100", "bf16")
    sides = 6144.0, 4600.0, 2200.0
    places = zip((lines, measured, measured), sides, strict=True)
    around = [np.searchsorted(axis, np.log(side)) + np.array([-1, 0]) for axis, side in places]
    near = shares[np.ix_(*around)]
    assert near.min() <= products.share("h100", "bf16", *sides) <= near.max()


def test_large_products_reach_more_than_small_ones() -> None:
    assert products.share("h100", "bf16", 8192, 8192, 8192) > 0.65
    assert products.share("h100", "bf16", 128, 1024, 1024) < 0.1


def test_a_tiny_product_takes_as_long_as_the_smallest_that_was_measured() -> None:
    times = DeviceTimes("a100")
    assert times.product(1, 1, 1) == times.product(64, 64, 64)


def test_a_scale_multiplies_all_times() -> None:
    plain, slow = DeviceTimes("h100"), DeviceTimes("h100", scale=2)
    assert slow.product(512, 512, 512) == 2 * plain.product(512, 512, 512)
    assert slow.memory(1e6) == 2 * plain.memory(1e6)
    assert slow.attention("flash2", 1e12, forward=True) == 2 * plain.attention(
        "flash2", 1e12, forward=True
    )


def test_fp8_is_faster_than_bf16_where_the_device_has_it() -> None:
    ratio = DeviceTimes("h100", "bf16").product(8192, 8192, 8192) / DeviceTimes(
        "h100", "fp8"
    ).product(8192, 8192, 8192)
    assert 1.3 < ratio < 2.1
