"""Two points and the links predict all other points."""

import numpy as np
import pytest

from experiments.calibration.libraries import NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.transfer import linked
from experiments.studies.two_points import ends, transfer

SIZES = np.geomspace(2.0**8, 2.0**26, 19)
BANDWIDTH = 10e9


def measured(ranks: tuple[int, ...] = (8, 16)) -> FitPoints:
    """Rings on a machine as NCCL's constants say but for its links, and a launch twice as long."""
    blank = [
        FitCurve(f"{p}", "all_reduce", ("ring",), p, p // 4, SIZES, np.ones(len(SIZES)))
        for p in ranks
    ]
    model = Model(FitPoints(blank), linked(NCCL, BANDWIDTH))
    truth = model.start.copy()
    truth[model.index["launch"]] += np.log(2.0)
    model.explore(truth)
    seconds = model.predict(truth)
    rows = (seconds[model.points.curve == k] for k in range(len(blank)))
    return FitPoints(
        FitCurve(**(vars(curve) | {"seconds": row})) for curve, row in zip(blank, rows, strict=True)
    )


def test_two_points_are_the_largest_size_of_the_most_ranks_and_one_far_below() -> None:
    points = measured()
    chosen = ends(points)
    assert points.ranks[chosen].tolist() == [16, 16]
    assert points.size[chosen] == pytest.approx([2.0**19, 2.0**26])


def test_links_and_two_points_foretell_the_others_better_than_two_points() -> None:
    """By little: the order of the protocols ties LL and LL128 to the β of Simple, which the two
    points show."""
    points = measured()
    keep = ends(points)
    errors = [
        np.abs(transfer(points, library, keep) / points.seconds - 1)[~keep].mean()
        for library in (linked(NCCL, BANDWIDTH), NCCL)
    ]
    assert errors[0] < 0.1
    assert errors[0] < errors[1] < 0.2


def test_nothing_is_learnt_from_what_was_not_chosen() -> None:
    points = measured()
    keep = ends(points)
    twice = FitPoints(
        FitCurve(
            **(vars(curve) | {"seconds": np.where(keep[points.curve == k], 1, 2) * curve.seconds})
        )
        for k, curve in enumerate(points.curves)
    )
    assert transfer(twice, NCCL, keep).tolist() == transfer(points, NCCL, keep).tolist()
