"""Reasons of points that are far off."""

import numpy as np
import pandas as pd

from experiments.studies.point_errors import reason
from grouped_cases import each_case

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
