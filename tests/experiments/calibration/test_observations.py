"""Measured curves as data of a fit, and the sizes that it simulates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.calibration.fit import Fit, estimates, explore
from experiments.calibration.held_out import held_out
from experiments.calibration.known_paths import ALL
from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library import Library, fit_curve
from experiments.calibration.library_model import Model
from experiments.calibration.observations import (
    SIMULATED_SIZES,
    FitCurve,
    FitPoints,
    SimulatedSizes,
    evenly,
)
from experiments.calibration.uncertainty import places, shipped_rules, uncertainty
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


SIZES = {
    "log": np.geomspace(2.0**10, 2.0**30, 1000),
    "steps": np.linspace(2.0**10, 2.0**30, 1000),
}
numbers_of_sizes = st.lists(st.integers(2, 4 * SIMULATED_SIZES), min_size=1, max_size=3)


def curve(sizes: np.ndarray, seconds: np.ndarray | None = None) -> FitCurve:
    """All-reduces by rings on two nodes of four ranks."""
    measured = np.ones(len(sizes)) if seconds is None else seconds
    return FitCurve("x", "all_reduce", ("ring",), 8, 2, sizes, measured)


def drawn(counts: list[int], seed: int) -> FitPoints:
    random = np.random.default_rng(seed)
    return FitPoints(curve(np.sort(np.exp(random.uniform(6, 20, count)))) for count in counts)


@given(st.lists(st.integers(1, SIMULATED_SIZES), min_size=1, max_size=3), st.integers(0, 9))
def test_every_size_of_short_curves_is_simulated(counts: list[int], seed: int) -> None:
    """So their fits have the same bits as without this module."""
    points = drawn(counts, seed)
    sizes = SimulatedSizes(points)
    keep = points.size < np.median(points.size)
    assert sizes.points is points
    assert sizes.rows(keep) is keep
    assert sizes.seconds(points.seconds, keep) is points.seconds
    assert sizes.nearest.tolist() == list(range(len(points)))


@given(numbers_of_sizes, st.integers(0, 9))
def test_few_sizes_are_simulated_with_both_ends(counts: list[int], seed: int) -> None:
    points = drawn(counts, seed)
    simulated = SimulatedSizes(points).points
    for measured, few in zip(points.curves, simulated.curves, strict=True):
        assert len(few.sizes) <= SIMULATED_SIZES
        assert set(few.sizes) <= set(measured.sizes)
        assert (few.sizes[0], few.sizes[-1]) == (measured.sizes[0], measured.sizes[-1])
        if len(measured.sizes) <= SIMULATED_SIZES:
            assert (few.sizes == measured.sizes).all()


@given(numbers_of_sizes, st.integers(0, 9), st.floats(-1, 2))
def test_a_power_of_the_size_is_kept(counts: list[int], seed: int, power: float) -> None:
    points = drawn(counts, seed)
    sizes = SimulatedSizes(points)
    scale = 1.0 + np.arange(len(counts))
    simulated = scale[sizes.points.curve] * sizes.points.size**power
    for keep in (ALL, points.size > np.median(points.size)):
        expected = (scale[points.curve] * points.size**power)[keep]
        assert sizes.seconds(simulated[sizes.rows(keep)], keep) == pytest.approx(expected)


@given(numbers_of_sizes, st.integers(0, 9))
def test_the_nearest_simulated_point_is_of_the_same_curve(counts: list[int], seed: int) -> None:
    points = drawn(counts, seed)
    sizes = SimulatedSizes(points)
    assert (sizes.points.curve[sizes.nearest] == points.curve).all()


@pytest.mark.parametrize("library", [NCCL, MPI])
@pytest.mark.parametrize("name", ["ring", "double_tree"])
def test_times_between_simulated_sizes_are_near_their_simulations(
    library: Library, name: str
) -> None:
    sizes = SIZES["log"]
    many, few = (
        Model(FitPoints([FitCurve("x", "all_reduce", (name,), 8, 2, each, each)]), library)
        for each in (sizes, sizes[7::20])
    )
    for model in (many, few):
        model.explore(model.start)
    off = np.abs(np.log(many.predict(many.start)[7::20] / few.predict(few.start)))
    assert off.max() < 0.05
    assert np.median(off) < 0.003


@pytest.fixture(scope="module", params=SIZES)
def fits(request: pytest.FixtureRequest) -> tuple[Fit, Fit]:
    """Fits of a thousand points with 3% noise, and of 40 of them."""
    sizes, random = SIZES[request.param], np.random.default_rng(3)
    blank = Model(FitPoints([curve(sizes)]), NCCL)
    truth = blank.start + random.uniform(-0.2, 0.2, len(blank.start))
    blank.explore(truth)
    seconds = np.interp(np.log(sizes), np.log(blank.points.size), np.log(blank.predict(truth)))
    seconds = np.exp(seconds + 0.03 * random.normal(size=len(sizes)))
    thinned = np.linspace(0, len(sizes) - 1, 40).round().astype(int)
    many, few = curve(sizes, seconds), curve(sizes[thinned], seconds[thinned])
    return explore(Model(FitPoints([many]), NCCL)), explore(Model(FitPoints([few]), NCCL))


def test_a_thousand_points_say_what_the_40_say_that_they_were_thinned_to(
    fits: tuple[Fit, Fit],
) -> None:
    many, few = fits
    sizes = few.model.points.size
    here = np.searchsorted(many.model.points.size, sizes)
    ratio = np.log(many.predicted[here] / few.predicted)
    assert np.abs(ratio).mean() < 0.03
    assert np.abs(ratio).max() < 0.1
    plateaus = [end.model.values(end.inner)["Simple network 1/β"] for end in fits]
    assert plateaus[0] == pytest.approx(plateaus[1], rel=0.05)


def test_more_points_say_more(fits: tuple[Fit, Fit]) -> None:
    many, few = ({estimate.parameter.name: estimate for estimate in estimates(end)} for end in fits)
    name = "Simple network 1/β"
    assert many[name].high / many[name].low < few[name].high / few[name].low


def test_every_point_has_a_residual_and_a_place(fits: tuple[Fit, Fit]) -> None:
    end, _ = fits
    points, where = end.model.points, places(end)
    assert len(points) == len(end.residuals) == len(where) >= 1000
    assert (where.nbytes == points.size).all()
    assert np.abs(end.residuals).mean() == pytest.approx(0.03 * np.sqrt(2 / np.pi), rel=0.2)


def test_points_that_are_not_simulated_count() -> None:
    sizes = SIZES["log"]
    seconds = 1e-5 + sizes / 1e10
    points = FitPoints([curve(sizes, seconds)])
    between = ~np.isin(sizes, SimulatedSizes(points).points.size)
    slower = FitPoints([curve(sizes, np.where(between, 1.2 * seconds, seconds))])
    usual, slow = (explore(Model(each, NCCL)) for each in (points, slower))
    assert np.median(slow.predicted / usual.predicted) == pytest.approx(1.2, abs=0.03)


def test_messages_of_every_point_are_known() -> None:
    points = FitPoints([curve(SIZES["log"], 1e-5 + SIZES["log"] / 1e10)])
    shares = places(explore(Model(points, MPI))).messages.sum(axis=1)
    assert len(shares) == len(points)
    assert 0 < shares.min() < shares.max() <= 1


@pytest.mark.exhaustive
def test_every_point_is_held_out_and_judged(fits: tuple[Fit, Fit]) -> None:
    end, _ = fits
    rules = shipped_rules()
    judged = held_out(end, "sizes", rules)
    assert np.isfinite(judged.model).all()
    assert np.isfinite(judged.discrepancy).all()
    assert np.mean(judged.model) < 0.05
    assert len(uncertainty(end, rules).residuals.seen) <= 400
