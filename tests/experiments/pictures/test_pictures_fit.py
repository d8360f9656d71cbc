"""In the pictures of all commands, the legend is beside the axes and no two labels overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox, BboxBase

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
