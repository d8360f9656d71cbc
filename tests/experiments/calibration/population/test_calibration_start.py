"""A calibration starts where `--library` predicts."""

import numpy as np
import pytest

from experiments.calibration.calibrated_profile import calibrate
from experiments.calibration.known_paths import machine_for
from experiments.calibration.libraries import GLOO, MPI, NCCL
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.population.calibration_start import at_population
from experiments.calibration.population.library_profile import profile_for
from experiments.calibration.population.population_file import find as population
from topologies.catalogue import find

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
    model, known = Model(points(), library), population(library.name)
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
