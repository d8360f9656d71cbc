"""Times of casts and of exchanges of experts: laws, and measured kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.accelerators import ACCELERATORS
from experiments.models.kernel_times.casts import cast_seconds
from experiments.models.kernel_times.exchange import (
    EXCHANGE,
    Exchange,
    distinct,
    exchange_seconds,
    sizes_of,
)
from experiments.models.kernel_times.kernel_model import Key, models
from grouped_cases import each_case
from topologies.errors import InputError

SHIPPED = models(EXCHANGE)


@given(
    st.sampled_from([*SHIPPED]),
    st.sampled_from([2, 4, 8, 16, 32, 64]),
    st.integers(1, 8),
    st.integers(1, 2**17),
    st.integers(1, 2**15),
)
def test_more_tokens_are_never_much_cheaper(
    key: Key, ranks: int, top: int, tokens: int, nbytes: int
) -> None:
    """Measured times of small exchanges fall by up to a tenth with more tokens: a dispatch in
    fp8 on 2 ranks takes 10.9 us for a token, and 9.9 us for 4. The formula never falls."""
    library, model = key.engine.partition(" ")[0], SHIPPED[key]
    few = Exchange(ranks, max(1, ranks // 8), 256, top, tokens, nbytes)
    sizes = [sizes_of(library, few._replace(tokens=number)) for number in (tokens, 4 * tokens)]
    times = [model.of(**each) for each in sizes]
    assert 0 < times[0].low < times[0].expected < 1e3
    assert times[0].expected <= times[1].expected * 1.1
    columns = {name: np.array([each[name] for each in sizes], float) for name in sizes[0]}
    formula = EXCHANGE.formula(columns, model.values, model.chip)
    assert formula[0] <= formula[1] * (1 + 1e-12)


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 8))
def test_copies_lie_between_one_and_all_experts(places: int, local: int, top: int) -> None:
    number = places * local
    copies = distinct(places, number, min(top, number))
    assert 1 - 1e-9 <= copies <= min(places, top) + 1e-9


@each_case(
    ("device", "library", "phase", "exchange", "microseconds"),
    [
        # AIConfigurator, commit 095f58a5: wideep_deepep and trtllm_alltoall tables.
        ("h100", "deepep_normal", "combine", (8, 1, 256, 8, 65536, 14336, 20), 13534.5),
        ("h100", "deepep_normal", "combine", (8, 1, 256, 8, 1024, 14336, 20), 307.18),
        ("b200", "deepep_low_latency", "dispatch", (8, 1, 256, 8, 1024, 7392), 129.6),
        ("gb200", "nvlink_two_sided", "dispatch bf16", (8, 2, 256, 8, 4096, 14336), 705.7),
        ("gb200", "nvlink_two_sided", "prepare", (16, 4, 256, 8, 4096, 14336), 40.9),
    ],
)
def test_measured_kernels(
    device: str, library: str, phase: str, exchange: tuple[int, ...], microseconds: float
) -> None:
    seconds = exchange_seconds(device, library, phase, Exchange(*exchange))
    assert seconds == pytest.approx(microseconds * 1e-6, rel=0.1)


@given(st.sampled_from(sorted(ACCELERATORS)))
def test_every_device_has_times(device: str) -> None:
    if "bf16" in ACCELERATORS[device].peak:
        tokens = Exchange(8, 1, 64, 6, 4096, 4096)
        assert 0 < exchange_seconds(device, "deepep_normal", "dispatch", tokens) < 1


def test_what_nobody_measured_is_refused() -> None:
    with pytest.raises(InputError, match="no engine 'pigeons dispatch' in bf16: there are deepep"):
        exchange_seconds("h100", "pigeons", "dispatch", Exchange(8, 1, 64, 6, 4096, 4096))


SIDES = st.integers(1, 2**17)
DEVICES = st.sampled_from(["h100", "h200", "b200", "gb200", "b300", "mi300x"])


@given(DEVICES, SIDES, st.integers(256, 2**17))
def test_more_rows_are_not_cheaper(device: str, rows: int, columns: int) -> None:
    """Of matrices that are as wide as layers: narrower ones were measured with more noise, and are
    up to 22% cheaper with more rows."""
    few, many = (cast_seconds(device, each, columns) for each in (rows, 4 * rows))
    assert 0 < few <= many * 1.1


@given(DEVICES, SIDES, SIDES)
def test_a_dynamic_scale_costs_a_pass(device: str, rows: int, columns: int) -> None:
    static = cast_seconds(device, rows, columns, dynamic=False)
    assert cast_seconds(device, rows, columns) > static


@each_case(
    ("device", "rows", "columns", "cast", "amax"),
    [("h100", 16384, 12288, 199e-6, 312e-6), ("b200", 32768, 3584, 79e-6, 82e-6)],
)
def test_measured_casts(device: str, rows: int, columns: int, cast: float, amax: float) -> None:
    # TensorRT-LLM 1.3.0rc10 in AIConfigurator, tables scale_matrix and computescale.
    assert cast_seconds(device, rows, columns, dynamic=False) == pytest.approx(cast, rel=0.1)
    assert cast_seconds(device, rows, columns) == pytest.approx(cast + amax, rel=0.1)
