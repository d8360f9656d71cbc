"""What all effects have in common."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.calibration import effects
from experiments.calibration.effects.effect import Data, Effect, Parameter
from experiments.calibration.libraries import LIBRARIES, MPI, NCCL
from experiments.calibration.library import Library
from experiments.calibration.library_model import STEP, Model, slopes
from experiments.calibration.observations import FitPoints
from made_up_curves import curve

MIXED = (
    ("all_reduce", "ring", 8, 2),
    ("all_reduce", "recursive_doubling", 6, 3),
    ("reduce_scatter", "ring_reduce_scatter", 8, 8),
    ("all_to_all", "pairwise", 8, 2),
    ("send_recv", "shift", 4, 1),
)


def mixed(library: Library) -> Model:
    """A model that has every effect of a library."""
    curves = [curve(what, (name,), ranks, nodes) for what, name, ranks, nodes in MIXED]
    gaps = [(prior.name, "network") for prior in library.protocols]
    return Model(FitPoints(curves), library, gaps=gaps)


def misspelt(data: Data) -> Effect:
    """An effect that reads a parameter that nobody declares."""
    declared = Parameter("overhead", 1e-6, "s", 1.0)
    return Effect((declared,), lambda profile, values: replace(profile, launch=values["overhaed"]))


def test_a_misspelt_parameter_is_an_error() -> None:
    library = replace(MPI, effects=(*MPI.effects, misspelt))
    with pytest.raises(KeyError, match="overhaed"):
        mixed(library)


@pytest.mark.parametrize("library", LIBRARIES.values(), ids=lambda library: str(library.name))
def test_parameters_have_different_names(library: Library) -> None:
    model = mixed(library)
    assert len(model.index) == len(model.parameters)
    assert all(effect.mixing().shape == (len(effect.parameters),) * 2 for effect in model.effects)


@pytest.mark.parametrize("library", [NCCL, MPI], ids=lambda library: str(library.name))
def test_every_parameter_changes_the_profile(library: Library) -> None:
    model = mixed(library)
    inner = model.start + np.random.default_rng(1).uniform(-0.3, 0.3, len(model.start))
    profile = model.profile(inner)
    for step in np.eye(len(inner)):
        assert model.profile(inner + 0.1 * step) != profile


@pytest.mark.parametrize("library", [NCCL, MPI], ids=lambda library: str(library.name))
def test_slopes_are_differences_of_predictions(library: Library) -> None:
    """All slopes come from one evaluation over arrays, and predictions from one a parameter."""
    model = mixed(library)
    inner = model.start + np.random.default_rng(2).uniform(-0.3, 0.3, len(model.start))
    model.explore(inner)
    every = np.arange(len(model.points))
    before = model.predict(inner)
    for column, step in zip(slopes(model, inner, every).T, np.eye(len(inner)), strict=True):
        after = model.predict(inner + STEP * step)
        assert column == pytest.approx((after / before - 1) / STEP, abs=1e-5)


def test_every_effect_has_a_test() -> None:
    files = {path.name for path in Path(effects.__file__).parent.glob("[!_]*.py")}
    assert {f"test_{name}" for name in files} <= {p.name for p in Path(__file__).parent.iterdir()}
