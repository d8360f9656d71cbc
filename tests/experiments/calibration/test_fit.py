"""Fits find the machine that made the measurements, say how sure they are, and what the data do not
say."""

from collections.abc import Callable

import numpy as np
import pytest

from experiments.calibration.calibrated_profile import calibrate, document, separated
from experiments.calibration.fit import Fit, estimates, explore, fit, strays
from experiments.calibration.held_out import FOLDS, _folds, _nearest, affine, held_out, left_out
from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.uncertainty import shipped_rules

RULES = shipped_rules()
SIZES = np.geomspace(4.0**4, 4.0**14, 11)
Made = Callable[..., tuple[Model, np.ndarray]]


def test_exact_measurements_are_reproduced(exact_fit: Fit) -> None:
    assert np.abs(exact_fit.residuals).max() < 0.08
    assert np.abs(exact_fit.residuals).mean() < 0.02
    assert exact_fit.short < 1e-3


def test_what_matters_is_found(exact: tuple[Model, np.ndarray], exact_fit: Fit) -> None:
    """The bandwidth between nodes of the protocol for large sizes, which many points depend on
    alone."""
    model, truth = exact
    assert exact_fit.model.values(exact_fit.inner)["Simple network 1/β"] == pytest.approx(
        model.values(truth)["Simple network 1/β"], rel=0.05
    )


def test_every_interval_holds_its_value_and_says_when_it_is_too_wide(exact_fit: Fit) -> None:
    by_name = {estimate.parameter.name: estimate for estimate in estimates(exact_fit)}
    for estimate in by_name.values():
        assert estimate.low <= estimate.value <= estimate.high
        if estimate.parameter.unit != "power" and estimate.high - estimate.low > estimate.value:
            assert estimate.open
    assert not by_name["Simple network 1/β"].open


def test_what_no_point_depends_on_is_said(made: Made) -> None:
    """Sizes so large that no fast-starting protocol is ever the fastest."""
    model, _ = made((8,), ("ring",))
    large = model.points.size > 1e8
    points = FitPoints([model.points.curves[0].at(large)])
    result = explore(Model(points, NCCL))
    reasons = {estimate.parameter.name: estimate.open for estimate in estimates(result)}
    assert reasons["LL network α"] == "no point depends on it"


def test_outliers_do_not_move_a_fit(made: Made) -> None:
    model, _ = made()
    seconds = model.points.seconds.copy()
    seconds[::11] *= 5
    curves = [
        FitCurve(**(vars(curve) | {"seconds": seconds[model.points.curve == k]}))
        for k, curve in enumerate(model.points.curves)
    ]
    result = explore(Model(FitPoints(curves), NCCL))
    good = np.arange(len(seconds)) % 11 != 0
    assert np.median(np.abs(result.residuals[good])) < 0.05


def test_points_left_out_are_predicted_by_the_others(made: Made) -> None:
    """The machine made every point, so that what is left out is found again; the baseline knows no
    protocols."""
    model, _ = made((8, 16, 32))
    whole = explore(model)
    sizes, ranks = held_out(whole, "sizes", RULES), held_out(whole, "ranks", RULES)
    assert np.isfinite(sizes.model).all()
    assert np.nanmean(sizes.model) < 0.5 * np.nanmean(sizes.baseline)
    assert (~np.isnan(ranks.model) == (model.points.ranks == 32)).all()
    assert np.nanmean(ranks.model) < 0.1
    plateau = held_out(whole, "plateau", RULES)
    assert (~np.isnan(plateau.model) == model.points.largest).all()


@pytest.mark.exhaustive
def test_what_is_left_out_is_not_seen(made: Made) -> None:
    """Nonsense in the points left out hardly changes what is predicted of them: only the paths that
    were looked for are shared with the fit of all points."""
    model, _ = made((8, 16))
    left = model.points.ranks == 16
    nonsense = np.where(left, model.points.seconds * 7, model.points.seconds)
    curves = [
        FitCurve(**(vars(curve) | {"seconds": nonsense[model.points.curve == k]}))
        for k, curve in enumerate(model.points.curves)
    ]
    whole = explore(model)
    truthful, nonsensical = (
        fit(variant.model, ~left).predicted[left]
        for variant in (whole, explore(Model(FitPoints(curves), NCCL)))
    )
    assert np.abs(nonsensical / truthful - 1).mean() < 0.03
    assert np.abs(nonsensical / truthful - 1).max() < 0.1
    assert np.nanmean(held_out(whole, "ranks", RULES).model) < 0.15


def test_a_fit_without_the_largest_job_does_not_extrapolate_its_crowding() -> None:
    """1/β grows eightfold from 4 to 16 nodes and stays: what 64 nodes are is not known without
    them."""
    sizes = np.geomspace(2.0**20, 2.0**28, 5)
    slow = {4: 1.0, 16: 8.0, 64: 8.0}
    curves = [
        FitCurve(f"{p}", "all_reduce", ("ring",), p, p, sizes, slow[p] * sizes / 1e10) for p in slow
    ]
    whole = explore(Model(FitPoints(curves), NCCL))
    small_jobs = fit(whole.model, whole.model.points.nodes < 64)
    largest = whole.model.points.nodes == 64
    assert small_jobs.predicted[largest][1:] == pytest.approx(
        whole.model.points.seconds[largest][1:], rel=0.2
    )
    profiles = [result.model.profile(result.inner, "x", "nodes") for result in (whole, small_jobs)]
    assert [profile.crowding["network"].most for profile in profiles] == [64.0, 16.0]


def test_the_baseline_is_one_line_a_curve() -> None:
    alpha, slope = affine(np.array([1.0, 10.0, 100.0]), np.array([3.0, 12.0, 102.0]))
    assert (alpha, slope) == pytest.approx((2.0, 1.0))


def test_a_calibration_becomes_a_profile_that_is_read_back(made: Made) -> None:
    from experiments.profiles import parse
    from experiments.profiles.profile_document import dumps

    model, _ = made((8, 16))
    calibration = calibrate(model.points, NCCL)
    profile = document(calibration, "made up", "nodes:per_node=4", ["nowhere"], {"simctl": "0"})
    again = parse(dumps(profile), "made.yaml")
    assert again == profile
    fitted = calibration.fit.model.profile(calibration.fit.inner, "made up", "nodes:per_node=4")
    assert again.simulated() == profile.simulated() == fitted
    assert set(profile.errors) == {"sizes", "ranks", "plateau"}
    assert profile.errors["sizes"].points == len(model.points)


def test_at_most_so_many_sizes_are_left_out_in_turn() -> None:
    sizes = np.geomspace(2.0**8, 2.0**26, 3 * FOLDS + 1)
    points = FitPoints([FitCurve("x", "all_reduce", ("ring",), 8, 2, sizes, np.ones(len(sizes)))])
    folds = list(_folds(points, "sizes"))
    assert len(folds) == FOLDS
    assert np.sum(folds, axis=0).tolist() == [1] * len(sizes)
    assert all(np.diff(np.flatnonzero(left)).max() == 1 for left in folds)
    five_folds = list(_folds(FitPoints([points.curves[0].at(np.arange(len(sizes)) < 5)]), "sizes"))
    assert [left.sum() for left in five_folds] == [1] * 5


def measured_on(*ranks: int, label: str = "ring") -> list[FitCurve]:
    """A curve for each number of ranks, on nodes of four, in ranks us at all sizes."""
    return [
        FitCurve(
            f"{p}", "all_reduce", (label,), p, -(-p // 4), SIZES, np.full(len(SIZES), p * 1e-6)
        )
        for p in ranks
    ]


def left_ranks(protocol: str, *ranks: int) -> list[list[int]]:
    """The numbers of ranks that each fold leaves out."""
    points = FitPoints(measured_on(*ranks))
    return [sorted({*points.ranks[fold].tolist()}) for fold in _folds(points, protocol)]


def test_ranks_are_left_out_between_and_beyond_others() -> None:
    ranks = (2, 4, 8, 16, 32)
    assert left_ranks("between", *ranks) == [[4], [8], [16]]
    assert left_ranks("ranks", *ranks) == [[32]]
    assert left_ranks("farther", *ranks) == [[16, 32]]
    assert left_ranks("farthest", *ranks) == [[8, 16, 32]]
    assert left_ranks("between", 4, 8) == []


def test_the_first_runs_over_several_nodes_are_left_out_together() -> None:
    """They are no larger numbers of ranks: nothing that stays says what a network does."""
    assert left_ranks("network", 2, 4, 8, 16) == [[8, 16]]
    assert left_ranks("network", 2, 4) == []
    model = Model(FitPoints(measured_on(4, 8)), MPI)
    whole = Fit(model, model.start, np.ones(len(model.points), dtype=np.bool_), 0.0)
    assert list(left_out(whole, "ranks")) == []


def test_lopsided_runs_are_those_of_a_node_and_a_pair() -> None:
    """Ranks 2 are on one node here, so there is no pair."""
    assert left_ranks("lopsided", 2, 4, 8) == []
    pair = FitCurve("pair", "all_reduce", ("ring",), 2, 2, SIZES, np.full(len(SIZES), 1e-6))
    points = FitPoints([*measured_on(4, 8, 16), pair])
    [fold] = _folds(points, "lopsided")
    assert {*points.ranks[fold].tolist()} == {8, 16}


def test_the_nearest_curve_tells_the_points_of_others() -> None:
    """Of ranks left out, the curve with the same label on the nearest ranks; of sizes left out, the
    same curve."""
    points = FitPoints([*measured_on(4, 8, 64), *measured_on(16, label="double_tree")])
    seconds = _nearest(points, points.ranks == 8)
    assert seconds[points.ranks == 8] == pytest.approx(4e-6)
    assert np.isnan(seconds[points.ranks != 8]).all()
    assert np.isnan(_nearest(points, points.ranks == 16)).all()
    some = points.size == SIZES[3]
    assert _nearest(points, some)[some] == pytest.approx(points.seconds[some])


def test_latencies_that_no_link_has_are_named(made: Made) -> None:
    model, _ = made()
    usual = explore(model)
    assert not list(strays(usual))
    inner, names = usual.inner.copy(), [parameter.name for parameter in model.parameters]
    inner[names.index("LL node α")] = np.log(1e-9)
    inner[names.index("Simple network 1/β")] += 6.0
    lines = list(strays(Fit(model, inner, usual.kept, 0.0)))
    assert [line.partition(" is ")[0] for line in lines] == ["LL node α", "Simple network 1/β"]
    assert "1e-09 s" in lines[0]
    assert " times more than on measured machines" in lines[1]


def test_estimates_of_node_corrections_are_those_of_the_profile() -> None:
    curves = [
        FitCurve(f"{p}", "all_reduce", ("ring",), p, p, SIZES, 1e-5 * p + SIZES / 1e9)
        for p in (4, 8, 16)
    ]
    result = explore(Model(FitPoints(curves), MPI))
    crowding = result.model.profile(result.inner, "x", "nodes").crowding["network"]
    by_name = {estimate.parameter.name: estimate for estimate in estimates(result)}
    for correction in crowding.corrections:
        latency = by_name[f"network α at {correction.nodes:.0f} nodes"]
        assert latency.value == pytest.approx(correction.latency)
        assert latency.low < latency.value < latency.high
        bandwidth = by_name[f"network 1/β at {correction.nodes:.0f} nodes"]
        assert bandwidth.value == pytest.approx(correction.bandwidth)


def test_a_gap_is_fitted_where_bursts_of_messages_tell_it_from_the_latency() -> None:
    """A direct exchange sends all its messages at once, and a ring one after the other arrived."""
    names = {"all_to_all": "pairwise", "all_gather": "ring_all_gather"}
    blank = [
        FitCurve(f"{name} {p}", collective, (name,), p, p, SIZES, np.ones(len(SIZES)))
        for collective, name in names.items()
        for p in (8, 16)
    ]
    gaps = [(prior.name, "network") for prior in MPI.protocols]
    model = Model(FitPoints(blank), MPI, gaps=gaps)
    truth = model.start.copy()
    for prior in MPI.protocols:
        truth[model.index[f"{prior.name} network g"]] = np.log(4 * prior.latency["network"])
    for _ in range(2):
        model.explore(truth)
    seconds = model.predict(truth)
    curves = [
        FitCurve(**(vars(curve) | {"seconds": seconds[model.points.curve == k]}))
        for k, curve in enumerate(model.points.curves)
    ]
    assert ("eager", "network") in separated(FitPoints(curves), MPI)
    all_gathers = [curve for curve in curves if curve.collective == "all_gather"]
    assert separated(FitPoints(all_gathers), MPI) == []
