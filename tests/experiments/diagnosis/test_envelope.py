"""Protocols are found again in curves that are made of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.diagnosis.envelope import fit, regimes
from experiments.diagnosis.shape import curve_columns
from experiments.measurements import Curve

SIZES = 8.0 * 2.0 ** np.arange(28, dtype=float)


@given(st.floats(1e-7, 1e-3), st.floats(1e8, 1e12), st.integers(3, 28))
def test_one_alpha_and_beta_are_one_piece(alpha: float, beta: float, points: int) -> None:
    envelope = fit(SIZES[:points], alpha + SIZES[:points] / beta)
    assert envelope(SIZES[:points]) == pytest.approx(alpha + SIZES[:points] / beta, rel=1e-6)
    assert len(envelope.pieces) == 1


def test_three_protocols_are_three_pieces(healthy: Curve) -> None:
    points = curve_columns(healthy)
    envelope = fit(points.size, points.seconds)
    assert len(envelope.pieces) == 3
    assert [piece.latency for piece in envelope.pieces] == pytest.approx(
        [30e-6, 60e-6, 150e-6], rel=0.1
    )
    assert [1 / piece.per_byte for piece in envelope.pieces[1:]] == pytest.approx(
        [10e9, 49e9], rel=0.05
    )
    assert envelope.pieces[2].half == pytest.approx(150e-6 * 49e9, rel=0.1)


def test_regimes_go_from_latency_to_bandwidth(healthy: Curve) -> None:
    points = curve_columns(healthy)
    words = regimes(points, fit(points.size, points.seconds))
    assert words[:5] == ("latency",) * 5
    assert words[-5:] == ("bandwidth",) * 5
    assert words.count("protocol switch") == 2


def test_time_that_does_not_grow_has_no_bandwidth() -> None:
    envelope = fit(SIZES, np.full(28, 1e-5))
    assert envelope.pieces[0].per_byte == pytest.approx(0.0, abs=1e-20)


def test_a_single_point_is_a_piece() -> None:
    assert fit(SIZES[:1], np.array([1e-5]))(SIZES[:1]) == pytest.approx([1e-5])


def test_many_points_are_thinned() -> None:
    sizes = 1e6 * np.arange(1, 600.0)
    assert fit(sizes, 1e-3 + sizes / 1e9)(sizes) == pytest.approx(1e-3 + sizes / 1e9, rel=1e-6)
