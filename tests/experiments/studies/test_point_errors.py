"""Reasons of points that are far off, and fits of two points that predict all others."""

import numpy as np
import pandas as pd
import pytest

from experiments.calibration.libraries import NCCL
from experiments.calibration.library import linked
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.studies.point_errors import ends, reason, transfer
from grouped_cases import each_case

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


POWERS = np.array([4.0**k for k in range(5, 10)])


def curve(
    seconds: list[float], off: list[float], algorithm: tuple[str, ...] = ("ring",) * 5
) -> pd.DataFrame:
    times = np.array(seconds) * 1e-6
    return pd.DataFrame({"size": POWERS, "seconds": times, "off": off, "algorithm": algorithm})


@each_case(
    ("measured", "place", "words"),
    [
        (curve([10, 11, 50, 12, 13], [0, 0, 1.5, 0, 0]), 2, "a bump: 4.4 times"),
        (curve([10, 11, 50, 60, 70], [0, 0, 2.0, 0, 0]), 2, "a step: 4.5 times the size before"),
        (curve([10, 20, 15, 30, 40], [0, 0, -1, 0, 0]), 2, "no longer than a smaller size"),
        (curve([10, 20, 50, 51, 40], [0, 0, 1, 0, 0]), 2, "longer than a larger size"),
        (curve([10, 11, 12, 13, 14], [1, 0, 0, 0, 0]), 0, "the end of the curve: its smallest"),
        (curve([10, 11, 12, 13, 14], [0, 0, 0, 0, 1]), 4, "the end of the curve: its largest"),
        (curve([10, 11, 12, 13, 14], [0.7, 0.7, 1, 0.7, 0.7]), 2, "slower: by 101% in the median"),
        (curve([10, 11, 12, 13, 14], [-0.7, -0.7, -1, -0.7, -0.7]), 2, "the whole curve is faster"),
        (
            curve([10, 11, 12, 13, 14], [0, 0, 1, 0, 0], ("tree", "tree", "tree", "ring", "ring")),
            2,
            "another algorithm: tree, and ring nearby",
        ),
    ],
)
def test_a_reason_is_told(measured: pd.DataFrame, place: int, words: str) -> None:
    assert words in reason(measured, place)


def test_a_point_off_without_a_reason_has_none() -> None:
    assert reason(curve([10, 11, 12, 13, 14], [0, 0, 1, 0, 0]), 2) == ""


def test_a_bump_the_other_way_is_no_reason() -> None:
    """The point takes long, and the model says that it takes longer still."""
    assert "bump" not in reason(curve([10, 11, 50, 12, 13], [0, 0, -1.5, 0, 0]), 2)


def test_few_points_that_were_left_out_say_nothing_of_the_whole_curve() -> None:
    off = [float("nan"), 1, 1, float("nan"), float("nan")]
    assert reason(curve([10, 11, 12, 13, 14], off), 1) == ""
