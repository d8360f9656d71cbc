"""Times of exchanges of experts: laws, copies of tokens, and measured kernels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.accelerators import ACCELERATORS
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
