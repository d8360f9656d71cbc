"""The picture of learning runs: loss and accuracy over simulated seconds."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, PercentFormatter, StrMethodFormatter

from experiments.learning.learning_run import LearningRun
from experiments.pictures import plot_style as style


@mpl.rc_context(style.STYLE)
def learning_drawing(runs: Sequence[LearningRun]) -> Figure:
    """Loss above, accuracy below, a line a strategy; a column for workers that are alike, and one
    for workers that differ.

    The dotted line is the target.
    """
    kinds = list(dict.fromkeys(run.row.disturbance for run in runs))
    figure = Figure(figsize=(2.6 + max(6.5, 4.6 * len(kinds)), 6.5), layout="constrained")
    rows = figure.subplots(2, len(kinds), sharex=True, sharey="row", squeeze=False)
    handles = []
    for column, kind in enumerate(kinds):
        loss, accuracy = rows[0, column], rows[1, column]
        of_kind = [run for run in runs if run.row.disturbance == kind]
        for number, run in enumerate(of_kind[: style.MOST_CURVES]):
            seconds = [point.seconds for point in run.curve]
            look = {**style.look(number, len(seconds)), "label": run.row.strategy, "markersize": 4}
            handles += loss.plot(seconds, [point.loss for point in run.curve], **look)
            accuracy.plot(seconds, [point.accuracy for point in run.curve], **look)
        style.entitle(loss, f"{runs[0].row.ranks} workers, {kind or 'alike'}")
        accuracy.axhline(runs[0].row.target, color=style.GREY, linestyle=":")
        accuracy.set_xlabel("simulated time")
    rows[0, 0].set_yscale("log")
    style.log_ticks(rows[0, 0].yaxis, StrMethodFormatter("{x:g}"))
    rows[0, 0].set_ylabel("loss")
    rows[1, 0].set_ylabel("accuracy on held-out digits")
    rows[1, 0].yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    rows[1, 0].xaxis.set_major_formatter(EngFormatter("s"))
    handles.append(Line2D([], [], color=style.GREY, linestyle=":", label="target"))
    most = max(sum(run.row.disturbance == kind for run in runs) for kind in kinds)
    style.legend_beside(figure, handles, *style.not_drawn(most - style.MOST_CURVES))
    return figure
