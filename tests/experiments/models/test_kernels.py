"""From kernels to seconds: products, convolutions and bytes by hand, what a layer has, what the
optimizer moves, and how all of it scales."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.accelerators import PRECISIONS
from experiments.models.block_cut import BlockCut
from experiments.models.device_times import DeviceTimes
from experiments.models.kernels import Computation, Kernels
from grouped_cases import each_case
from simulator.training.model import Model

V100_BYTES = 900e9 * 0.8


def kernels(device: str = "v100", dtype: str = "fp32", batch: int = 1) -> Kernels:
    cut = BlockCut(micro=batch, grads=PRECISIONS[dtype].gradients)
    return Kernels(DeviceTimes(device, dtype), cut)


def model(maker: Kernels, *each: Computation, state: float = 1, elements: int = 6) -> Model:
    layer = maker.layer("only", each, (("weight", elements),))
    return maker.model([layer], inputs=10, outputs=3, state=state)


def test_a_product_has_three_passes() -> None:
    """1000 rows through 2000 x 3000: the gradients of inputs and of weights are products too, and
    those of weights are added in fp32."""
    maker = kernels("a100", "amp")
    product = maker.product(1000, 3000, 2000)
    assert product.forward == maker.times.product(1000, 3000, 2000)
    assert product.inputs == maker.times.product(1000, 2000, 3000)
    added = 10 * 2000 * 3000 / (2039e9 * 0.8)
    assert product.weights == pytest.approx(maker.times.product(3000, 2000, 1000) + added)
    layer = maker.layer("only", [product])
    assert layer.forward == product.forward
    assert layer.backward == product.inputs + product.weights


@each_case(("eager", "moved"), [(False, 4), (True, 6)])
def test_products_apart_add_the_gradients_of_their_input(eager: bool, moved: int) -> None:
    """A compiler reads three and writes one; else two sums read two and write one each."""
    times = DeviceTimes("h100", "bf16")
    products = Kernels(times, BlockCut(merged=False, eager=eager)).product(
        1000, (300, 200, 100), 400
    )
    maker = Kernels(times, BlockCut())
    each = [maker.product(1000, outputs, 400) for outputs in (300, 200, 100)]
    assert products.forward == pytest.approx(sum(one.forward for one in each))
    assert products.weights == pytest.approx(sum(one.weights for one in each))
    added = times.memory(moved * 1000 * 400 * 2)
    assert products.inputs == pytest.approx(sum(one.inputs for one in each) + added)
    assert (products.kernels, products.kernels_back) == (3, 7)
    assert maker.product(1000, (300, 200, 100), 400) == maker.product(1000, 600, 400)
    alone = Kernels(times, BlockCut(merged=False)).product(1000, [600.0], 400, kept=3.0)
    assert alone == maker.product(1000, 600, 400, kept=3.0)


def test_sums_of_gradients_in_16_bits_move_less() -> None:
    weights = [kernels("a100", dtype).product(100, 200, 300).weights for dtype in ("amp", "bf16")]
    assert weights[0] - weights[1] == pytest.approx(4 * 200 * 300 / (2039e9 * 0.8))


@each_case(
    ("dtype", "plain", "square"),
    [("fp32", 15.7e12 * 0.6, 15.7e12 * 1.4), ("amp", 125e12 * 0.4, 125e12 * 0.4)],
)
def test_winograds_algorithm_beats_the_peak_in_fp32_only(
    dtype: str, plain: float, square: float
) -> None:
    times = DeviceTimes("v100", dtype)
    assert times.convolution(2e9, 1, square=False) == pytest.approx(2e9 / plain)
    assert times.convolution(2e9, 1, square=True) == pytest.approx(2e9 / square)
    assert times.convolution(1, 1e9, square=True) == pytest.approx(1e9 / V100_BYTES)


def test_a_kernel_that_moves_bytes_takes_its_start_too() -> None:
    kernel = kernels().memory(3e6, 5e6, kept=1e6)
    assert kernel.forward == pytest.approx(3e6 / V100_BYTES + 3e-6)
    assert kernel.inputs == pytest.approx(5e6 / V100_BYTES + 3e-6)
    assert (kernel.weights, kernel.kept) == (0, 1e6)


def test_a_layer_with_channels_has_running_statistics() -> None:
    layer = kernels().layer("only", [kernels().memory(3, 5, kept=7)], channels=64)
    assert (layer.channels, layer.buffers, layer.activation) == (64, 2 * 64 * 4 + 8, 7)


@pytest.mark.parametrize(("state", "bytes_a_parameter"), [(1, 20), (2, 28)])
def test_the_optimizer_reads_and_writes(state: float, bytes_a_parameter: int) -> None:
    """Reads parameter, gradient and state, writes parameter and state: 5 x 4 bytes for SGD, 7 x 4
    for Adam."""
    toy = model(kernels(), state=state, elements=10**6)
    assert toy.optimizer == pytest.approx(1e6 * bytes_a_parameter / V100_BYTES)
    assert toy.state == state


def test_pure_bf16_halves_parameters_gradients_and_state() -> None:
    toy = model(kernels("h100", "bf16"), state=2, elements=10**6)
    assert (toy.dtype, toy.gradient_dtype) == ("bf16", "bf16")
    assert (toy.parameters, toy.gradients) == (2e6, 2e6)
    assert toy.optimizer == pytest.approx(14e6 / (3350e9 * 0.8))


@each_case(("dtype", "width"), [("fp32", 4), ("tf32", 4), ("amp", 2)])
def test_parameters_of_wide_and_mixed_precision_are_in_fp32(dtype: str, width: float) -> None:
    maker = kernels("a100", dtype)
    toy = model(maker)
    assert (toy.dtype, toy.gradient_dtype, toy.parameters) == ("fp32", "fp32", 24)
    assert maker.width == width


@given(batch=st.integers(1, 1000), factor=st.integers(1, 50))
def test_inputs_and_outputs_are_linear_in_the_batch(batch: int, factor: int) -> None:
    small, large = (model(kernels(batch=size)) for size in (batch, batch * factor))
    assert (large.inputs, large.outputs) == (factor * small.inputs, factor * small.outputs)
    assert (large.parameters, large.optimizer) == (small.parameters, small.optimizer)


def test_the_source_says_that_it_is_an_estimate() -> None:
    assert model(kernels()).source == (
        "estimated, not measured: FLOPs at what products of such sizes reach of the 15.7 TFLOP/s "
        "in fp32 of v100, bytes at 80% of 900 GB/s"
    )
