"""The picture of a recommendation: the times of the best algorithms by size, and the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter

from experiments.pictures.figure_file import GREY, SparseSeconds, to_bytes
from experiments.simulations.recommendation import Advice, Crossover
from topologies.units import format_bytes


def recommendation_figure(
    rows: Sequence[Advice],
    curves: Mapping[str, Sequence[float]],
    crossovers: Sequence[Crossover],
    title: str,
    kind: str,
) -> bytes:
    """The picture as a file of `kind`. `curves` has the seconds of each algorithm at the sizes."""
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.add_subplot()
    sizes = [row.size_B for row in rows]
    for number, (name, seconds) in enumerate(curves.items()):
        colour = colormaps["tab10"](number % 10)
        axes.plot(sizes, seconds, "o-", color=colour, markersize=3, linewidth=1, label=name)
    axes.plot(sizes, [row.bound_s for row in rows], "--", color=GREY, label="best bound")
    for crossover in crossovers:
        axes.axvline(crossover.size_B, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("size V")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
    axes.set_yscale("log")
    axes.set_ylabel("time")
    axes.yaxis.set_major_formatter(EngFormatter("s"))
    axes.yaxis.set_minor_formatter(SparseSeconds())
    axes.set_title(title)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    return to_bytes(figure, kind)
