"""The picture of a sweep: what its axis shows, and which points make a curve."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes

from experiments.pictures.sweep_curves import sweep_drawing
from experiments.simulations.grid import Grid, sweep
from experiments.simulations.rules import Rules
from simulator.collectives import find as algorithm
from topologies.catalogue import find as machine


def drawn(
    ranks: list[int],
    sizes: list[float],
    metric: str = "time",
    names: tuple[str, ...] = ("ring", "tree"),
) -> Axes:
    algorithms = [algorithm(name) for name in names]
    rows = list(sweep(Grid(algorithms, ranks, sizes, machine("star").build, Rules())))
    return sweep_drawing(rows, metric).axes[0]


def curves(axes: Axes) -> dict[str, list[float]]:
    """The places on the axis of the simulated points, by label."""
    lines = {str(line.get_label()): line for line in axes.lines if line.get_marker() == "o"}
    return {label: np.asarray(line.get_xdata()).tolist() for label, line in lines.items()}


def test_several_numbers_of_ranks_make_the_axis() -> None:
    axes = drawn([2, 4], [2.0**10, 2.0**20])
    assert axes.get_xlabel() == "ranks p"
    assert axes.get_title() == "Time by number of ranks"
    labels = ["ring, 1KiB", "ring, 1MiB", "tree, 1KiB", "tree, 1MiB"]
    assert curves(axes) == {label: [2, 4] for label in labels}


@pytest.mark.parametrize(
    ("metric", "title"),
    [("time", "Time by size, p = 4"), ("busbw", "Bus bandwidth by size, p = 4")],
)
def test_several_sizes_of_one_number_of_ranks_make_the_axis(metric: str, title: str) -> None:
    sizes = [2.0**10, 2.0**20, 2.0**30]
    axes = drawn([4], sizes, metric)
    assert axes.get_xlabel() == "size V"
    assert axes.get_xscale() == "log"
    assert axes.get_title() == title
    assert axes.xaxis.get_major_formatter()(2.0**20) == "1MiB"
    assert curves(axes) == {"ring": sizes, "tree": sizes}


def test_the_best_options_of_all_sizes_make_one_curve() -> None:
    sizes = [2.0**10, 2.0**20, 2.0**24]
    axes = drawn([4], sizes, names=("ring", "ring:segments=best"))
    assert curves(axes) == {"ring": sizes, "ring:segments=best": sizes}


def test_a_single_point_is_drawn_by_its_number_of_ranks() -> None:
    axes = drawn([4], [2.0**20])
    assert axes.get_title() == "Time by number of ranks, V = 1MiB"
    assert curves(axes) == {"ring": [4], "tree": [4]}
