"""Points of measured curves."""

import numpy as np
import pytest

from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library import Library, fit_curve
from experiments.calibration.observations import FitCurve, FitPoints, evenly
from osu_outputs import LATENCY, only


def test_points_are_equally_far_in_log() -> None:
    sizes = np.geomspace(1, 512, 10)
    curves = [
        FitCurve(f"{ranks}", "all_reduce", ("ring",), ranks, ranks, sizes, sizes)
        for ranks in (4, 8)
    ]
    chosen = evenly(FitPoints(curves), 4)
    assert np.flatnonzero(chosen).tolist() == [10, 13, 16, 19]


def test_a_point_counts_once_where_a_curve_is_short() -> None:
    sizes = np.array([1e3, 1e6])
    points = FitPoints([FitCurve("", "all_reduce", ("ring",), 4, 4, sizes, sizes)])
    assert evenly(points, 4).tolist() == [True, True]


@pytest.mark.parametrize("library", [MPI, NCCL])
def test_pairs_of_ranks_measure_a_ping_pong(library: Library) -> None:
    multi = LATENCY.replace("Latency Test", "Multi Latency Test")
    log = only(f"$ srun -N 2 -n 8 ./osu_multi_lat -m 4:\n{multi}")
    pairs, single = fit_curve(log, library), fit_curve(only(LATENCY), library)
    assert (pairs.label, pairs.ranks, pairs.nodes) == ("ping_pong ping_pong", 8, 2)
    assert pairs.seconds.tolist() == single.seconds.tolist()
    assert (single.label, single.ranks) == ("send_recv shift", 2)
