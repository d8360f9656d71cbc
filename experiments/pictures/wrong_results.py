"""The picture of a wrong algorithm: which slots of which ranks hold a wrong result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from experiments.pictures import plot_style as style

if TYPE_CHECKING:
    from simulator.collectives.proof import WrongAlgorithm

COLOURS = {"not promised": "0.92", "right": "#56b4e9", "wrong": "#d55e00"}
FEW = 64
"""Ranks or slots up to which a line stands between two of them."""


@mpl.rc_context(style.STYLE | {"axes.grid": False})
def wrong_drawing(error: WrongAlgorithm) -> Figure:
    """A cell for each slot of each rank: right, wrong, or not promised by the collective."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    state = error.promised.astype(np.int8) + error.wrong
    axes.imshow(
        state, ListedColormap(list(COLOURS.values())), vmin=0, vmax=2, aspect="auto", origin="lower"
    )
    axes.set(xlabel="slot", ylabel="rank")
    for axis, number in ((axes.xaxis, state.shape[1]), (axes.yaxis, state.shape[0])):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if number <= FEW:
            axis.set_ticks(np.arange(0.5, number - 1), minor=True)
    axes.grid(which="minor", color="white")
    axes.tick_params(which="minor", length=0)
    style.entitle(axes, str(error))
    patches = [Patch(color=colour, label=word) for word, colour in COLOURS.items()]
    style.legend_beside(figure, patches)
    return figure
