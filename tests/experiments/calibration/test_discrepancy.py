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
    some = points(4, 8)
    keep = np.arange(len(some)) % 2 == 0
    assert discrepancy(some, np.zeros(len(some)), keep) == pytest.approx(np.zeros(len(some)))


def test_a_smooth_residual_is_interpolated() -> None:
    some = points(4, 8)
    residuals = 0.4 * np.sin(np.log(some.size) / 6)
    keep = np.arange(len(some)) % 3 != 1
    found = discrepancy(some, residuals, keep)
    assert np.abs(found - residuals)[~keep].mean() < 0.4 * np.abs(residuals[~keep]).mean()


def test_other_rank_counts_of_an_algorithm_share() -> None:
    some = points(4, 8, 16)
    residuals = np.full(len(some), 0.3)
    found = discrepancy(some, residuals, some.ranks < 16)[some.ranks == 16]
    assert (found > 0.1).all()
    assert (found <= 0.3).all()


def test_an_outlier_is_not_carried_over() -> None:
    some = points(4, 8)
    residuals = 0.02 * np.cos(np.log(some.size))
    residuals[4] = 2.0
    keep = np.arange(len(some)) != 5
    assert abs(discrepancy(some, residuals, keep)[5]) < 0.5
