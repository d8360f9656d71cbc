"""Fresh memory is pinned once a call."""

import pytest

from experiments.calibration.libraries import MPI
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from made_up_curves import curve


def test_fresh_memory_is_pinned_once_whatever_its_size() -> None:
    model = Model(FitPoints([curve("all_reduce", ("recursive_doubling",))]), MPI)
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["memory pinned"]] = -200.0
    worth = model.predict(model.start) - model.predict(free)
    fresh = model.points.size >= model.profile(model.start).memory.mapped
    assert worth[fresh] == pytest.approx(1e-4)
    assert worth[~fresh] == pytest.approx(0.0, abs=1e-12)


def test_an_algorithm_without_scratch_shows_no_pinning() -> None:
    model = Model(FitPoints([curve("all_reduce", ("ring",))]), MPI)
    assert "memory pinned" not in model.index
    assert model.profile(model.start).memory.pinned == 0.0


def test_scratch_is_pinned_more_slowly_on_many_ranks() -> None:
    curves = [curve("all_reduce", ("recursive_doubling",), ranks, ranks) for ranks in (256, 512)]
    model = Model(FitPoints(curves), MPI)
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["memory pinned on many ranks"]] = -200.0
    worth = model.predict(model.start) - model.predict(free)
    size, memory = model.points.size, model.profile(model.start).memory
    kept = (size > memory.trimmed) & (size < memory.mapped) & (model.points.ranks > 256)
    assert worth[kept] == pytest.approx(1e-4)
    assert worth[~kept] == pytest.approx(0.0, abs=1e-12)


def test_few_ranks_do_not_show_what_many_ranks_do() -> None:
    model = Model(FitPoints([curve("all_reduce", ("recursive_doubling",))]), MPI)
    assert "memory pinned on many ranks" not in model.index
