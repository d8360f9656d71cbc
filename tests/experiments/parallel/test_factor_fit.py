"""Laws of the fit of factors: clean rows count whole, odd ones move little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.models.model_catalogue import find_transformer
from experiments.models.model_shapes import TransformerShape
from experiments.parallel.factor_fit import FactorFit, Factors, FitRow, Spreads, fit, spreads
from topologies.topology import Floats

KNOWN = Spreads(
    device=0.15,
    launch=1.0,
    model=0.05,
    precision=0.05,
    experts=0.3,
    step=0.03,
    launched=0.1,
    odd=0.3,
    odd_share=0.1,
    links=0.2,
)


def device(factors: Factors) -> Floats:
    """Two seconds of the device."""
    return np.array([2.0 * factors.scale, 0.0, 0.0])


def step(factors: Factors) -> Floats:
    """Two seconds of the device, or a second of launches if they take longer."""
    launches = np.array([0.0, factors.launch, 0.0])
    return max(device(factors), launches, key=np.sum)


DENSE, WIDE, ROUTED = (
    find_transformer(name).shape for name in ("gpt3_1_7b", "llama3_8b", "mixtral_8x7b")
)


def fitted(
    logs: Sequence[float], model: TransformerShape = DENSE, rows_of: TransformerShape = DENSE
) -> FactorFit:
    """The fit to rows of the device that take so much longer."""
    return fit([FitRow(device, 2 * exp(each), rows_of) for each in logs], model, "", KNOWN)


@given(st.floats(-0.15, 0.15))
@settings(max_examples=10)
def test_a_clean_row_counts_nearly_whole(longer: float) -> None:
    """Within a deviation of what was known before, it moves the factor by nine tenths."""
    got = fitted([longer])
    assert log(got.factors.scale) == pytest.approx(longer, abs=0.1 * abs(longer) + 1e-6)
    assert got.factors.launch == pytest.approx(1, rel=1e-3)


@given(st.floats(-0.1, 0.1), st.floats(0.3, 2.0), st.integers(0, 4))
@settings(max_examples=10)
def test_an_odd_row_of_five_moves_the_factor_by_less_than_two_hundredths(
    usual: float, odd: float, place: int
) -> None:
    near = [usual - 0.01, usual, usual, usual + 0.01]
    got = fitted([*near[:place], usual + odd, *near[place:]])
    assert abs(log(got.factors.scale) - log(fitted(near).factors.scale)) < 0.02
    assert got.weights[place] < 0.25
    assert min(weight for row, weight in enumerate(got.weights) if row != place) > 0.9


def test_a_row_far_off_counts_less_the_farther_it_is() -> None:
    moved = [log(fitted([longer]).factors.scale) for longer in (0.4, 0.6, 0.8)]
    assert moved[0] > moved[1] > moved[2] > 0


def test_rows_that_are_all_far_off_are_fitted() -> None:
    """Neither a clean row nor an odd one is at all likely there."""
    assert np.isfinite(fitted([20.0, -20.0]).sureness.device)


def test_rows_of_another_model_leave_its_own_factor_open() -> None:
    same, another = fitted([0.1] * 5), fitted([0.1] * 5, model=WIDE)
    assert another.sureness.device > same.sureness.device + 0.02
    assert 0 < log(another.factors.scale) < log(same.factors.scale)


def test_more_rows_leave_less_open() -> None:
    widths = [fitted([0.1] * count).sureness.device for count in (1, 2, 8)]
    assert KNOWN.device > widths[0] > widths[1] > widths[2] > 0


def test_a_model_with_experts_tells_much_of_itself_and_little_of_others() -> None:
    larger = replace(ROUTED, width=2 * ROUTED.width)
    dense, same, another = (
        log(fitted([0.3] * 4, model, ROUTED).factors.scale) for model in (DENSE, ROUTED, larger)
    )
    assert another == pytest.approx(dense)
    assert 0 < another < 0.5 * same < same < 0.31


def test_rows_of_another_precision_count_less() -> None:
    rows = [FitRow(device, 2.2, DENSE, "bf16")]
    same, another = (fit(rows, DENSE, precision, KNOWN) for precision in ("bf16", "fp8"))
    assert another.factors.scale < same.factors.scale
    assert another.sureness.device > same.sureness.device


def test_a_row_far_above_the_device_tells_of_the_launch() -> None:
    got = fit([FitRow(step, 10.0)], None, "", KNOWN)
    assert got.factors.launch == pytest.approx(10, rel=0.05)
    assert got.factors.scale == pytest.approx(1, abs=0.01)


def test_many_rows_leave_little_of_what_was_known_before() -> None:
    assert fitted([0.4] * 20).factors.scale == pytest.approx(exp(0.4), rel=0.01)


def test_a_row_that_is_predicted_changes_nothing() -> None:
    got = fit([FitRow(step, 2.0)], None, "", KNOWN)
    assert got.factors == pytest.approx(Factors(), rel=1e-6)
    assert got.misses == pytest.approx((0,), abs=1e-6)


def test_a_few_simulations_find_the_path_that_binds() -> None:
    tried = list[Factors]()

    def counted(factors: Factors) -> Floats:
        tried.append(factors)
        return step(factors)

    fit([FitRow(counted, 5.0)], None, "", KNOWN)
    assert len(tried) <= 6


def test_the_spreads_that_are_shipped_are_shares() -> None:
    assert all(0 < value <= 1 for value in spreads())
    assert spreads().step < spreads().odd
