"""Maps of cells: the fastest algorithm by size and ranks, and wrong results by slot and rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from experiments.pictures import figures as style
from experiments.pictures.timelines.palette import mixed
from experiments.simulations.winners import Winner
from topologies.units import format_bytes, in_binary

if TYPE_CHECKING:
    from simulator.collectives.proof import WrongAlgorithm

CLOSE = 1.05
"""A winner that is less than so many times as fast as the second is drawn pale."""
PALE, PALER = 0.35, 0.75
"""The share of white in the colour of a clear winner, and of a close one."""
MOST_COLUMNS = 16
"""Sizes and numbers of ranks up to which cells have words."""
CELL, LETTERS = (0.98, 0.72), 11
"""The width and height of a cell in inches, and the letters of a line."""


CELL_STATES = {"not promised": "0.92", "right": "#56b4e9", "wrong": "#d55e00"}
"""The colours of slots."""


@mpl.rc_context(style.STYLE | {"axes.grid": False, "hatch.linewidth": 0.5})
def winner_map_drawing(winners: Sequence[Winner], title: str) -> Figure:
    """A cell for each size and number of ranks, in the colour of the winner, with its name and how
    many times as long the second takes."""
    sizes = sorted({winner.advice.size_B for winner in winners})
    ranks = sorted({winner.ranks for winner in winners})
    names = list(dict.fromkeys(winner.name for winner in winners))
    looks = {
        name: (style.colour(number), style.HATCHES[number // len(style.COLOURS)])
        for number, name in enumerate(names[: len(style.COLOURS) * len(style.HATCHES)])
    }
    width = max(10.0, 3.4 + CELL[0] * min(len(sizes), MOST_COLUMNS))
    height = max(3.6, 1.3 + CELL[1] * min(len(ranks), MOST_COLUMNS))
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    few = max(len(sizes), len(ranks)) <= MOST_COLUMNS
    for row, p in enumerate(ranks):
        for winner in (winner for winner in winners if winner.ranks == p):
            colour, hatch = looks[winner.name]
            colour = mixed(colour, PALER if _close(winner) else PALE)
            corner = sizes.index(winner.advice.size_B) - 0.5, row - 0.5
            look: Any = {"facecolor": colour, "edgecolor": "white", "hatch": hatch}
            axes.add_patch(Rectangle(corner, 1, 1, **look))
            if few:
                place = sizes.index(winner.advice.size_B), row
                axes.text(*place, _words(winner), ha="center", va="center", fontsize=8)
    axes.set(xlim=(-0.5, len(sizes) - 0.5), ylim=(-0.5, len(ranks) - 0.5))
    binary, every = in_binary(sizes), -(-len(sizes) // MOST_COLUMNS)
    labels = [format_bytes(size, binary) for size in sizes]
    axes.set_xticks(range(0, len(sizes), every), labels[::every])
    every = -(-len(ranks) // MOST_COLUMNS)
    axes.set_yticks(range(0, len(ranks), every), list(map(str, ranks))[::every])
    axes.set(xlabel="size V", ylabel="ranks p")
    axes.tick_params(length=0)
    style.entitle(axes, title)
    handles = [
        Patch(facecolor=mixed(colour, PALE), edgecolor="white", hatch=hatch, label=name)
        for name, (colour, hatch) in looks.items()
    ]
    style.legend_beside(figure, handles, *_notes(winners, few))
    return figure


def _words(winner: Winner) -> str:
    unsure = "?" if winner.advice.rival else ""
    margin = "" if winner.margin is None else f"{winner.margin:.2f}x{unsure}"
    return "\n".join(filter(None, [style.folded(winner.name, LETTERS), margin]))


def _close(winner: Winner) -> bool:
    return winner.margin is not None and winner.margin < CLOSE


def _notes(winners: Sequence[Winner], words: bool) -> list[str]:
    """What `words` in cells mean, and colours."""
    notes = ["1.2x: the second algorithm takes 1.2 times as long"] * words
    if any(map(_close, winners)):
        notes.append(f"pale: the second takes less than {CLOSE:g} times as long")
    if words and any(winner.advice.rival for winner in winners):
        notes.append("?: the second may be as fast: the difference is inside its error")
    return notes


@mpl.rc_context(style.STYLE | {"axes.grid": False})
def wrong_drawing(error: WrongAlgorithm) -> Figure:
    """A cell for each slot of each rank: right, wrong, or not promised by the collective."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    state = error.promised.astype(np.int8) + error.wrong
    colours: Any = {"cmap": ListedColormap(list(CELL_STATES.values())), "vmin": 0, "vmax": 2}
    axes.imshow(state, aspect="auto", origin="lower", **colours)
    axes.set(xlabel="slot", ylabel="rank")
    for axis, number in ((axes.xaxis, state.shape[1]), (axes.yaxis, state.shape[0])):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if number <= 64:
            axis.set_ticks(np.arange(0.5, number - 1), minor=True)
    axes.grid(which="minor", color="white")
    axes.tick_params(which="minor", length=0)
    style.entitle(axes, str(error))
    patches = [Patch(color=colour, label=word) for word, colour in CELL_STATES.items()]
    style.legend_beside(figure, patches)
    return figure
