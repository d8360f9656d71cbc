"""Points of measured curves."""

import numpy as np

from experiments.calibration.observations import Points, Series, evenly


def test_points_are_equally_far_in_log() -> None:
    sizes = np.geomspace(1, 512, 10)
    curves = [
        Series(f"{ranks}", "all_reduce", ("ring",), ranks, ranks, sizes, sizes) for ranks in (4, 8)
    ]
    chosen = evenly(Points(curves), 4)
    assert np.flatnonzero(chosen).tolist() == [10, 13, 16, 19]


def test_a_point_counts_once_where_a_curve_is_short() -> None:
    sizes = np.array([1e3, 1e6])
    points = Points([Series("", "all_reduce", ("ring",), 4, 4, sizes, sizes)])
    assert evenly(points, 4).tolist() == [True, True]
