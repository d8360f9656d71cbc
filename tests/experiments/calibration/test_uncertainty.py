"""A fit says how sure it is, and its profile says the same of the same point."""

from collections.abc import Callable

import numpy as np
import pytest

from experiments.calibration.calibrated_profile import Calibration, document
from experiments.calibration.fit import Fit, covariance, explore, fit, left_open
from experiments.calibration.libraries import MPI
from experiments.calibration.library_model import Model
from experiments.calibration.uncertainty import (
    KEPT_POINTS,
    moves,
    parameter_variance,
    places,
    shipped_rules,
    uncertainty,
)
from experiments.profiles import parse
from experiments.profiles.profile_document import dumps
from simulator.collectives import find
from simulator.predictions import interval_of, prediction
from simulator.schedules.routed import route
from simulator.uncertainty.interval import quantile
from topologies.shapes import nodes

RULES = shipped_rules()
Made = Callable[..., tuple[Model, np.ndarray]]


@pytest.fixture(scope="module")
def noisy(made: Made) -> Fit:
    return explore(made(noise=0.1)[0])


@pytest.fixture(scope="module")
def by_message(made: Made) -> Fit:
    """The same runs, as if MPI had made them."""
    points = made(names=("ring",), noise=0.1)[0].points
    return explore(Model(points, MPI))


def predicted(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """The mean and variance of log(measured / predicted) at every point."""
    return uncertainty(fit, RULES).residuals.at(places(fit), parameter_variance(fit))


def test_moves_have_the_covariance_of_the_parameters(exact_fit: Fit) -> None:
    changes = moves(exact_fit)
    assert changes.T @ changes == pytest.approx(covariance(exact_fit), abs=1e-5)


def test_what_no_run_shows_keeps_the_spread_of_machines(made: Made) -> None:
    """Runs of large sizes alone: LL is as uncertain as machines differ, and Simple much less. Fewer
    runs leave more open."""
    model, _ = made(noise=0.02)
    prior = np.diag(np.full(len(model.start), 0.5**2))
    names = [parameter.name for parameter in model.parameters]
    of_machines = model.starting(model.start, model.weight, prior)
    large = model.points.size > 2**24
    deviation = np.sqrt(np.diag(left_open(explored(of_machines, large))))
    assert deviation[names.index("LL network α")] == pytest.approx(0.5, rel=0.02)
    assert deviation[names.index("Simple network 1/β")] < 0.25
    few = np.sqrt(np.diag(left_open(explored(of_machines, large & (model.points.ranks == 16)))))
    assert (few >= deviation - 1e-3).all()
    assert (deviation <= 0.5 + 1e-9).all()


def test_what_machines_share_moves_together(made: Made) -> None:
    """Two parameters of which runs show the first alone, and that go together over machines."""
    model, _ = made(noise=0.02)
    names = [parameter.name for parameter in model.parameters]
    shown, hidden = names.index("Simple network 1/β"), names.index("LL network α")
    prior = np.diag(np.full(len(model.start), 0.5**2))
    prior[shown, hidden] = prior[hidden, shown] = 0.9 * 0.5**2
    of_machines = model.starting(model.start, model.weight, prior)
    opened = np.sqrt(np.diag(left_open(explored(of_machines, model.points.size > 2**24))))
    assert opened[hidden] < 0.35


def test_few_points_move_what_goes_together_over_machines(made: Made) -> None:
    """Four points show one parameter, and the other follows as far as it does over machines. As
    many points as parameters show enough: then each start has the library's own weight."""
    model, _ = made(noise=0.02)
    names = [parameter.name for parameter in model.parameters]
    shown, hidden = names.index("Simple network 1/β"), names.index("LL network α")
    prior = np.diag(np.full(len(model.start), 0.5**2))
    prior[shown, hidden] = prior[hidden, shown] = 0.9 * 0.5**2
    elsewhere = model.start + 0.3 * (np.arange(len(names)) == shown)
    of_machines = model.starting(elsewhere, model.weight, prior)
    four = np.isin(np.arange(len(model.points)), np.flatnonzero(model.points.size > 2**24)[:4])
    moved = fit(explore(of_machines).model, four).inner - elsewhere
    assert abs(moved[shown]) > 0.1
    assert moved[hidden] == pytest.approx(0.9 * moved[shown], rel=0.1)
    every = np.ones(len(model.points), dtype=np.bool_)
    alone = model.starting(elsewhere, model.weight)
    assert fit(of_machines, every).inner == pytest.approx(fit(alone, every).inner)


def explored(model: Model, keep: np.ndarray) -> Fit:
    return fit(explore(model).model, keep)


@pytest.mark.exhaustive
def test_a_profile_keeps_a_part_of_very_many_points(made: Made) -> None:
    sizes = np.geomspace(256, 2.0**28, 1 + KEPT_POINTS)
    model, _ = made((8,), ("ring",))
    curve = model.points.curves[0]
    many = type(curve)(**(vars(curve) | {"sizes": sizes, "seconds": 1e-5 + sizes / 1e10}))
    fit = explore(Model(type(model.points)([many]), model.library))
    seen = uncertainty(fit, RULES).residuals.seen
    assert len(seen) == KEPT_POINTS
    assert (seen.nbytes.min(), seen.nbytes.max()) == (sizes[0], sizes[-1])


def test_noise_is_inside_the_intervals(noisy: Fit) -> None:
    mean, variance = predicted(noisy)
    inside = np.abs(noisy.residuals - mean) <= quantile(0.8) * np.sqrt(variance)
    assert inside.mean() > 0.8


def test_messages_take_a_part_of_the_time_if_their_sizes_say_what_they_cost(
    noisy: Fit, by_message: Fit
) -> None:
    assert not places(noisy).messages.any()
    whole = places(by_message).messages.sum(axis=1)
    assert whole.min() > 0
    assert whole.max() <= 1


@pytest.mark.parametrize("library", ["noisy", "by_message"])
def test_a_profile_from_its_file_gives_the_same_intervals(
    library: str, request: pytest.FixtureRequest
) -> None:
    """By the fit's formulas, and by a simulation under the profile that was read back. The formulas
    take slopes and the profile takes whole steps, in which one limit may replace another."""
    noisy: Fit = request.getfixturevalue(library)
    calibration = Calibration(noisy, RULES, [])
    profile = parse(
        dumps(document(calibration, "made", "nodes:per_node=4", [], {})), "made.yaml"
    ).simulated()
    mean, variance = predicted(noisy)
    points, where = noisy.model.points, places(noisy)
    ratios = []
    for point in range(0, len(points), 7):
        name = str(where.algorithm[point])
        if name in profile.pieces:
            name = profile.pieces[name].name(name, float(points.size[point]))
        algorithm = find(name)
        machine = nodes(int(points.ranks[point]), per_node=4, bandwidth=1e9, latency=1e-6)
        schedule, machine, _, _ = algorithm.on(machine, int(points.ranks[point]), 1.0)
        routed = route(schedule, machine).scaled(float(points.size[point]))
        run = profile.simulate(routed, algorithm)
        predicted_run = prediction(profile, run, algorithm)
        assert predicted_run is not None
        interval = interval_of(predicted_run)
        assert np.log(interval.expected / run.seconds) == pytest.approx(mean[point], abs=1e-3)
        half = np.log(interval.high / interval.expected) / quantile(0.8)
        ratios.append(half / np.sqrt(variance[point]))
    assert np.median(ratios) == pytest.approx(1, abs=0.02)
    assert min(ratios) > 0.5
    assert max(ratios) < 2
