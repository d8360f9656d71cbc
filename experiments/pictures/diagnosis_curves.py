"""A diagnosis as a picture: measured and expected times, fitted protocols, abnormal sizes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from experiments.diagnosis.curve_diagnosis import Diagnosis
from experiments.output import counted
from experiments.pictures import plot_style as style
from topologies.topology import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@mpl.rc_context(style.STYLE)
def diagnosis_drawing(diagnosis: Diagnosis) -> Figure:
    """Time by size above, bus bandwidth below; abnormal sizes in red."""
    figure, (upper, lower) = style.panels(7.5, 2)
    curve = diagnosis.curve
    _draw(upper, diagnosis, None)
    _draw(lower, diagnosis, diagnosis.busbw * diagnosis.columns.seconds)
    style.size_axis(lower, diagnosis.columns.size.tolist())
    style.time_axis(upper)
    style.bandwidth_axis(lower, "bus bandwidth" if curve.ranks else "algbw")
    ranks = f", {counted(curve.ranks, 'rank')}" if curve.ranks else ""
    name = Path(curve.source).name
    style.entitle(upper, f"{curve.collective}{ranks}, {name}: {diagnosis.verdict}")
    style.legend_beside(figure)
    return figure


def _draw(axes: Axes, diagnosis: Diagnosis, nbytes: Floats | None) -> None:
    """Draw seconds, or `nbytes` over seconds."""
    size, expected = diagnosis.columns.size, diagnosis.expected

    def line(seconds: Floats, colour: str, form: str, label: str) -> None:
        value = seconds if nbytes is None else nbytes / seconds
        axes.plot(size, value, color=colour, linestyle=form, label=label)

    if expected:
        line(expected.seconds, style.COLOURS[2], "-.", "expected: simulated")
        if expected.intervals:
            ends = (expected.low, expected.high)
            low, high = ends if nbytes is None else (nbytes / ends[1], nbytes / ends[0])
            style.band(axes, size, low, high, style.COLOURS[2], style.INTERVAL)
        line(expected.bound, style.GREY, "--", "best bound")
    line(diagnosis.envelope(size), style.COLOURS[0], "-", "fitted protocols")
    seconds = diagnosis.columns.seconds
    measured = seconds if nbytes is None else nbytes / seconds
    axes.plot(size, measured, "o", color="k", markersize=4, label="measured")
    alarms, notes = _places(diagnosis, True), _places(diagnosis, False)
    for colour, marker, label, places in (
        (style.COLOURS[1], "X", "abnormal", sorted(alarms)),
        (style.COLOURS[5], "D", "worth knowing", sorted(notes - alarms)),
    ):
        if places:
            marked = size[places], measured[places]
            axes.plot(*marked, marker, color=colour, markersize=8, label=label)


def _places(diagnosis: Diagnosis, alarm: bool) -> set[int]:
    findings = (finding for finding in diagnosis.findings if finding.alarm is alarm)
    return {place for finding in findings for place in finding.places}
