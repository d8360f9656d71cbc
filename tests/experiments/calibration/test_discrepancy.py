"""What neighbours share is carried over, what they do not is not, and outliers are not believed."""

import numpy as np
import pytest

from experiments.calibration.discrepancy import discrepancy
from experiments.calibration.observations import Points, Series

SIZES = np.geomspace(2.0**8, 2.0**26, 10)


def points(*ranks: int) -> Points:
    return Points(
        [Series(f"{p}", "all_reduce", ("ring",), p, p, SIZES, np.ones(len(SIZES))) for p in ranks]
    )


def test_without_residuals_there_is_none() -> None:
    measured = points(4, 8)
    keep = np.arange(len(measured)) % 2 == 0
    assert discrepancy(measured, np.zeros(len(measured)), keep) == pytest.approx(
        np.zeros(len(measured))
    )


def test_a_smooth_residual_is_interpolated() -> None:
    measured = points(4, 8)
    residuals = 0.4 * np.sin(np.log(measured.size) / 6)
    keep = np.arange(len(measured)) % 3 != 1
    correction = discrepancy(measured, residuals, keep)
    assert np.abs(correction - residuals)[~keep].mean() < 0.4 * np.abs(residuals[~keep]).mean()


def test_other_rank_counts_of_an_algorithm_share() -> None:
    measured = points(4, 8, 16)
    residuals = np.full(len(measured), 0.3)
    correction = discrepancy(measured, residuals, measured.ranks < 16)[measured.ranks == 16]
    assert (correction > 0.1).all()
    assert (correction <= 0.3).all()


def test_an_outlier_is_not_carried_over() -> None:
    measured = points(4, 8)
    residuals = 0.02 * np.cos(np.log(measured.size))
    residuals[4] = 2.0
    keep = np.arange(len(measured)) != 5
    assert abs(discrepancy(measured, residuals, keep)[5]) < 0.5
