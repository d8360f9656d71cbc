"""The legend of a timeline: one, beside the plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from experiments.pictures.timelines.palette import FILLS, HIDDEN, QUEUE, pale
from experiments.pictures.timelines.stretches import MEANINGS

SIZE = 8.5
"""Height of letters in points."""
MOST = 20
"""At most this many kinds are listed."""
SAMPLE = "#777777"
"""The colour that shows how hidden and exposed communication differ."""
Handle = Patch | Line2D


def kinds(colours: Mapping[str, str]) -> list[Handle]:
    """The kinds of boxes in their colours, of many only some."""
    names = list(colours)
    picks = np.linspace(0, len(names) - 1, min(len(names), MOST), dtype=int).tolist()
    handles: list[Handle] = [_kind(names[k], colours[names[k]]) for k in picks]
    if len(names) > MOST:
        handles.append(Patch(facecolor="none", label=f"... {len(names)} in all"))
    return handles


def _kind(name: str, colour: str) -> Patch:
    if name == QUEUE:
        return _filled("contention", QUEUE)
    return Patch(facecolor=colour, label=name)


def communication() -> list[Handle]:
    """How hidden communication is drawn, and how exposed."""
    hidden = Patch(facecolor=pale(SAMPLE), edgecolor=SAMPLE, linewidth=0, hatch=HIDDEN)
    hidden.set_label("hidden behind computing")
    return [heading("communication"), Patch(facecolor=SAMPLE, label="exposed"), hidden]


def causes(names: Sequence[str]) -> list[Handle]:
    """The causes of bubbles, if there are any."""
    if not names:
        return []
    return [heading("bubbles, by cause"), *(_filled(name, MEANINGS[name]) for name in names)]


def heading(text: str) -> Line2D:
    """A line of text without a colour."""
    return Line2D([], [], linestyle="none", label=text)


def _filled(name: str, label: str) -> Patch:
    colour, hatch, ink = FILLS[name]
    return Patch(facecolor=colour, edgecolor=ink, linewidth=0.4, hatch=hatch, label=label)


def inches(handles: Sequence[Handle]) -> float:
    """The height of a legend."""
    lines = sum(1 + str(handle.get_label()).count("\n") for handle in handles)
    return (lines + 1) * SIZE * 1.62 / 72


def add(figure: Figure, handles: Sequence[Handle]) -> None:
    """Put the legend at the right of the plot."""
    legend = figure.legend(
        handles=list(handles), loc="outside right upper", frameon=False, fontsize=SIZE
    )
    for handle, text in zip(handles, legend.get_texts(), strict=True):
        if isinstance(handle, Line2D):
            text.set(fontweight="bold", position=(-24, 0))
