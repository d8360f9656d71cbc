"""Times of layers of experts: laws of their formula and of their rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.kernel_times.grouped_products import (
    GROUPED_PRODUCTS,
    product_seconds,
    rows_of,
)
from experiments.models.kernel_times.kernel_model import Key, models

SHIPPED = models(GROUPED_PRODUCTS)
LAYER = {
    "tokens": 4096.0,
    "hidden": 2048.0,
    "inter": 768.0,
    "topk": 8.0,
    "experts": 128.0,
    "tp": 1.0,
    "ep": 1.0,
    "ups": 2.0,
    "uneven": 0.0,
}


@given(
    st.sampled_from([*SHIPPED]), st.integers(0, 16), st.integers(0, 7), st.sampled_from([0, 1.2])
)
def test_a_layer_takes_longer_than_its_peak_and_no_time_is_out_of_bounds(
    key: Key, tokens: int, ep: int, uneven: float
) -> None:
    model = SHIPPED[key]
    time = model.of(**LAYER | {"tokens": 2.0**tokens, "ep": 2.0**ep, "uneven": uneven})
    assert 1e-6 < time.low < time.expected < time.high < 10
    flops = 6 * 2**tokens * 8 / 2**ep * 2048 * 768
    assert time.expected > 0.7 * flops / model.chip.flops


@given(st.floats(0.1, 2.0), st.integers(1, 65536), st.sampled_from([0.0, 1.01, 1.2]))
def test_uneven_routing_keeps_the_rows_of_a_device_with_all_experts(
    skew: float, tokens: int, uneven: float
) -> None:
    sizes = {name: np.array([size]) for name, size in LAYER.items()}
    sizes |= {"tokens": np.array([float(tokens)]), "uneven": np.array([uneven])}
    rows = rows_of(sizes, {"skew": skew, "division": 1.0})
    assert rows.mean() * 128 == pytest.approx(tokens * 8)
    assert (np.diff(rows) >= 0).all()


def test_experts_without_rows_are_not_read() -> None:
    model = SHIPPED[Key("h100", "bf16", "trtllm")]
    none, many = (
        product_seconds(
            np.full((1, 8), rows),
            np.array([64.0]),
            np.array([4096.0]),
            np.array([4096.0]),
            model.values,
            model.chip,
        )[0]
        for rows in (0.01, 8.0)
    )
    assert many > 10 * none


def test_small_groups_take_longer_for_their_flops() -> None:
    model = SHIPPED[Key("h100", "bf16", "trtllm")]
    few, many = (
        model.of(**LAYER | {"tokens": tokens}).expected / tokens for tokens in (256.0, 16384.0)
    )
    assert few > 4 * many
