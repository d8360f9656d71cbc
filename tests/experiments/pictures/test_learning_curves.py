"""The picture of learning runs."""

from __future__ import annotations

import numpy as np

from experiments.learning.learning_run import LearningPoint, LearningRow, LearningRun
from experiments.pictures.learning_curves import learning_drawing

CURVE = [LearningPoint(0.0, 2.3, 0.1), LearningPoint(0.5, 1.0, 0.6), LearningPoint(1.0, 0.4, 0.9)]


def run(strategy: str, disturbance: str, factor: float) -> LearningRun:
    curve = [point._replace(seconds=factor * point.seconds) for point in CURVE]
    row = LearningRow(
        network="mlp",
        strategy=strategy,
        ranks=4,
        disturbance=disturbance,
        updates=8,
        seconds=factor,
        loss=0.4,
        accuracy=0.9,
        target=0.8,
        target_s=factor,
        idle=0.1,
        cause="drain",
    )
    return LearningRun(row, curve)


def test_a_column_shows_the_strategies_on_the_same_workers() -> None:
    runs = [
        run("ddp", "", 1.0),
        run("asgd", "", 2.0),
        run("ddp", "straggler 3:4", 4.0),
        run("asgd", "straggler 3:4", 2.5),
    ]
    alike, late, *below = learning_drawing(runs).axes
    assert [axes.get_title() for axes in (alike, late)] == [
        "4 workers, alike",
        "4 workers, straggler 3:4",
    ]
    for axes, lines in ((alike, runs[:2]), (late, runs[2:])):
        assert [line.get_label() for line in axes.lines] == ["ddp", "asgd"]
        ends = [np.asarray(line.get_xdata())[-1] for line in axes.lines]
        assert ends == [each.row.seconds for each in lines]
    for axes in below:
        accuracies = [np.asarray(line.get_ydata())[-1] for line in axes.lines]
        assert accuracies == [0.9, 0.9, 0.8]


def test_workers_that_are_alike_have_a_column_alone() -> None:
    assert len(learning_drawing([run("ddp", "", 1.0)]).axes) == 2
