"""The picture of learning runs: loss and accuracy over simulated seconds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

from experiments.learning.learning_run import LearningRun
from experiments.pictures.figure_file import GREY, to_bytes


def learning_figure(runs: Sequence[LearningRun], kind: str) -> bytes:
    """The picture of :func:`learning_drawing` as "png", "svg" or "pdf"."""
    return to_bytes(learning_drawing(runs), kind)


def learning_drawing(runs: Sequence[LearningRun]) -> Figure:
    """Loss above, accuracy below, a line a strategy; a column for workers that are alike, and one
    for workers that differ.

    The dotted line is the target.
    """
    kinds = list(dict.fromkeys(run.row.disturbance for run in runs))
    figure = Figure(figsize=(max(6.5, 5.5 * len(kinds)), 6.5), layout="constrained")
    rows = figure.subplots(2, len(kinds), sharex=True, sharey="row", squeeze=False)
    for column, kind in enumerate(kinds):
        loss, accuracy = rows[0, column], rows[1, column]
        for number, run in enumerate(run for run in runs if run.row.disturbance == kind):
            seconds = [point.seconds for point in run.curve]
            style = {"color": f"C{number}", "label": run.row.strategy, "linewidth": 1.3}
            loss.plot(seconds, [point.loss for point in run.curve], **style)
            accuracy.plot(seconds, [point.accuracy for point in run.curve], **style)
        loss.set_title(f"{runs[0].row.ranks} workers, {kind or 'alike'}")
        accuracy.axhline(runs[0].row.target, color=GREY, linestyle=":")
        accuracy.set_xlabel("simulated time")
        for axes in (loss, accuracy):
            axes.grid(alpha=0.3)
    rows[0, 0].set_yscale("log")
    rows[0, 0].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    rows[0, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    rows[0, 0].yaxis.set_minor_formatter(NullFormatter())
    rows[0, 0].set_ylabel("loss")
    rows[1, 0].set_ylabel("accuracy on held-out digits")
    rows[1, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    rows[1, 0].xaxis.set_major_formatter(EngFormatter("s"))
    rows[1, -1].legend(frameon=False, loc="lower right")
    return figure
