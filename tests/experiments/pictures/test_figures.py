"""What all plots share: ticks that are tidy and apart, titles and legends that fit."""

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from experiments.pictures import figures as style
from grouped_cases import each_case


def axes_of(figure: Figure) -> Axes:
    return figure.add_subplot()


@pytest.mark.parametrize(
    ("sizes", "labels"),
    [
        ([2.0**10, 2.0**20], ["1KiB", "1MiB"]),
        ([2.0**k for k in range(10, 31)], ["1KiB", "16KiB", "256KiB", "4MiB", "64MiB", "1GiB"]),
        ([2.0**k for k in range(3, 33, 2)], ["64B", "1KiB", "16KiB", "256KiB", "4MiB", "64MiB"]),
        ([3e6, 64e6, 100e6], ["3MB", "64MB", "100MB"]),
        ([1e6, 1.01e6, 1e9], ["1MB", "1GB"]),
        ([33554432.0], ["32MiB"]),
        ([1000.0 + k for k in range(20)], ["1kB"]),
    ],
)
def test_sizes_have_labels_that_are_apart(sizes: list[float], labels: list[str]) -> None:
    axes = axes_of(Figure())
    axes.plot(sizes, [1.0] * len(sizes))
    style.size_axis(axes, sizes)
    shown = [label.get_text() for label in axes.get_xticklabels()]
    assert shown[: len(labels)] == labels
    assert len(shown) <= style.MOST_TICKS


@each_case(
    ("ranks", "scale"),
    [([2, 4, 8, 16], "log"), (list(range(2, 65)), "linear"), ([8], "linear"), ([8, 16], "linear")],
)
def test_ranks_are_whole_and_logarithmic_if_few_and_far_apart(ranks: list[int], scale: str) -> None:
    axes = axes_of(Figure())
    axes.plot(ranks, ranks)
    style.rank_axis(axes, ranks)
    assert axes.get_xscale() == scale
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (1.1e-3, 1.4e-3, {"1.2 ms", "1.3 ms"}),
        (1e-5, 1e-3, {"10 µs", "20 µs", "50 µs", "100 µs"}),
        (1e-6, 1e-1, {"10 µs", "1 ms", "100 ms"}),
    ],
)
def test_times_have_as_many_labels_as_fit(low: float, high: float, labels: set[str]) -> None:
    axes = axes_of(Figure())
    axes.plot([1, 2], [low, high])
    style.time_axis(axes)
    assert labels <= {label.get_text() for label in axes.get_yticklabels()}
    assert len(axes.get_yticks()) <= 16


def test_long_titles_and_labels_are_folded_and_dollars_are_plain() -> None:
    with mpl.rc_context(style.STYLE):
        figure = Figure(layout="constrained")
        axes = axes_of(figure)
        line = Line2D([], [], label="_sharded_parameter_server:shards=4,channels=8 $x$")
        style.entitle(axes, "all_reduce on " + "hgx_h100:nodes=2," * 9)
        style.legend_beside(figure, [line, line], "not drawn: 3 more")
    figure.draw_without_rendering()
    (beside,) = figure.legends
    label, note = (text.get_text() for text in beside.get_texts())
    assert max(map(len, label.split("\n"))) <= style.LEGEND + 1
    assert "$x$" in label
    assert note == "not drawn: 3 more"
    assert max(map(len, axes.get_title().split("\n"))) <= style.TITLE


def test_the_band_of_an_only_curve_has_its_colour_in_the_legend() -> None:
    for number, colours in enumerate((style.COLOURS[:1], style.COLOURS[:2])):
        figure = Figure(layout="constrained")
        axes = axes_of(figure)
        for colour in colours:
            style.draw(axes, [1, 2], [2, 3], [1, 2], [3, 4], color=colour, label=colour)
        style.legend_beside(figure)
        handles = figure.legends[0].legend_handles
        assert len(handles) == len(colours) + 1
        band = handles[-1]
        assert isinstance(band, Line2D if number else Patch)
        shown = band.get_color() if isinstance(band, Line2D) else band.get_facecolor()
        assert to_hex(shown) == (to_hex("0.85") if number else colours[0])
