"""The picture of a validation: measured and predicted time by size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter

from experiments.pictures.figure_file import GREY, SparseSeconds, to_bytes
from topologies.units import format_bytes

if TYPE_CHECKING:
    from experiments.simulations.validation import ComparedPoint, Validation


def validation_figure(validation: Validation, kind: str) -> bytes:
    """Measured and predicted time by size, fitted and unseen points apart, and the error below."""
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    size = [point.size_B for point in validation.points]
    predicted = [point.predicted_s for point in validation.points]
    upper.plot(
        size, predicted, ".-", color="C0", label=f"predicted: {validation.algorithm}, simulated"
    )
    for label, points in _roles(validation).items():
        marker, colour = (
            ("x", "k") if label == "wrong result" else ("o", "C7" if "fitted" in label else "C3")
        )
        x = [point.size_B for point in points]
        upper.plot(x, [point.measured_s for point in points], marker, color=colour, label=label)
        lower.plot(x, [point.error for point in points], marker, color=colour)
    upper.set_xscale("log", base=2)
    upper.set_yscale("log")
    upper.yaxis.set_major_formatter(EngFormatter("s"))
    upper.yaxis.set_minor_formatter(SparseSeconds())
    lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
    lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.0%}"))
    lower.axhline(0, color=GREY, linewidth=0.8)
    lower.set_ylabel("error")
    lower.set_xlabel("size V")
    upper.set_ylabel("time")
    upper.set_title(validation.title)
    upper.legend(frameon=False)
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
    return to_bytes(figure, kind)


def _roles(validation: Validation) -> dict[str, list[ComparedPoint]]:
    """The points by what they were to the fit."""
    roles: dict[str, list[ComparedPoint]] = {}
    for point in validation.points:
        role = (
            "measured, fitted"
            if point.fitted
            else "measured, unseen"
            if validation.fit
            else "measured"
        )
        roles.setdefault("wrong result" if point.wrong else role, []).append(point)
    return roles
