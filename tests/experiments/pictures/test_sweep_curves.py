"""The picture of a sweep: what its axes show, which points make a curve, and what it leaves out."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.measurements import Point
from experiments.pictures.figures import GREY
from experiments.pictures.sweep_curves import sweep_drawing
from experiments.simulations.grid import Grid, sweep
from experiments.simulations.measured_curves import MeasuredCurve
from experiments.simulations.rules import Rules
from figure_words import legend
from grouped_cases import each_case
from simulator.collectives import find as algorithm
from topologies.catalogue import find as machine

MEASURED = [MeasuredCurve("a.log", 4, 1.5, (Point(2**10, 1e-5), Point(2**20, 1e-4, wrong=3)))]

KI, MI, GI = 2.0**10, 2.0**20, 2.0**30
BEST = "ring:segments=best"
MANY = (
    *("ring", "rings", "tree", "double_tree", "binary_tree", "naive", "naive_serial"),
    *("one_shot", "two_shot", "ring:segments=2", "ring:segments=3", "ring:segments=4"),
)


def figure(ranks: list[int], sizes: list[float], metric: str | None = None, *names: str) -> Figure:
    algorithms = [algorithm(name) for name in names or ("ring", "tree")]
    rows = list(sweep(Grid(algorithms, ranks, sizes, machine("star").build, Rules())))
    return sweep_drawing(rows, metric, "all_reduce on star", MEASURED)


def curves(axes: Axes) -> dict[str, list[float]]:
    """The places on the axis of the simulated points, by label."""
    lines = {str(line.get_label()): line for line in axes.lines if line.get_linestyle() == "-"}
    return {label: np.asarray(line.get_xdata()).tolist() for label, line in lines.items()}


def bounds(axes: Axes) -> list[Line2D]:
    """The dashed lines with points."""
    lines = (line for line in axes.lines if len(np.asarray(line.get_xdata())))
    return [line for line in lines if line.get_linestyle() == "--"]


@each_case(
    ("ranks", "sizes", "names", "axis", "title", "labels"),
    [
        (
            *([2, 4], [KI, MI], (), "ranks p", "time by number of ranks"),
            ["ring, 1KiB", "ring, 1MiB", "tree, 1KiB", "tree, 1MiB"],
        ),
        (
            *([2, 4], [KI, MI, GI], (), "size V", "bus bandwidth by size"),
            ["ring, p = 2", "ring, p = 4", "tree, p = 2", "tree, p = 4"],
        ),
        (
            *([4], [KI, MI, GI], ("ring", BEST), "size V", "bus bandwidth by size, p = 4"),
            ["ring", BEST],
        ),
        ([4], [MI], (), "ranks p", "time by number of ranks, V = 1MiB", ["ring", "tree"]),
    ],
)
def test_what_has_more_values_makes_the_axis(
    ranks: list[int],
    sizes: list[float],
    names: tuple[str, ...],
    axis: str,
    title: str,
    labels: list[str],
) -> None:
    (axes,) = figure(ranks, sizes, None, *names).axes
    assert axes.get_xlabel() == axis
    assert axes.get_title() == f"all_reduce on star: {title}"
    assert curves(axes) == dict.fromkeys(labels, ranks if axis == "ranks p" else sizes)


@pytest.mark.parametrize(
    ("metric", "title"), [("time", "time"), (None, "bus bandwidth"), ("efficiency", "efficiency")]
)
def test_sizes_have_tidy_ticks(metric: str | None, title: str) -> None:
    (axes,) = figure([4], [KI, MI, GI], metric).axes
    assert axes.get_xscale() == "log"
    assert axes.get_title() == f"all_reduce on star: {title} by size, p = 4"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1KiB", "1MiB", "1GiB"]
    assert metric != "time" or len(bounds(axes)) == 1, "the bound is drawn once"


def test_bounds_are_as_pale_as_their_curves_and_the_legend_is_neutral() -> None:
    picture = figure([2, 4], [KI, MI, GI])
    pale, clear = (to_rgb(line.get_color()) for line in bounds(picture.axes[0]))
    assert min(pale) > max(clear)
    assert clear == pytest.approx(to_rgb(GREY), abs=0.01)
    lines = {str(line.get_label()): line for line in picture.axes[0].lines}
    assert [lines[name].get_color() for name in ("formula", "best bound")] == ["0.2", GREY]


def test_bounds_at_differing_places_are_lines_of_their_own() -> None:
    sizes = {2: [KI, MI], 4: [2 * KI, GI]}
    rows = [
        row
        for ranks, each in sizes.items()
        for row in sweep(Grid([algorithm("ring")], [ranks], each, machine("star").build, Rules()))
    ]
    lines = bounds(sweep_drawing(rows, "time").axes[0])
    assert [np.asarray(line.get_xdata()).tolist() for line in lines] == list(sizes.values())


@pytest.mark.parametrize(("metric", "value"), [("time", 1e-5), ("busbw", 1.5 * 2**10 / 1e-5)])
def test_measured_points_are_drawn_and_wrong_results_crossed(metric: str, value: float) -> None:
    picture = figure([4], [2.0**10, 2.0**20], metric)
    right, wrong = (line for line in picture.axes[0].lines if line.get_linestyle() == "None")
    assert np.asarray(right.get_xdata()).tolist() == [2**10]
    assert np.asarray(right.get_ydata()).tolist() == pytest.approx([value])
    assert wrong.get_marker() == "x"
    assert legend(picture)[-2:] == ["measured: a.log, p = 4", "measured: a.log, p = 4 (wrong)"]


def test_points_of_a_known_algorithm_have_its_colour_and_many_curves_are_left_out() -> None:
    curves = [MEASURED[0]._replace(name=f"{k}.log", algorithm="tree") for k in range(10)]
    rows = list(sweep(Grid([algorithm("tree")], [4], [2.0**10], machine("star").build, Rules())))
    picture = sweep_drawing(rows, "time", "", curves)
    simulated, *_ = picture.axes[0].lines
    points = [line for line in picture.axes[0].lines if line.get_linestyle() == "None"]
    assert {line.get_color() for line in points} == {simulated.get_color()}
    assert len(points) == 8
    assert "measured tree: 0.log, p = 4" in legend(picture)
    assert legend(picture)[-1] == "not drawn: 2 more measured curves"


def test_a_formula_is_drawn_where_it_is_claimed() -> None:
    sizes = [2.0**10, 2.0**20]
    rows = list(sweep(Grid([algorithm("tree")], [5], sizes, machine("ring").build, Rules())))
    assert not any(row.verdict.claimed for row in rows)
    assert legend(sweep_drawing(rows)) == ["tree", "best bound"]


def test_a_single_size_has_measured_points_by_number_of_ranks() -> None:
    lines = figure([2, 4], [KI]).axes[0].lines
    (points,) = (line for line in lines if line.get_linestyle() == "None")
    assert np.asarray(points.get_xdata()).tolist() == [4]


def test_few_curves_are_drawn_and_the_legend_names_the_others() -> None:
    picture = figure([4, 5, 6, 7, 8], [MI], None, *MANY)
    assert len(curves(picture.axes[0])) == 12
    lines = [line for line in picture.axes[0].lines if line.get_linestyle() == "-"]
    looks = [(str(line.get_color()), str(line.get_marker())) for line in lines]
    assert len(set(looks)) == len(looks), "curves differ in colour or marker"
    picture = figure([4, 5, 6], [KI, 2.0**15, MI], None, *MANY)
    assert len(curves(picture.axes[0])) == 20
    *_, slow, sizes = legend(picture)
    assert slow.startswith("not drawn, as slower: ")
    assert slow.count(",") == 2
    assert sizes == "not drawn: 1 of 3 sizes"


@pytest.mark.parametrize(("metric", "rising"), [("time", True), ("busbw", False)])
def test_a_band_holds_the_intervals_of_its_curve(metric: str, rising: bool) -> None:
    grid = Grid([algorithm("ring")], [4], [2.0**10, 2.0**20], machine("star").build, Rules())
    rows = [
        replace(row, expected_s=row.time_s, low_s=row.time_s / 2, high_s=row.time_s * 3)
        for row in sweep(grid)
    ]
    axes = sweep_drawing(rows, metric).axes[0]
    (band,) = axes.collections
    ends = band.get_paths()[0].get_extents()
    line = np.asarray(axes.lines[0].get_ydata(), dtype=float)
    most, least = (3, 2) if rising else (2, 3)
    assert ends.ymax == pytest.approx(line.max() * most)
    assert ends.ymin == pytest.approx(line.min() / least)
    assert not figure([4], [KI, MI]).axes[0].collections, "no band without intervals"
