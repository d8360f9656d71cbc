"""Times of products: laws of the formula and its grid, and figures of the table that ships."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.accelerators import ACCELERATORS, NARROW
from experiments.models.kernel_times.kernel_model import KernelModel, Key, interpolated, models
from experiments.models.kernel_times.lookup import ALL, model_of
from experiments.models.kernel_times.products import PRODUCTS, product_time
from grouped_cases import each_case
from topologies.errors import InputError

SHIPPED = models(PRODUCTS)
SIDES = st.integers(1, 65536)


def seconds(model: KernelModel, m: float, n: float, k: float, quantised: float = 0.0) -> float:
    """The expected seconds of a product."""
    return model.of(m=m, n=n, k=k, quantised=quantised).expected


@given(st.sampled_from([*SHIPPED]), SIDES, SIDES, SIDES)
def test_a_product_is_slower_than_its_peak_and_its_interval_holds_it(
    key: Key, m: int, n: int, k: int
) -> None:
    model = SHIPPED[key]
    time = model.of(m=m, n=n, k=k, quantised=0)
    assert 0 < time.low < time.expected < time.high < 1e3
    assert time.expected > 0.7 * 2 * m * n * k / model.chip.flops


@given(st.sampled_from([*SHIPPED]), SIDES, SIDES, SIDES)
def test_the_formula_never_falls_with_rows_of_whole_vectors_and_outputs(
    key: Key, m: int, n: int, k: int
) -> None:
    model = SHIPPED[key]
    rows, outputs = np.array([4.0 * m, 4.0 * m + 4, 4.0 * m]), np.array([n, n, n + 1.0])
    sizes = {"m": rows, "n": outputs, "k": np.full(3, k), "quantised": np.zeros(3)}
    times = PRODUCTS.formula(sizes, model.values, model.chip)
    assert (times[1:] >= times[0] * (1 - 1e-12)).all()


@given(st.sampled_from([*SHIPPED]), st.integers(6, 14), st.integers(6, 14), st.integers(6, 14))
def test_four_times_the_work_is_not_much_cheaper(key: Key, m: int, n: int, k: int) -> None:
    """Measured ones are cheaper by as much: in fp8 on L40S, SGLang takes 64 us for 512 x 512 x 5120
    and 45 us for 513 x 1024 x 6144. Engines that quantise were measured with it."""
    quantised = key.precision in NARROW
    small, large = (
        seconds(SHIPPED[key], 2**rows, 2**outputs, 2**k, quantised)
        for rows, outputs in ((m, n), (m + 1, n + 1))
    )
    assert large > 0.8 * small


def test_a_grid_is_exact_at_its_nodes_and_linear_between_them() -> None:
    grid, nodes = np.random.default_rng(1).normal(size=(2, 3)), ((0.0, 1.0), (0.0, 2.0, 6.0))
    points = np.array([[0, 0], [1, 6], [0.5, 2], [0, 1], [-9, 99]])
    expected = [
        grid[0, 0],
        grid[1, 2],
        grid[:, 1].mean(),
        grid[0, :2].mean(),
        grid[0, 2],
    ]
    assert interpolated(grid, nodes, points) == pytest.approx(expected)


def test_a_device_alike_takes_the_shares_of_its_sibling_with_a_wider_spread() -> None:
    sibling, alike = (model_of(PRODUCTS, name, "bf16", "vllm") for name in ("h100", "h800"))
    assert alike.values == sibling.values
    assert alike.spread > sibling.spread
    assert seconds(alike, 8192, 8192, 8192) == pytest.approx(
        seconds(sibling, 8192, 8192, 8192) * sibling.chip.flops / alike.chip.flops, rel=0.15
    )


def test_wider_elements_take_longer() -> None:
    half, whole = (model_of(PRODUCTS, "a100", dtype, "vllm") for dtype in ("bf16", "fp32"))
    assert seconds(whole, 4096, 4096, 4096) > 8 * seconds(half, 4096, 4096, 4096)


@each_case("device", ACCELERATORS)
def test_every_device_has_products_in_its_dtypes(device: str) -> None:
    for dtype in ACCELERATORS[device].peak:
        engine = "trtllm" if dtype not in ("fp32",) else "vllm"
        assert seconds(model_of(PRODUCTS, device, dtype, engine), 512, 512, 512) > 0


@each_case(
    ("device", "precision", "engine", "message"),
    [
        ("a100", "fp8", "vllm", "a100 has no 'fp8': it has fp32, tf32, fp16, bf16"),
        (
            "h100",
            "bf16",
            "cutlass",
            "no engine 'cutlass' in bf16: there are cublas, sglang, trtllm, vllm",
        ),
    ],
)
def test_what_is_refused(device: str, precision: str, engine: str, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        model_of(PRODUCTS, device, precision, engine)
    assert str(refusal.value) == message


def test_a_product_without_rows_is_refused() -> None:
    with pytest.raises(InputError, match="m is 0: it is between 1 and 2147483647"):
        product_time("h100", 0, 4096, 4096)


@each_case("device", ["mi300x", "mi355x", "v100"])
def test_a_device_without_a_sibling_takes_what_all_share(device: str) -> None:
    model, shared = model_of(PRODUCTS, device, "fp16", "vllm"), SHIPPED[Key(ALL, "bf16", "vllm")]
    assert (model.values, model.spread) == (shared.values, shared.spread)


def test_what_all_devices_share_is_less_sure() -> None:
    for key, model in SHIPPED.items():
        if key.device == ALL:
            spreads = [each.spread for line, each in SHIPPED.items() if line[1:] == key[1:]]
            assert model.spread >= np.median(spreads)
