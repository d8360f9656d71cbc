"""From work to seconds: the roofline by hand, what is kept, what the optimizer moves, and how all
of it scales."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.device_times import estimate
from experiments.models.work import (
    Architecture,
    LayerWork,
    Operation,
    activation,
    addition,
    attention,
    average,
    batch_norm,
    convolution,
    cross_entropy,
    dropout,
    embedding,
    gated,
    linear,
    norm,
    pooling,
    rotary,
)
from grouped_cases import each_case
from simulator.training.model import Model

V100_FP32 = 15.7e12 * 0.8
V100_BYTES = 900e9 * 0.8


def single_layer(
    *operations: Operation, state: float = 1, elements: int = 6, channels: int = 0
) -> Architecture:
    part = LayerWork("only", operations, (("weight", elements),), channels)
    return Architecture((part,), inputs=10, outputs=3, state=state)


def on_v100(architecture: Architecture, batch: int = 1, dtype: str = "fp32") -> Model:
    return estimate("toy", architecture, batch=batch, device="v100", dtype=dtype)


def test_much_arithmetic_takes_its_flops() -> None:
    """1000 rows through 2000 x 3000: 12 GFLOP forward, twice that backward."""
    model = on_v100(single_layer(linear(1000, 2000, 3000)), batch=4)
    assert model.forward == pytest.approx(4 * 2 * 1000 * 2000 * 3000 / V100_FP32)
    assert model.backward == pytest.approx(2 * model.forward)
    assert model.activations == 4 * 1000 * 3000 * 4


def test_little_arithmetic_takes_its_bytes() -> None:
    """A single row: the weights are what is moved, read forward, read and written (their gradient)
    backward."""
    model = on_v100(single_layer(linear(1, 2000, 3000)))
    assert model.forward == pytest.approx((2000 * 3000 + 5000) * 4 / V100_BYTES)
    assert model.backward == pytest.approx(2 * model.forward)


def test_weights_are_read_once_a_batch() -> None:
    one_row, eight_rows = (
        on_v100(single_layer(linear(1, 4000, 4000)), batch=batch).forward for batch in (1, 8)
    )
    assert eight_rows < 1.02 * one_row


def test_the_first_convolution_needs_no_gradient_of_its_input() -> None:
    first, later = (
        on_v100(
            single_layer(convolution(1e5, 1e5, 1e5, 1e4, square=False, keeps=True, first=first))
        )
        for first in (True, False)
    )
    assert first.forward == later.forward
    assert first.backward == pytest.approx(first.forward)
    assert later.backward == pytest.approx(2 * later.forward)


def test_winograds_algorithm_beats_the_peak_in_fp32_only() -> None:
    plain, square = (
        convolution(1, 1, 1e5, 1e4, square=square, keeps=True, first=False)
        for square in (False, True)
    )
    assert on_v100(single_layer(plain)).forward == pytest.approx(2e9 / (15.7e12 * 0.6))
    assert on_v100(single_layer(square)).forward == pytest.approx(2e9 / (15.7e12 * 1.4))
    assert (
        on_v100(single_layer(plain), dtype="amp").forward
        == on_v100(single_layer(square), dtype="amp").forward
    )


@each_case(
    ("operation", "forward", "backward", "kept"),
    [
        (batch_norm(1e6), 3e6, 5e6, 0),
        (norm(1e6), 2e6, 5e6, 4e6),
        (activation(1e6), 2e6, 3e6, 4e6),
        (gated(1e6), 5e6, 8e6, 8e6),
        (rotary(1e6), 9e6, 9e6, 4e6),
        (addition(1e6), 3e6, 3e6, 4e6),
        (dropout(1e6), 2e6, 2e6, 1e6),
        (pooling(4e6, 1e6), 5e6, 5e6, 12e6),
        (average(4e6, 1e6), 5e6, 5e6, 4e6),
        (cross_entropy(1e6), 3e6, 3e6, 4e6),
    ],
)
def test_what_is_bound_by_bytes_moves_its_elements(
    operation: Operation, forward: float, backward: float, kept: float
) -> None:
    """Elements of four bytes moved, and bytes kept."""
    model = on_v100(single_layer(operation), batch=2)
    assert model.forward == pytest.approx(2 * forward * 4 / V100_BYTES)
    assert model.backward == pytest.approx(2 * backward * 4 / V100_BYTES)
    assert model.activations == 2 * kept


def test_a_layer_with_channels_has_running_statistics() -> None:
    layer = on_v100(single_layer(batch_norm(1e6), channels=64)).layers[0]
    assert (layer.channels, layer.buffers) == (64, 2 * 64 * 4 + 8)


def test_the_gradient_of_a_first_convolutions_weights_is_all_that_it_writes() -> None:
    first, later = (
        on_v100(single_layer(convolution(0, 0, 1e6, 1, square=True, keeps=True, first=first)))
        for first in (True, False)
    )
    assert first.backward == pytest.approx(4e6 / V100_BYTES)
    assert later.backward == pytest.approx(8e6 / V100_BYTES)


def test_fused_attention_keeps_no_scores_and_computes_them_again() -> None:
    full, causal = (
        on_v100(single_layer(attention(512, *[64] * 4, causal=causal))) for causal in (False, True)
    )
    assert full.forward == pytest.approx(4 * 512**2 * 64 / (15.7e12 * 0.4))
    assert full.backward == pytest.approx(2.5 * full.forward)
    assert causal.forward == pytest.approx(full.forward / 2)
    assert full.activations == 512 * 64 * 4


def test_the_gradient_of_an_embedding_is_a_whole_table() -> None:
    model = on_v100(single_layer(embedding(64, 1e6)))
    assert model.forward == pytest.approx(2 * 64 * 4 / V100_BYTES)
    assert model.backward == pytest.approx((2 * 64 + 1e6) * 4 / V100_BYTES)


def test_mixed_precision_converts_weights_and_gradients() -> None:
    """2 bytes an element moved in 16 bits, and 4 + 2 more to convert a weight, either way."""
    model = on_v100(single_layer(linear(1, 2000, 3000)), dtype="amp")
    weights = 2000 * 3000
    assert model.forward == pytest.approx(((weights + 5000) * 2 + weights * 6) / V100_BYTES)
    assert model.backward == pytest.approx(((2 * weights + 10000) * 2 + weights * 6) / V100_BYTES)
    assert (model.dtype, model.gradient_dtype) == ("fp32", "fp32")
    assert (model.parameters, model.gradients, model.activations) == (24, 24, 3000 * 2)


@pytest.mark.parametrize(("state", "bytes_a_parameter"), [(1, 20), (2, 28)])
def test_the_optimizer_reads_and_writes(state: float, bytes_a_parameter: int) -> None:
    """Reads parameter, gradient and state, writes parameter and state: 5 x 4 bytes for SGD, 7 x 4
    for Adam."""
    model = on_v100(single_layer(linear(1, 2, 3), state=state, elements=10**6))
    assert model.optimizer == pytest.approx(1e6 * bytes_a_parameter / V100_BYTES)
    assert model.state == state


def test_pure_bf16_halves_parameters_gradients_and_state() -> None:
    model = estimate(
        "toy",
        single_layer(linear(1, 2, 3), state=2, elements=10**6),
        batch=1,
        device="h100",
        dtype="bf16",
    )
    assert (model.dtype, model.gradient_dtype) == ("bf16", "bf16")
    assert (model.parameters, model.gradients) == (2e6, 2e6)
    assert model.optimizer == pytest.approx(14e6 / (3350e9 * 0.8))


def test_tf32_is_fp32_in_memory() -> None:
    model = estimate("toy", single_layer(linear(1, 2, 3)), batch=1, device="a100", dtype="tf32")
    assert (model.dtype, model.parameters, model.activations) == ("fp32", 24, 12)


@given(batch=st.integers(1, 1000), factor=st.integers(1, 50))
def test_what_is_bound_by_arithmetic_is_linear_in_the_batch(batch: int, factor: int) -> None:
    toy = single_layer(linear(1000, 2000, 3000))
    small, large = on_v100(toy, batch), on_v100(toy, batch * factor)
    assert large.forward == pytest.approx(factor * small.forward)
    assert large.activations == factor * small.activations
    assert (large.inputs, large.outputs) == (factor * small.inputs, factor * small.outputs)
    assert (large.parameters, large.optimizer) == (small.parameters, small.optimizer)


@given(batch=st.integers(1, 1000), rows=st.integers(1, 100))
def test_a_larger_batch_is_no_slower_a_sample(batch: int, rows: int) -> None:
    toy = single_layer(
        linear(rows, 300, 300), batch_norm(1000), attention(rows, *[64] * 4, causal=True)
    )
    small, large = on_v100(toy, batch), on_v100(toy, batch + 1)
    assert large.compute > small.compute
    assert large.compute / (batch + 1) <= small.compute / batch * (1 + 1e-12)


def test_the_source_says_that_it_is_an_estimate_and_with_which_shares() -> None:
    assert on_v100(single_layer(linear(1, 2, 3))).source == (
        "estimated, not measured: FLOPs at 80% (matmul) of the 15.7 TFLOP/s in fp32 of v100, "
        "bytes at 80% of 900 GB/s"
    )
