"""Pictures of results: their legends and labels, bands of predictions, and learning runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox, BboxBase

from experiments.calibration.observations import FitCurve
from experiments.calibration.prediction import PredictedPoint
from experiments.learning.learning_run import LearningPoint, LearningRow, LearningRun
from experiments.pictures.figure_file import to_bytes
from experiments.pictures.result_curves import learning_drawing, prediction_drawing
from simulator.uncertainty.interval import Interval

ROOT = Path(__file__).parents[3]
LOG = ROOT / "examples" / "h100_10_nodes_all_reduce.csv"
RUNS = ROOT / "examples" / "mn5_acc_all_reduce.csv"
MODEL = ROOT / "examples" / "two_layer_model.yaml"
COMMANDS: dict[str, tuple[str | Path, ...]] = {
    "by ranks": ("sweep", "--algo", "ring,tree", "--p", "2..20"),
    "by size": ("sweep", "--algo", "ring,tree", "--p", "4,8", "--size", "1B..1GiB:x2"),
    "odd sizes": ("sweep", "--p", "4", "--size", "3MB,3.1MB,64MB,33554431B"),
    "scaling": ("train", "--model", MODEL, "--p", "1..64:x2"),
    "strategies": ("train", "--model", MODEL, "--p", "2", "--strategy", "ddp,ddp:bucket=1MiB,asgd"),
    "option": ("train", "--model", MODEL, "--p", "2", "--sweep", "bucket=1KiB..1GiB:x2"),
    "learning": ("train", "--learn", "softmax:epochs=1", "--p", "2", "--strategy", "ddp,asgd"),
    "map": ("recommend", "--p", "2,3", "--size", "1KiB..1GiB:x8"),
    "recommendation": ("recommend", "--p", "4", "--size", "1KiB..1GiB:x4"),
    "validation": ("validate", LOG, "--fit"),
    "diagnosis": ("diagnose", LOG),
    "prediction": ("validate", RUNS, "--profile", "mn5_acc", "--held-out"),
}
QUICK = ("by size", "strategies")
Simctl = Callable[..., Any]


def names() -> list[object]:
    return [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.exhaustive)
        for name in COMMANDS
    ]


@pytest.mark.parametrize("name", names())
def test_legend_and_labels_have_their_place(
    name: str, simctl: Simctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: figures.append(figure))
    done = simctl(*COMMANDS[name], "--plot", tmp_path / "a.png")
    assert done.returncode in (0, 1), done.stderr
    (figure,) = figures
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    inside = figure.bbox
    beside = legend.get_window_extent()
    assert contains(inside, beside)
    for axes in figure.axes:
        if axes.get_visible():
            assert not beside.overlaps(axes.get_window_extent())
            for axis in (axes.xaxis, axes.yaxis):
                check_apart(list(shown(axis)), inside)
            assert contains(inside, axes.title.get_window_extent())


def shown(axis: Axis) -> Iterator[Bbox]:
    """The places of the labels of ticks that are drawn."""
    low, high = sorted(axis.get_view_interval())
    for place, label in zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=False):
        box = label.get_window_extent()
        if low <= place <= high and label.get_text() and label.get_visible():
            yield box


def check_apart(boxes: Sequence[Bbox], inside: BboxBase) -> None:
    assert all(contains(inside, box) for box in boxes)
    for first, second in pairwise(sorted(boxes, key=lambda box: (box.x0, box.y0))):
        assert not first.overlaps(second), (first, second)


def contains(outer: BboxBase, inner: BboxBase) -> bool:
    return bool(
        outer.x0 - 1 <= inner.x0
        and inner.x1 <= outer.x1 + 1
        and outer.y0 - 1 <= inner.y0
        and inner.y1 <= outer.y1 + 1
    )


def test_what_no_font_has_is_a_question_mark() -> None:
    figure = Figure()
    title = figure.suptitle("a\x1b[2J\nb")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert to_bytes(figure, "png").startswith(b"\x89PNG")
    assert title.get_text() == "a?[2J\nb"


@pytest.mark.parametrize("sure", [True, False])
def test_a_band_where_the_profile_has_intervals(sure: bool) -> None:
    sizes = np.array([1024.0, 2048.0])
    series = FitCurve("a.csv", "all_reduce", ("ring",), 8, 2, sizes, sizes * 1e-9)
    interval = Interval(1e-6, 5e-7, 2e-6) if sure else None
    rows = [PredictedPoint(size, 1e-6, 1e-6, "ring", "LL", interval) for size in sizes.tolist()]
    figure = prediction_drawing("mine", [(series, rows)])
    assert len(figure.axes[0].collections) == sure
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("bands: intervals of a run" in labels) is sure


def run(strategy: str, disturbance: str, factor: float) -> LearningRun:
    """A run to an accuracy of 90%."""
    points = (0.0, 2.3, 0.1), (0.5, 1.0, 0.6), (1.0, 0.4, 0.9)
    curve = [LearningPoint(factor * seconds, *others) for seconds, *others in points]
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
