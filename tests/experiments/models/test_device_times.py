"""Devices: their peaks from what they are made of, the shares that are stated, and what they cannot
do."""

import pytest

from experiments.models import device_times
from experiments.models.accelerators import (
    ACCELERATORS,
    MEMORY,
    NARROW,
    PRECISIONS,
    SHARES,
    accelerator,
    bandwidth,
    multiplies,
    rate,
)
from experiments.models.device_times import DeviceTimes, other_levels, step_level
from experiments.models.kernel_times.attention import AttentionSizes
from experiments.models.kernel_times.lookup import model_of
from experiments.models.kernel_times.products import PRODUCTS
from grouped_cases import each_case
from simulator.training.model import WIDTHS
from topologies.errors import InputError

PASS = AttentionSizes(8, 32, 8, 128, 4096, 4096)


@each_case(
    ("name", "dtype", "units", "flops", "clock"),
    [
        ("p100", "fp32", 3584, 2, 1.48e9),
        ("v100", "fp32", 5120, 2, 1.53e9),
        ("v100", "fp16", 640, 128, 1.53e9),
        ("a100", "fp32", 6912, 2, 1.41e9),
        ("a100", "tf32", 432, 256, 1.41e9),
        ("a100", "bf16", 432, 512, 1.41e9),
        ("h100", "bf16", 528, 1024, 1.83e9),
        ("h100", "fp8", 528, 2048, 1.83e9),
        ("mi300x", "bf16", 1216, 512, 2.1e9),
        ("cpu", "fp32", 112, 64, 2e9),
        ("cpu", "bf16", 112, 2048, 2e9),
    ],
)
def test_a_peak_is_units_times_flops_a_cycle_times_clock(
    name: str, dtype: str, units: int, flops: int, clock: float
) -> None:
    assert accelerator(name).peak[dtype] == pytest.approx(units * flops * clock, rel=0.01)


def test_the_bandwidth_of_the_cpu_is_that_of_its_channels() -> None:
    assert accelerator("cpu").bandwidth == 16 * 8 * 4.8e9


@each_case("name", ACCELERATORS)
def test_narrower_numbers_are_no_slower(name: str) -> None:
    peak = ACCELERATORS[name].peak
    peaks = [peak[dtype] for dtype in ("fp32", "tf32", "bf16", "fp8", "nvfp4") if dtype in peak]
    assert peaks == sorted(peaks)
    assert peak.get("fp16", peak.get("bf16")) == peak.get("bf16", peak.get("fp16"))


@each_case("name", ACCELERATORS)
def test_every_peak_has_a_dtype(name: str) -> None:
    assert set(ACCELERATORS[name].peak) <= {*WIDTHS, *NARROW}


def test_every_share_is_one() -> None:
    """But that of Winograd's algorithm."""
    shares = {(kind, dtype): value for kind in SHARES for dtype, value in SHARES[kind].items()}
    assert 0 < shares.pop(("3x3 convolution", "fp32")) < 1.5
    assert all(0 < value < 1 for value in (*shares.values(), MEMORY))


def test_a_share_is_scaled_by_what_the_libraries_reach() -> None:
    assert rate("h100", "bf16") == 0.6 * 989e12
    assert rate("mi300x", "bf16") == pytest.approx(0.42 * 1307.4e12)
    assert bandwidth("v100") == pytest.approx(720e9)


@each_case(
    ("device", "dtype", "math"),
    [
        ("v100", "fp32", "fp32"),
        ("v100", "amp", "fp16"),
        ("a100", "amp", "bf16"),
        ("a100", "tf32", "tf32"),
        ("h100", "fp8", "fp8"),
        ("cpu", "amp", "bf16"),
    ],
)
def test_what_is_multiplied_in(device: str, dtype: str, math: str) -> None:
    assert multiplies(device, dtype) == math


@each_case(
    ("device", "dtype", "kind", "message"),
    [
        ("v100", "bf16", "matmul", "v100 cannot train it in 'bf16': it takes fp32, amp"),
        ("a100", "fp8", "matmul", "a100 cannot train it in 'fp8': it takes fp32, tf32, amp, bf16"),
        (
            "h100",
            "fp8",
            "convolution",
            "h100 cannot train it in 'fp8': it takes fp32, tf32, amp, bf16",
        ),
        (
            "h100",
            "fp16",
            "matmul",
            "h100 cannot train it in 'fp16': it takes fp32, tf32, amp, bf16, fp8, fp8_block",
        ),
        (
            "h100",
            "nvfp4",
            "matmul",
            "h100 cannot train it in 'nvfp4': it takes fp32, tf32, amp, bf16, fp8, fp8_block",
        ),
        (
            "H1000",
            "amp",
            "matmul",
            f"'H1000' is no device: did you mean 'h100'? there are {', '.join(ACCELERATORS)}",
        ),
        ("", "amp", "matmul", f"'' is no device: there are {', '.join(ACCELERATORS)}"),
    ],
)
def test_what_is_refused(device: str, dtype: str, kind: str, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        multiplies(device, dtype, kind)
    assert str(refusal.value) == message


def test_a_board_with_less_power_multiplies_slower_and_moves_bytes_as_fast() -> None:
    usual, limited = DeviceTimes("h100"), DeviceTimes("h100", power=500)
    factor = (700 / 500) ** 0.6
    products = (each.product(4096, 4096, 4096) for each in (limited, usual))
    assert next(products) == pytest.approx(factor * next(products))
    flash = (each.attention("flash3", PASS, forward=True) for each in (limited, usual))
    assert next(flash) == pytest.approx(factor * next(flash))
    assert limited.memory(1e9) == usual.memory(1e9)
    slow = DeviceTimes("h100_hbm2e")
    assert slow.product(4096, 4096, 4096) == pytest.approx(
        limited.product(4096, 4096, 4096), rel=0.02
    )
    assert slow.memory(1e9) > usual.memory(1e9)


@each_case("power", [100, 701])
def test_a_power_that_no_board_has_is_refused(power: float) -> None:
    with pytest.raises(InputError, match=f"power={power}W: a board of h100 takes 175W to 700W"):
        DeviceTimes("h100", power=power)


def test_precisions_are_of_dtypes_that_there_are() -> None:
    for precision in PRECISIONS.values():
        assert {precision.parameters, precision.gradients, *precision.math} <= {*WIDTHS, *NARROW}


@each_case("device", ACCELERATORS)
def test_no_product_is_faster_than_the_peak(device: str) -> None:
    for dtype in ("fp32", "tf32", "amp", "bf16", *NARROW):
        try:
            times = DeviceTimes(device, dtype)
        except InputError:
            continue
        peak = accelerator(device).peak[times.math]
        assert times.product(8192, 8192, 8192) > 2 * 8192**3 / peak


@each_case(
    ("device", "dtype", "share"),
    [
        ("a100", "bf16", 0.84),
        ("h100", "bf16", 0.79),
        ("h100", "fp8", 0.78),
        ("b200", "bf16", 0.68),
        ("b200", "nvfp4", 0.51),
    ],
)
def test_the_share_of_the_peak_of_a_large_product(device: str, dtype: str, share: float) -> None:
    seconds = DeviceTimes(device, dtype, level=1.0).product(8192, 8192, 8192)
    assert 2 * 8192**3 / seconds / accelerator(device).peak[dtype] == pytest.approx(share, abs=0.02)


def test_small_products_reach_less_than_large_ones() -> None:
    small, large = (DeviceTimes("h100").product(m, m, m) / m**3 for m in (512, 8192))
    assert small > 4 * large


def test_products_in_8_bits_have_no_casts() -> None:
    alone = DeviceTimes("h100", "fp8", level=1.0).product(4096, 4096, 4096)
    assert (
        alone
        < model_of(PRODUCTS, "h100", "fp8", "trtllm")
        .of(m=4096, n=4096, k=4096, quantised=1)
        .expected
    )


def test_products_and_attention_take_longer_in_a_step_than_alone() -> None:
    alone, twice, usual = (DeviceTimes("h100", level=level) for level in (1.0, 2.0, 0.0))
    products = [each.product(512, 512, 512) for each in (alone, twice, usual)]
    attention = [each.attention("flash2", PASS, forward=True) for each in (alone, twice, usual)]
    for first, second, third in (products, attention):
        assert second == 2 * first
        assert third == pytest.approx(step_level("h100", "bf16") * first)
    assert twice.memory(1e6) == alone.memory(1e6)
    assert twice.quantize(4096, 4096) == alone.quantize(4096, 4096)
    assert twice.convolution(1e9, 0.0, square=True) == alone.convolution(1e9, 0.0, square=True)


def test_other_levels_are_where_power_limits_other_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all kinds take sqrt(1 + x²) of their time at the peak, x TFLOP/s for a watt, so does a
    kind that nobody trained on. AMD's libraries tell nothing of NVIDIA's, and no step is faster
    than its products alone."""
    per_watt = {"a100": 312 / 400, "h100": 989 / 700, "b200": 2250 / 1000}
    names = {"a100_16": "bf16", "h100_16": "bf16", "h100_8": "fp8", "b200_16": "bf16"}

    def at_peak(kind: str, math: str) -> float:
        sides = (4096, 8192, 16384)
        alone = [2 * n**3 / DeviceTimes(kind, math, level=1).product(n, n, n) for n in sides]
        return sum(alone) / len(alone) / accelerator(kind).peak[math]

    levels = {
        f"level_{name}": (1 + per_watt[name[:4]] ** 2) ** 0.5 * at_peak(name[:4], math)
        for name, math in names.items()
    }
    levels["level_h100_16_500W"] = (1 + (989 / 500) ** 2) ** 0.5 * at_peak("h100", "bf16")
    levels |= {"level_mi300x_8": 9.0, "launch": 9.0}
    monkeypatch.setattr(device_times, "step_factors", lambda: levels)
    for kind, math in (("b200", "bf16"), ("h100", "fp8"), ("a100", "bf16")):
        expected = (1 + per_watt[kind] ** 2) ** 0.5 * at_peak(kind, math)
        assert other_levels(kind, math) == pytest.approx(max(1.0, expected))
    # What less power costs comes on top of it.
    limited = other_levels("h100_hbm2e", "bf16")
    assert limited == pytest.approx(other_levels("h100", "bf16"), rel=0.01)
    levels |= {name: 0.5 for name in levels if name.startswith("level")}
    assert other_levels("h100", "bf16") == 1.0


def test_a_level_is_that_of_a_kind_and_of_bits() -> None:
    times = DeviceTimes("b200", "fp8")
    assert times.wide.in_step == times.in_step == step_level("b200", "fp8")
    # No step of an A100 is in 8 bits, and none of an MI300X in 16.
    assert step_level("a100", "fp8") == step_level("a100", "bf16")
    assert step_level("mi325x", "bf16") == step_level("mi300x", "fp8")
    assert len({step_level("b200", math) for math in ("bf16", "fp8", "nvfp4")}) == 3


def test_a_scale_multiplies_all_times() -> None:
    plain, slow = DeviceTimes("h100"), DeviceTimes("h100", scale=2)
    assert slow.product(512, 512, 512) == 2 * plain.product(512, 512, 512)
    assert slow.memory(1e6) == 2 * plain.memory(1e6)
    flash = (each.attention("flash2", PASS, forward=True) for each in (slow, plain))
    assert next(flash) == 2 * next(flash)
    casts = (each.quantize(4096, 4096) for each in (slow, plain))
    assert next(casts) == 2 * next(casts)
    assert plain.quantize(0, 4096) == 0


def test_fp8_is_faster_than_bf16_where_the_device_has_it() -> None:
    ratio = DeviceTimes("h100", "bf16").product(8192, 8192, 8192) / DeviceTimes(
        "h100", "fp8"
    ).product(8192, 8192, 8192)
    assert 1.3 < ratio < 2.1
