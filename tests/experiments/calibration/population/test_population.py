"""Populations: what ships, and where a calibration starts."""

import numpy as np
import pytest

from experiments.calibration.calibrated_profile import at_population, calibrate
from experiments.calibration.known_paths import machine_for
from experiments.calibration.libraries import GLOO, MPI, NCCL
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.population.library_profile import profile_for
from experiments.calibration.population.population import SPECIFIED, Spread, parse, population_of
from experiments.studies.populations import dumps
from topologies.catalogue import find

GOOD = """library: NCCL
made: by hand
machines: [one, two]
error: 0.2
parameters:
  launch: {unit: s, start: 1.0e-5, mean: 2.0e-5, spread: 0.5, machines: 2}
  network α by nodes: {unit: power, start: 0.0, mean: -0.1, spread: 0.2, machines: 1}
intervals: {machine: 0.4, between: 0.1, software: 0.2, parameters: 0.9}
correlations:
  network α by nodes: [0.3]
"""


def test_a_population_is_read_back_as_it_was_written() -> None:
    population = parse(GOOD, "x.yaml")
    again = parse(dumps(population), "y.yaml")
    assert again.members.keys() == population.members.keys()
    for name, member in again.members.items():
        assert member.unit == population.members[name].unit
        assert member[1:] == pytest.approx(population.members[name][1:], abs=1e-3)
    assert again.correlations.tolist() == [[1, 0.3], [0.3, 1]]
    assert again.intervals == Spread(0.4, 0.1, 0.2, 0.9)


def test_a_file_of_an_earlier_version_has_no_intervals() -> None:
    old = parse(GOOD[: GOOD.index("intervals")], "x.yaml")
    assert old.intervals is None
    assert old.correlations.tolist() == [[1, 0], [0, 1]]
    assert "intervals" not in dumps(old)


LEVEL = """transports:
  verbs:
    machines: [one]
    parameters:
      launch: {unit: s, start: 1.0e-5, mean: 3.0e-5, spread: 0.4, machines: 1}
"""


def test_a_transport_is_read_back_with_the_rules_of_all_machines() -> None:
    again = parse(dumps(parse(GOOD + LEVEL, "x.yaml")), "y.yaml")
    verbs = again.over("verbs")
    assert verbs.machines == ("one",)
    assert verbs.members["launch"].mean == pytest.approx(-10.414, abs=1e-3)
    assert (verbs.error, verbs.intervals) == (again.error, again.intervals)
    assert again.over("TCP").members == again.members


def test_values_are_as_a_fit_counts_them() -> None:
    launch = parse(GOOD, "x.yaml").members["launch"]
    assert (launch.start, launch.mean) == pytest.approx((-11.513, -10.820), abs=1e-3)
    assert parse(GOOD, "x.yaml").spreads == {"launch": 0.5, "network α by nodes": 0.2}


@pytest.mark.parametrize("library", ["NCCL", "MPI"])
def test_populations_ship(library: str) -> None:
    whole = population_of(library)
    assert whole is not None
    assert len(whole.machines) >= 5
    for level in (whole, *whole.transports.values()):
        assert "launch" in level.members
        assert all(0 < spread <= 10 for spread in level.spreads.values())
        assert {"s", "s/B", "power", SPECIFIED} >= {one.unit for one in level.members.values()}
        assert np.abs(level.correlations).max() <= 1


def test_a_library_that_nobody_measured_has_no_population() -> None:
    assert population_of("gloo") is None


SIZES = np.geomspace(2.0**13, 2.0**30, 2)
MACHINE = find("hgx_h100:nodes=2")


def points(seconds: np.ndarray = SIZES / 1e10) -> FitPoints:
    return FitPoints([FitCurve("mine", "all_reduce", ("ring",), 16, 2, SIZES, seconds)])


def test_links_are_those_of_the_library_on_the_machine() -> None:
    topology = MACHINE.build(16)
    model = at_population(Model(points(), NCCL, machine_for(MACHINE)), topology)
    predicted = profile_for("nccl", topology).profile
    for own, other in zip(model.profile(model.start).protocols, predicted.protocols, strict=True):
        for kind, link in own.links.items():
            assert link.latency == pytest.approx(other.links[kind].latency, rel=0.05)
            assert link.bandwidth == pytest.approx(other.links[kind].bandwidth, rel=0.05)


@pytest.mark.parametrize("library", [NCCL, MPI])
def test_without_a_machine_it_starts_at_the_mean_of_machines(library: Library) -> None:
    model, known = Model(points(), library), population_of(library.name)
    assert known is not None
    started = dict(
        zip((one.name for one in model.parameters), at_population(model).start, strict=True)
    )
    assert started["launch"] == pytest.approx(known.members["launch"].mean)


def test_a_library_without_a_population_starts_at_its_own_model() -> None:
    model = Model(points(), GLOO)
    assert at_population(model) is model


def test_two_points_move_what_the_library_predicts() -> None:
    """Everything takes twice as long as the library predicts."""
    machine = machine_for(MACHINE)
    model = at_population(Model(points(), NCCL, machine), machine(16, 8))
    for _ in range(2):
        model.explore(model.start)
    usual = model.predict(model.start)
    profile = calibrate(points(2 * usual), NCCL, machine).fit
    assert profile.predicted == pytest.approx(2 * usual, rel=0.2)
