"""The picture of a validation: measured and predicted time by size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from experiments.pictures import plot_style as style

if TYPE_CHECKING:
    from experiments.simulations.validation import ComparedPoint, Validation

LOOKS: dict[str, Any] = {
    "wrong result": {"marker": "x", "color": "k"},
    "measured, fitted": {"marker": "o", "color": "0.6"},
    "measured, unseen": {"marker": "s", "color": style.COLOURS[1]},
    "measured": {"marker": "s", "color": style.COLOURS[1]},
}
"""The look of points by what they were to the fit."""


@mpl.rc_context(style.STYLE)
def validation_drawing(validation: Validation) -> Figure:
    """Measured and predicted time by size, fitted and unseen points apart, and the error below."""
    figure, (upper, lower) = style.panels(6.5, 2, height_ratios=(3, 1))
    size = [point.size_B for point in validation.points]
    predicted = [point.predicted_s for point in validation.points]
    label = f"predicted: {validation.algorithm}, simulated"
    upper.plot(size, predicted, ".-", color=style.COLOURS[0], label=label)
    sure = [point for point in validation.points if point.inside is not None]
    if sure:
        low, high = ([getattr(point, end) for point in sure] for end in ("low_s", "high_s"))
        at = [point.size_B for point in sure]
        style.band(upper, at, low, high, style.COLOURS[0], style.INTERVAL)
    for role, points in _roles(validation).items():
        look = LOOKS[role] | {"linestyle": "none"}
        x = [point.size_B for point in points]
        upper.plot(x, [point.measured_s for point in points], label=role, **look)
        lower.plot(x, [point.error for point in points], **look)
    style.size_axis(lower, size)
    style.time_axis(upper)
    lower.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.0%}"))
    lower.axhline(0, color=style.GREY, linewidth=0.8)
    lower.set_ylabel("error")
    style.entitle(upper, f"{validation.title}: measured and predicted")
    style.legend_beside(figure)
    return figure


def _roles(validation: Validation) -> dict[str, list[ComparedPoint]]:
    """The points by what they were to the fit."""
    roles: dict[str, list[ComparedPoint]] = {}
    others = "measured, unseen" if validation.fit else "measured"
    for point in validation.points:
        role = "measured, fitted" if point.fitted else others
        roles.setdefault("wrong result" if point.wrong else role, []).append(point)
    return roles
