"""A picture of plans: the time of the step against the memory of the fullest rank."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from experiments.parallel.plan_search import SearchResult
from experiments.pictures.figure_file import GREY, to_bytes

GIGA = 1e9


def memory_figure(result: SearchResult, kind: str) -> bytes:
    """Simulated plans by their time, those in the table with their number there; all others by the
    bound of their time."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.add_subplot()
    rest = [place for place in range(len(result.plans)) if place not in result.simulated]
    axes.plot(
        [result.memory[place] / GIGA for place in rest],
        [result.bounds[place] for place in rest],
        ".",
        color=GREY,
        markersize=3,
        label="bound only",
    )
    runs = list(result.simulated.values())
    memory, seconds = [run.memory / GIGA for run in runs], [run.seconds for run in runs]
    axes.plot(memory, seconds, "o", color="C0", markersize=4, label="simulated")
    fastest = [result.simulated[place] for place in result.first]
    label = f"the {len(fastest)} fastest" if len(fastest) > 1 else "the fastest"
    best = [run.memory / GIGA for run in fastest], [run.seconds for run in fastest]
    axes.plot(*best, "o", color="C3", markersize=5, label=label)
    axes.annotate(
        f"1: {result.plans[result.first[0]]}",
        (best[0][0], best[1][0]),
        xytext=(0, -14),
        textcoords="offset points",
        ha="right" if best[0][0] * GIGA > result.limit / 2 else "left",
        fontsize=8,
    )
    axes.axvline(
        result.limit / GIGA, color="C3", linestyle="--", linewidth=1, label="device memory"
    )
    axes.set_yscale("log")
    axes.set_ylim(0.85 * seconds[0], 2 * max(seconds))
    axes.yaxis.set_major_formatter(EngFormatter("s"))
    axes.yaxis.set_minor_formatter(EngFormatter("s"))
    axes.set_xlim(0, 1.05 * result.limit / GIGA)
    axes.set_xlabel("memory of the fullest rank, GB")
    axes.set_ylabel("time of a step")
    space = result.space
    axes.set_title(
        f"{space.training.name} on {space.gpus} GPUs ({space.training.times.device}), "
        f"{space.batch} sequences a step"
    )
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
    return to_bytes(figure, kind)
