"""Pictures of results: their legends and labels, bands, learning runs, and maps of winners."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox, BboxBase

from experiments.calibration.observations import FitCurve
from experiments.calibration.prediction import PredictedPoint
from experiments.learning.learning_run import LearningPoint, LearningRow, LearningRun
from experiments.pictures.cell_maps import winner_map_drawing
from experiments.pictures.figures import to_bytes
from experiments.pictures.result_curves import learning_drawing, prediction_drawing, serving_drawing
from experiments.simulations.recommendation import Advice
from experiments.simulations.winners import Winner
from figure_words import legend
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
    assert ("interval of a run" in labels) is sure


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


ADVICE = Advice(
    *(2.0**10, "ring:segments=4", "", 1, 64.0, 1e-5, 1e-5, 1.0, "latency", "ring", 1e-5, 1.0, "")
)


def winners(names: list[str], ranks: int = 4, margin: float | None = 1.2) -> list[Winner]:
    """A row of a map: a name at each size."""
    return [
        Winner(ranks, replace(ADVICE, size_B=2.0 ** (10 + k)), name, "tree", 1e-5, margin)
        for k, name in enumerate(names)
    ]


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def colours(figure: Figure) -> list[tuple[float, ...]]:
    cells = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    return [to_rgb(cell.get_facecolor()) for cell in cells]


def test_a_cell_has_winner_and_margin() -> None:
    rows = [*winners(["naive", "ring"], 4), *winners(["naive", "naive"], 8, margin=1.01)]
    figure = winner_map_drawing(rows, "all_reduce on star")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1KiB", "2KiB"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["4", "8"]
    assert words(figure) == ["naive\n1.20x", "ring\n1.20x", "naive\n1.01x", "naive\n1.01x"]
    first, second, close, same = colours(figure)
    assert first != second
    assert first != close == same
    assert legend(figure)[:2] == ["naive", "ring"]
    assert legend(figure)[-1].startswith("pale: the second")


def test_a_question_mark_says_that_the_second_may_be_as_fast() -> None:
    (sure, unsure) = winners(["naive", "ring"])
    unsure = replace(unsure, advice=replace(unsure.advice, rival="tree"))
    figure = winner_map_drawing([sure, unsure], "all_reduce on star")
    assert words(figure) == ["naive\n1.20x", "ring\n1.20x?"]
    assert legend(figure)[-1].startswith("?: the second may be")
    assert not legend(winner_map_drawing([sure], "all_reduce on star"))[-1].startswith("?")


def test_many_sizes_have_the_legend_alone() -> None:
    figure = winner_map_drawing(winners(["naive"] * 12 + ["ring"] * 8), "title")
    assert words(figure) == []
    assert legend(figure) == ["naive", "ring"], "no words are explained"


def test_many_numbers_of_ranks_have_the_legend_alone() -> None:
    rows = [each for ranks in range(2, 22) for each in winners(["ring"], ranks)]
    assert words(winner_map_drawing(rows, "title")) == []


def test_more_algorithms_than_colours_have_hatches() -> None:
    figure = winner_map_drawing(winners([f"a{k}" for k in range(11)], margin=None), "title")
    cells = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert len({(cell.get_facecolor(), cell.get_hatch()) for cell in cells}) == 11
    assert words(figure)[0] == "a0"


def test_ways_to_serve_are_curves_of_users_and_gpus() -> None:
    """Further ways are left to the table."""
    ways = {f"tp={number}": [(100.0, 50.0), (40.0, 900.0 + number)] for number in range(1, 30)}
    [axes] = serving_drawing("A model", ways, 60.0).axes
    assert axes.get_title() == "A model"
    assert [line.get_label() for line in axes.lines][:2] == ["tp=1", "tp=2"]
    assert axes.lines[-1].get_label() == "limit of TPOT"
    assert len(axes.lines) < len(ways)
    [axes] = serving_drawing("A model", {"tp=1": ways["tp=1"]}, 0.0).axes
    assert len(axes.lines) == 1
