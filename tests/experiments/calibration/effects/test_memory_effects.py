"""Effects of the host's memory."""

import numpy as np
import pytest

from experiments.calibration.libraries import FUJITSU, MPI
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from made_up_curves import SIZES, curve, model_of


def test_memory_given_back_is_a_parameter_where_scratch_has_several_blocks() -> None:
    """A binary tree has one block in Open MPI, and three in Fujitsu's library."""
    points = FitPoints([curve("all_reduce", ("binary_tree",))])
    assert "memory given back" not in Model(points, MPI).index
    assert "memory given back" in Model(points, FUJITSU).index


def test_merging_takes_its_rate_for_every_byte() -> None:
    """A ring merges V / p in each of p - 1 steps."""
    model = model_of(MPI, curve("reduce_scatter", ("ring_reduce_scatter",), 8, 8))
    free = model.start.copy()
    free[[model.index[name] for name in ("γ", "γ beyond cache")]] = -200.0
    for inner in (model.start, free):
        model.explore(inner)
    worth = model.predict(model.start) - model.predict(free)
    merge = model.profile(model.start).memory.merge(SIZES)
    assert worth == pytest.approx(np.asarray(merge) * SIZES * 7 / 8, rel=1e-3)


def test_what_is_registered_again_grows_with_the_ranks() -> None:
    """V p / 2 bytes of a ring's reduce-scatter of fresh memory, and nothing else."""
    model = model_of(
        MPI, *[curve("reduce_scatter", ("ring_reduce_scatter",), p, p // 4) for p in (8, 16)]
    )
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["memory registered again"]] = -200.0
    worth = (model.predict(model.start) - model.predict(free)) / model.points.size
    fresh = model.points.size >= model.profile(model.start).memory.mapped
    assert worth[fresh] == pytest.approx(model.points.ranks[fresh] / 2 / 40e9)
    assert worth[~fresh] == pytest.approx(0.0, abs=1e-18)


def test_fresh_memory_is_pinned_once_whatever_its_size() -> None:
    model = model_of(MPI, curve("all_reduce", ("recursive_doubling",)))
    assert "memory pinned on many ranks" not in model.index
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["memory pinned"]] = -200.0
    worth = model.predict(model.start) - model.predict(free)
    fresh = model.points.size >= model.profile(model.start).memory.mapped
    assert worth[fresh] == pytest.approx(1e-4)
    assert worth[~fresh] == pytest.approx(0.0, abs=1e-12)


def test_an_algorithm_without_scratch_shows_no_pinning() -> None:
    model = model_of(MPI, curve("all_reduce", ("ring",)))
    assert "memory pinned" not in model.index
    assert model.profile(model.start).memory.pinned == 0.0


def test_scratch_is_pinned_more_slowly_on_many_ranks() -> None:
    curves = [curve("all_reduce", ("recursive_doubling",), ranks, ranks) for ranks in (256, 512)]
    model = model_of(MPI, *curves)
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["memory pinned on many ranks"]] = -200.0
    worth = model.predict(model.start) - model.predict(free)
    size, memory = model.points.size, model.profile(model.start).memory
    kept = (size > memory.trimmed) & (size < memory.mapped) & (model.points.ranks > 256)
    assert worth[kept] == pytest.approx(1e-4)
    assert worth[~kept] == pytest.approx(0.0, abs=1e-12)
