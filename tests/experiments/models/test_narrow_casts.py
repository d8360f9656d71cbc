"""Products below 16 bits, what layers keep, and what is computed again."""

from math import isclose
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.accelerators import NARROW
from experiments.models.block_cut import WHOLE, BlockCut, Scaling, parse_recomputation
from experiments.models.device_times import DeviceTimes
from experiments.models.kernels import Kernels, computations
from experiments.models.mixers import mixture
from experiments.models.model_blocks import blocks
from experiments.models.narrow_casts import cast, layouts, reads, stored
from experiments.models.transformer_blocks import Writer
from experiments.parallel.plan_text import Plan
from grouped_cases import each_case
from shipped_shapes import find_shape
from simulator.parallel.blocks import Block, BlockPart
from topologies.errors import InputError

HIDDEN, INSIDE = 4096, 14336
"""The sides of a layer of Llama 3 8B."""
LEVEL = 1.2
"""That of all steps, whatever they multiply in."""


def llama(dtype: str, device: str = "b200", **cut: Any) -> list[Block]:
    _, shape, seq = find_shape("llama3_8b:layers=6")
    return blocks(shape, seq, BlockCut(**cut), DeviceTimes(device, dtype, level=LEVEL))


def seconds(parts: tuple[BlockPart, ...]) -> float:
    return sum(part.seconds for part in parts)


@each_case(
    ("device", "dtype", "scaling", "copies", "passes"),
    [
        ("h100", "fp8", "delayed", 2, 1),
        ("h100", "fp8", "current", 2, 2),
        ("b200", "fp8", "current", 1, 2),
        ("mi355x", "fp8", "delayed", 2, 1),
        ("h100", "fp8_block", "delayed", 2, 1),
        ("b200", "mxfp8", "current", 2, 1),
        ("b200", "nvfp4", "delayed", 2, 2),
    ],
)
def test_a_recipe_says_how_often_a_cast_reads_and_what_it_writes(
    device: str, dtype: str, scaling: Scaling, copies: int, passes: int
) -> None:
    times = DeviceTimes(device, dtype)
    assert (layouts(times), reads(times, scaling)) == (copies, passes)
    assert stored(times) == copies * NARROW[dtype]
    alone = times.quantize(4096, 4096, dynamic=passes == 2)
    more = times.traffic((copies - 1) * NARROW[dtype] * 4096**2)
    assert cast(times, 4096, 4096, scaling) == alone + more


def test_scales_of_rows_cost_a_cast_for_each_product() -> None:
    """Two for what two products of a pass multiply, and nothing travels cast."""
    times, args = DeviceTimes("h100", "fp8"), (8192, 4096, 1024)
    once = times.quantize(8192, 4096, dynamic=True)
    assert cast(times, 8192, 4096, "rowwise") == 2 * once
    assert cast(times, 8192, 4096, "rowwise", 1) == once
    current, rowwise = (
        Kernels(times, Plan(zero=3, scaling=scaling)) for scaling in ("current", "rowwise")
    )
    assert (current.wire, rowwise.wire) == (0.5, 1.0)
    product, plain = (each.product(*args) for each in (rowwise, current))
    matrices = [times.quantize(*sides, dynamic=True) for sides in ((8192, 1024), (4096, 1024))]
    assert product.forward == pytest.approx(times.product(*args) + sum(matrices))
    assert product.inputs == pytest.approx(times.product(8192, 1024, 4096) + 2 * once + matrices[1])
    assert product.forward < plain.forward


def test_a_product_casts_its_input_and_the_gradients_once() -> None:
    times = DeviceTimes("h100", "fp8")
    product = Kernels(times, BlockCut()).product(8192, 4096, 1024, kept=2.0, later=4.0)
    inputs, gradients = (cast(times, 8192, side, "delayed") for side in (1024, 4096))
    assert product.forward == times.product(8192, 4096, 1024) + inputs
    assert product.inputs == times.product(8192, 1024, 4096) + gradients
    added = times.traffic(10 * 4096 * 1024)
    assert product.weights == times.product(4096, 1024, 8192) + added
    assert (product.kernels, product.kernels_back) == (2, 3)
    assert (product.kept, product.later) == (1.0, 2.0)


@each_case(
    ("device", "dtype", "turned"),
    [("h100", "fp8", 2), ("b200", "fp8", 0), ("b200", "mxfp8", 0), ("mi300x", "fp8", 2)],
)
def test_frozen_matrices_that_are_held_once_are_transposed(
    device: str, dtype: str, turned: int
) -> None:
    """They are read and written, if products need both layouts."""
    times = DeviceTimes(device, dtype)
    usual, once = (
        Kernels(times, Plan(lora=8, fp8_gather=gather)).product(8192, 4096, 1024)
        for gather in (False, True)
    )
    assert once.inputs == usual.inputs + (turned and times.traffic(turned * 4096 * 1024))
    assert once.forward == usual.forward
    assert stored(times, once=True) == (1 if dtype == "fp8" else stored(times))


def test_fsdp_casts_weights_in_each_pass_and_inputs_in_both() -> None:
    """Unless it gathers them cast."""
    times, args = DeviceTimes("h100", "fp8"), (8192, 4096, 1024)
    usual, sharded, gathers = (
        Kernels(times, Plan(zero=zero, fp8_gather=gather)).product(*args, kept=2.0)
        for zero, gather in ((1, False), (3, False), (3, True))
    )
    weights, inputs = cast(times, 4096, 1024, "delayed"), cast(times, 8192, 1024, "delayed")
    assert sharded.forward - usual.forward == pytest.approx(weights)
    assert sharded.inputs - usual.inputs == pytest.approx(weights)
    assert gathers.forward == usual.forward
    assert gathers.weights == sharded.weights
    summed = times.traffic(10 * 4096 * 1024)
    assert sharded.weights == pytest.approx(usual.weights - summed + inputs)
    assert sharded.kept == 2.0


@given(
    st.sampled_from(["fp8", "mxfp8", "nvfp4"]),
    st.tuples(*[st.integers(4096, 32768)] * 3),
)
def test_large_products_are_no_slower_in_fewer_bits(dtype: str, sides: tuple[int, ...]) -> None:
    """Whole multiples of 128, as tiles have."""
    rows, outputs, inner = (side // 128 * 128 for side in sides)
    wider = {"fp8": "bf16", "mxfp8": "bf16", "nvfp4": "mxfp8"}[dtype]
    narrow, wide = (DeviceTimes("b200", each) for each in (dtype, wider))
    assert narrow.product(rows, outputs, inner) <= wide.product(rows, outputs, inner)


@each_case("dtype", [*NARROW])
def test_embedding_head_and_attention_stay_in_16_bits(dtype: str) -> None:
    embedding, *_, head = llama(dtype)
    assert (embedding, head) == (llama("bf16")[0], llama("bf16")[-1])
    _, shape, seq = find_shape("llama3_8b")
    for kernels in ("unfused", "flash2"):
        cut = BlockCut(attention=kernels)
        cores = [
            Writer(DeviceTimes("b200", name, level=LEVEL), cut, shape, seq).core()
            for name in (dtype, "bf16")
        ]
        assert cores[0] == cores[1]


def test_a_router_stays_in_16_bits() -> None:
    _, shape, seq = find_shape("mixtral_8x7b")
    assert shape.experts
    each = [DeviceTimes("b200", dtype, level=LEVEL) for dtype in ("mxfp8", "bf16")]
    routers = [
        computations(mixture(Writer(times, BlockCut(), shape, seq), shape.experts))[0]
        for times in each
    ]
    assert routers[0] == routers[1]


@each_case("dtype", [*NARROW])
def test_a_layer_keeps_the_inputs_of_its_products_cast(dtype: str) -> None:
    """Those of queries with keys and values, of the output, and of the MLP, of 8192 tokens."""
    inputs = 8192 * (3 * HIDDEN + INSIDE)
    kept = llama("bf16")[1].kept - llama(dtype)[1].kept
    assert isclose(kept, inputs * (2 - NARROW[dtype]))


def test_layers_at_the_ends_multiply_in_bf16() -> None:
    plain, wide = llama("nvfp4")[1], llama("bf16")[1]
    for text, layers in {
        "1": [wide, *[plain] * 4, wide],
        "1+4": [wide, plain, *[wide] * 4],
    }.items():
        assert llama("nvfp4", bf16_layers=text)[1:-1] == layers
    assert llama("nvfp4", bf16_layers="4")[1:-1] == [wide] * 6
    assert llama("nvfp4", bf16_layers="0")[1:-1] == [plain] * 6


def test_sequence_parallel_gathers_what_is_cast() -> None:
    """The input of products in the forward, and gradients in the backward; sums stay in 16 bits."""
    shares = {"all_gather": NARROW["mxfp8"] / 2, "reduce_scatter": 1.0}
    narrow, wide = (llama(dtype, tp=4, sp=True)[1] for dtype in ("mxfp8", "bf16"))
    for direction in ("forward", "backward"):
        pairs = zip(getattr(narrow, direction), getattr(wide, direction), strict=True)
        moved = [(a, b) for a, b in pairs if a.collective]
        assert moved
        assert all(a.nbytes == b.nbytes * shares[a.collective] for a, b in moved)


def test_casts_make_a_layer_slower_than_its_products_alone() -> None:
    delayed, current = (llama("fp8", "h100", scaling=each)[1] for each in ("delayed", "current"))
    assert seconds(delayed.forward) < seconds(current.forward)
    assert seconds(delayed.backward) < seconds(current.backward)
    assert seconds(current.forward) < seconds(llama("bf16", "h100")[1].forward)


@given(st.integers(0, 20), st.integers(0, 30))
def test_a_number_is_of_the_first_layers_of_a_stage(first: int, count: int) -> None:
    layers = parse_recomputation(f"full:{first}").layers(count)
    assert layers == [number < first for number in range(count)]


@given(st.integers(1, 20), st.integers(0, 30))
def test_every_so_many_th_layer_computes_again(every: int, count: int) -> None:
    layers = parse_recomputation(f"op/{every}").layers(count)
    assert [number for number, again in enumerate(layers, 1) if again] == list(
        range(every, count + 1, every)
    )


@given(st.sampled_from(WHOLE), st.integers(0, 30))
def test_a_word_alone_is_of_all_layers(word: str, count: int) -> None:
    assert parse_recomputation(word).layers(count) == [True] * count


def test_modules_are_joined_and_counted_once() -> None:
    assert parse_recomputation("moe+layernorm+moe").words == ("moe", "layernorm")


@each_case(
    "text",
    [
        *("", "all", "full+mlp", "mlp+", "full:", "full/0", "full:-1", "none:3", "none/2"),
        *("op:1:2", "full:" + "9" * 9, "mlp,moe", "full:\u0663", "mlp" + "+mlp" * 10_000 + "x"),
    ],
)
def test_a_wrong_text_says_what_would_be_right(text: str) -> None:
    with pytest.raises(InputError, match="none, selective, full, op, or modules joined by"):
        parse_recomputation(text)
