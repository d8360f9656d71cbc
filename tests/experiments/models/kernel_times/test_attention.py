"""Times of fused attention: laws of the formula and the tables that ship, and measured passes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.accelerators import ACCELERATORS
from experiments.models.device_times import DeviceTimes
from experiments.models.kernel_times.attention import ATTENTION, AttentionSizes, attention_seconds
from experiments.models.kernel_times.kernel_model import Key, models
from flop_times import attention_flops
from grouped_cases import each_case

SHIPPED = models(ATTENTION)
COUNTS = st.integers(1, 256)
HEAD = st.sampled_from([64, 96, 128, 192, 256])
DEVICES = st.sampled_from(sorted({*ACCELERATORS} - {"p100"}))


@given(st.sampled_from([*SHIPPED]), COUNTS, COUNTS, HEAD, st.integers(1, 2**17))
def test_a_pass_is_slower_than_its_peak(
    key: Key, batch: int, heads: int, size: int, length: int
) -> None:
    model = SHIPPED[key]
    sizes = AttentionSizes(batch, heads, 1, size, length, length)
    time = model.of(**sizes._asdict())
    assert 0 < time.low < time.expected < time.high < 1e7
    assert time.expected > 0.9 * attention_flops(sizes) / model.chip.flops


@given(st.sampled_from([*SHIPPED]), COUNTS, COUNTS, HEAD, st.integers(1, 2**17), COUNTS)
def test_the_formula_never_falls_with_sequences_heads_and_lengths(
    key: Key, batch: int, heads: int, size: int, length: int, more: int
) -> None:
    model = SHIPPED[key]
    few = AttentionSizes(batch, heads, 1, size, length, length)
    longer = length + more
    cases = [
        few,
        few._replace(batch=batch + more),
        few._replace(heads=heads + more),
        few._replace(queries=longer, keys=longer),
    ]
    columns = {name: np.array(column, float) for name, column in few._asdict().items()}
    columns = {name: np.array([getattr(each, name) for each in cases], float) for name in columns}
    times = ATTENTION.formula(columns, model.values, model.chip)
    assert (times >= times[0] * (1 - 1e-12)).all()
    assert np.isfinite(ATTENTION.coordinates(columns)).all()


@given(DEVICES, st.integers(1, 16), st.integers(11, 16))
def test_twice_the_sequences_of_training_are_not_cheaper(
    device: str, batch: int, power: int
) -> None:
    math = "bf16" if "bf16" in ACCELERATORS[device].peak else "fp16"
    sizes = AttentionSizes(batch, 32, 8, 128, 2**power, 2**power)
    few, many = (
        attention_seconds(device, math, sizes._replace(batch=each)) for each in (batch, 2 * batch)
    )
    assert few <= many <= 2.2 * few


@each_case("device", ["a100", "h100", "h200", "b200", "gb200", "mi300x", "cpu"])
def test_a_causal_pass_takes_half(device: str) -> None:
    sizes = AttentionSizes(8, 32, 8, 128, 16384, 16384)
    causal, full = (
        attention_seconds(device, "bf16", sizes._replace(causal=each)) for each in (1.0, 0.0)
    )
    assert causal / full == pytest.approx(0.5, abs=0.03)
    seen = attention_seconds(device, "bf16", sizes._replace(window=128.0))
    assert seen < 0.3 * causal


def test_flops_of_a_causal_pass_are_half() -> None:
    full = AttentionSizes(2, 4, 1, 64, 512, 512, causal=0.0)
    flops = attention_flops(full)
    assert flops == 4 * 2 * 4 * 64 * 512**2
    assert attention_flops(full._replace(causal=1.0)) == flops / 2
    assert attention_flops(full._replace(window=512.0)) == flops


@each_case(
    ("key", "sizes", "microseconds"),
    [
        # AIConfigurator, commit 095f58a5: context_attention_perf of vLLM and TensorRT-LLM.
        (Key("h100", "bf16", "vllm"), (16, 16, 4, 128, 8192), 6278.1),
        (Key("h100", "bf16", "vllm"), (1, 32, 32, 128, 6144), 478.5),
        (Key("h100", "bf16", "vllm"), (8, 48, 48, 64, 2048), 623.9),
    ],
)
def test_measured_passes(
    key: Key, sizes: tuple[int, int, int, int, int], microseconds: float
) -> None:
    sequence = AttentionSizes(*sizes, keys=sizes[-1])
    expected = SHIPPED[key].of(**sequence._asdict()).expected
    assert expected == pytest.approx(microseconds * 1e-6, rel=0.1)


def test_generations_differ_by_their_published_shares() -> None:
    times, sizes = DeviceTimes("h100"), AttentionSizes(8, 32, 8, 128, 32768, 32768)
    flash = [times.attention(kind, sizes, forward=True) for kind in ("flash", "flash2", "flash3")]
    assert flash[1] / flash[2] == pytest.approx(0.75 / 0.35, rel=0.02)
    assert flash[0] > flash[1]
    back = times.attention("flash3", sizes, forward=False)
    assert back / flash[2] == pytest.approx(2.5 * 0.75 / 0.58, rel=0.02)
