"""A diagnosis as a picture: measured and expected times, fitted protocols, abnormal sizes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter

from experiments.diagnosis.curve_diagnosis import Diagnosis
from experiments.output import counted
from experiments.pictures.figure_file import GREY, to_bytes
from topologies.topology import Floats
from topologies.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def diagnosis_figure(diagnosis: Diagnosis, kind: str) -> bytes:
    """Time by size above, bus bandwidth below; abnormal sizes in red."""
    figure = Figure(figsize=(9, 7.5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    curve = diagnosis.curve
    _draw(upper, diagnosis, None)
    _draw(lower, diagnosis, diagnosis.busbw * diagnosis.samples.seconds)
    upper.set_xscale("log", base=2)
    upper.set_yscale("log")
    for axes, unit, label in (
        (upper, "s", "time"),
        (lower, "B/s", "bus bandwidth" if curve.ranks else "algbw"),
    ):
        axes.yaxis.set_major_formatter(EngFormatter(unit))
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    lower.set_ylim(bottom=0)
    lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
    lower.set_xlabel("size V")
    ranks = f", {counted(curve.ranks, 'rank')}" if curve.ranks else ""
    name = Path(curve.source).name
    upper.set_title(f"{curve.collective}{ranks}, {name}: {diagnosis.verdict}")
    upper.legend(frameon=False)
    return to_bytes(figure, kind)


def _draw(axes: Axes, diagnosis: Diagnosis, nbytes: Floats | None) -> None:
    """Draw seconds, or `nbytes` over seconds."""
    size, expected = diagnosis.samples.size, diagnosis.expected

    def line(seconds: Floats, colour: str, style: str, label: str) -> None:
        value = seconds if nbytes is None else nbytes / seconds
        axes.plot(size, value, color=colour, linestyle=style, linewidth=1.2, label=label)

    if expected:
        line(expected.seconds, "C2", "-", "expected: simulated")
        line(expected.bound, GREY, "--", "best bound")
    line(diagnosis.envelope(size), "C0", "-", "fitted protocols")
    seconds = diagnosis.samples.seconds
    measured = seconds if nbytes is None else nbytes / seconds
    axes.plot(size, measured, "o", color="k", markersize=4, label="measured")
    alarms, notes = _places(diagnosis, True), _places(diagnosis, False)
    for colour, label, places in (
        ("C3", "abnormal", sorted(alarms)),
        ("C1", "worth knowing", sorted(notes - alarms)),
    ):
        if places:
            axes.plot(size[places], measured[places], "o", color=colour, markersize=6, label=label)


def _places(diagnosis: Diagnosis, alarm: bool) -> set[int]:
    findings = (finding for finding in diagnosis.findings if finding.alarm is alarm)
    return {place for finding in findings for place in finding.places}
