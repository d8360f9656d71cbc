"""A picture of plans: the time of the step against the memory of the fullest rank."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from experiments.parallel.plan_search import SearchResult
from experiments.pictures import plot_style as style

GIGA = 1e9


@mpl.rc_context(style.STYLE)
def memory_drawing(result: SearchResult) -> Figure:
    """Simulated plans by their time, the fastest with its name; all others by the bound of their
    time."""
    figure, (axes,) = style.panels(6)
    rest = [place for place in range(len(result.plans)) if place not in result.simulated]
    axes.plot(
        [result.memory[place] / GIGA for place in rest],
        [result.bounds[place] for place in rest],
        ".",
        color="0.6",
        markersize=3,
        label="bound only",
    )
    runs = list(result.simulated.values())
    memory, seconds = [run.memory / GIGA for run in runs], [run.seconds for run in runs]
    axes.plot(memory, seconds, "o", color=style.COLOURS[0], markersize=4, label="simulated")
    fastest = [result.simulated[place] for place in result.first]
    label = f"the {len(fastest)} fastest" if len(fastest) > 1 else "the fastest"
    best = [run.memory / GIGA for run in fastest], [run.seconds for run in fastest]
    axes.plot(*best, "D", color=style.COLOURS[1], label=label)
    axes.annotate(
        f"fastest: {result.plans[result.first[0]]}",
        (best[0][0], best[1][0]),
        xytext=(0, -14),
        textcoords="offset points",
        ha="right" if best[0][0] * GIGA > result.limit / 2 else "left",
        fontsize=9,
    )
    limit = result.limit / GIGA
    axes.axvline(limit, color=style.COLOURS[7], linestyle="--", label="device memory")
    axes.set_ylim(0.85 * seconds[0], 2 * max(seconds))
    style.time_axis(axes, "time of a step")
    axes.set_xlim(0, 1.05 * limit)
    axes.xaxis.set_major_formatter(EngFormatter("GB", places=0))
    axes.set_xlabel("memory of the fullest rank")
    space = result.space
    style.entitle(
        axes,
        f"{space.training.name} on {space.gpus} GPUs ({space.training.times.device}), "
        f"{space.batch} sequences a step",
    )
    style.legend_beside(figure)
    return figure
