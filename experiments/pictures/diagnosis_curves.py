"""A curve as a picture: measured, the protocols found in it, what is expected, what is abnormal."""

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


def diagnosis_figure(one: Diagnosis, kind: str) -> bytes:
    """Time by size above, bus bandwidth below; abnormal sizes in red."""
    figure = Figure(figsize=(9, 7.5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    factor = one.busbw * one.samples.seconds
    _lines(upper, one, None)
    _lines(lower, one, factor)
    upper.set_xscale("log", base=2)
    upper.set_yscale("log")
    for axes, unit, label in (
        (upper, "s", "time"),
        (lower, "B/s", "bus bandwidth" if one.curve.ranks else "algbw"),
    ):
        axes.yaxis.set_major_formatter(EngFormatter(unit))
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    lower.set_ylim(bottom=0)
    lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
    lower.set_xlabel("size V")
    ranks = f", {counted(one.curve.ranks, 'rank')}" if one.curve.ranks else ""
    verdict = "abnormal" if one.abnormal else "healthy"
    upper.set_title(f"{one.curve.collective}{ranks}, {Path(one.curve.source).name}: {verdict}")
    upper.legend(frameon=False)
    return to_bytes(figure, kind)


def _lines(axes: Axes, one: Diagnosis, moved: Floats | None) -> None:
    """Seconds, or `moved` bytes over them."""
    size, seconds = one.samples.size, one.samples.seconds

    def value(times: Floats) -> Floats:
        return times if moved is None else moved / times

    if one.expected:
        axes.plot(
            size,
            value(one.expected.seconds),
            color="C2",
            linewidth=1.2,
            label="expected: simulated",
        )
        axes.plot(
            size,
            value(one.expected.bound),
            color=GREY,
            linestyle="--",
            linewidth=1,
            label="best bound",
        )
    axes.plot(size, value(one.envelope(size)), color="C0", linewidth=1.2, label="protocols found")
    axes.plot(size, value(seconds), "o", color="k", markersize=4, label="measured")
    marks = {
        "C3": sorted(_places(one, True)),
        "C1": sorted(_places(one, False) - _places(one, True)),
    }
    for (colour, places), label in zip(marks.items(), ("abnormal", "worth knowing"), strict=True):
        if places:
            axes.plot(
                size[places], value(seconds)[places], "o", color=colour, markersize=6, label=label
            )


def _places(one: Diagnosis, alarm: bool) -> set[int]:
    return {place for finding in one.findings if finding.alarm is alarm for place in finding.places}
