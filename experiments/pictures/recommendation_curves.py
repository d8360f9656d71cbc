"""The picture of a recommendation: the times of the best algorithms by size, and the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.figure import Figure

from experiments.pictures import plot_style as style
from experiments.simulations.recommendation import Advice, Crossover


@mpl.rc_context(style.STYLE)
def recommendation_drawing(
    rows: Sequence[Advice],
    curves: Mapping[str, Sequence[float]],
    crossovers: Sequence[Crossover],
    title: str,
) -> Figure:
    """A line an algorithm. `curves` has the seconds of each algorithm at the sizes of the rows.

    Vertical lines are sizes from which another algorithm is faster.
    """
    figure, (axes,) = style.panels(5.5)
    sizes = [row.size_B for row in rows]
    for number, (name, seconds) in enumerate(curves.items()):
        axes.plot(sizes, seconds, label=name, markersize=4, linewidth=1.1, **style.look(number))
    axes.plot(sizes, [row.bound_s for row in rows], "--", color=style.GREY, label="best bound")
    for crossover in crossovers:
        line = axes.axvline(crossover.size_B, color=style.GREY, linewidth=0.9, linestyle=":")
        line.set_label("another is faster from here")
    style.size_axis(axes, sizes)
    style.time_axis(axes)
    style.entitle(axes, f"{title}: time by size")
    style.legend_beside(figure)
    return figure
