"""What all plots share: fonts, colours, markers, axes, titles, and one legend beside the plot; and
figures as files and as elements of pages."""

from __future__ import annotations

import io
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from math import ceil, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import (
    EngFormatter,
    Formatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    PercentFormatter,
)

from experiments import output
from topologies.units import format_bytes, in_binary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
    "text.parse_math": False,
}
"""The settings of matplotlib in which every plot is drawn. Names may hold dollars."""
GREY = "0.45"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#332288", "#882255")
"""The colours of curves, after Okabe and Ito and after Tol: distinct for the colour-blind."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "<", "h", ">", "*")
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "|||", "+++")
MOST_CURVES = 20
"""The curves of a plot, at most."""
MOST_TICKS = 8
"""The labelled ticks of an axis of sizes or ranks, about."""
TITLE, LEGEND = 88, 34
"""The characters of a line of a title and of a legend, at most."""
INTERVAL = "interval of a run"
"""The label of such a band."""


def colour(number: int) -> str:
    """The colour of a curve by its number."""
    return COLOURS[number % len(COLOURS)]


def marker(number: int) -> str:
    """The marker of a curve by its number. No two of 24 curves have the same colour and marker."""
    return MARKERS[number % len(MARKERS)]


def panels(height: float, rows: int = 1, **more: Any) -> tuple[Figure, list[Axes]]:
    """An empty picture of so many inches, with panels below each other that share their x axis."""
    figure = Figure(figsize=(10, height), layout="constrained")
    grid = figure.subplots(rows, 1, sharex=True, squeeze=False, **more)
    return figure, list(grid[:, 0])


def look(number: int, points: int = 0) -> Any:
    """The colour and marker of a curve by its number. Of many points some have a marker."""
    return {"color": colour(number), "marker": marker(number), "markevery": sparse(points)}


def not_drawn(count: int, what: str = "more") -> list[str]:
    """A line of the legend that says how many are left out, if any are."""
    return [f"not drawn: {count} {what}"] if count > 0 else []


def sparse(count: int) -> int:
    """The step between the points of a curve that have a marker."""
    return max(1, count // 16)


def draw(
    axes: Axes,
    x: Iterable[float],
    y: Iterable[Any],
    low: Iterable[Any] = (),
    high: Iterable[Any] = (),
    **look: Any,
) -> None:
    """A curve, and behind it a band between two ends where both are known. At one place it is a
    bar."""
    places = list(x)
    (line,) = axes.plot(places, list(y), **look)
    ends = [each for each in zip(places, low, high, strict=False) if None not in each]
    band: Any = {"color": line.get_color(), "alpha": 0.16, "zorder": 1, "label": INTERVAL}
    if len(ends) > 1:
        places, below, above = map(list, zip(*ends, strict=True))
        axes.fill_between(places, below, above, linewidth=0, **band)
    elif ends:
        axes.vlines(*ends[0], linewidth=8, **band)


def entitle(axes: Axes, title: str) -> None:
    """Set a title, in several lines if it is long."""
    axes.set_title(folded(title, TITLE))


def finished(figure: Figure, title: str, *more: str) -> Figure:
    """A picture with a title above its first panel and a legend, which also says `more`."""
    entitle(figure.axes[0], title)
    legend_beside(figure, None, *more)
    return figure


def legend_beside(figure: Figure, handles: Iterable[Any] | None = None, *more: str) -> None:
    """One legend right of all axes, for `handles` or for all curves with a label, each once.

    `more` is said below them: what the picture leaves out.
    """
    known, bands = dict[str, Any](), dict[str, Any]()
    of_axes = (axes.get_legend_handles_labels()[0] for axes in figure.axes)
    every: Iterable[Any] = chain(*of_axes) if handles is None else handles
    for handle in every:
        if handle.get_label() == INTERVAL:
            bands[to_hex(handle.get_edgecolor()[0])] = handle
        else:
            known.setdefault(str(handle.get_label()), handle)
    if bands:
        # Below all curves; grey for bands of several colours.
        grey = Line2D([], [], color="0.85", linewidth=8)
        known[INTERVAL] = grey if len(bands) > 1 else bands.popitem()[1]
    blank = Line2D([], [], linestyle="none")
    entries = [*known.items(), *((line, blank) for line in more)]
    labels = [folded(label, LEGEND) for label, _ in entries]
    labels = [f" {label}" if label.startswith("_") else label for label in labels]
    figure.legend([handle for _, handle in entries], labels, loc="outside right upper")


def folded(text: str, most: int) -> str:
    """Text in lines of at most so many characters, broken behind a space or one of ",:_".

    >>> folded("sharded_parameter_server:shards=4", 20).split("\\n")
    ['sharded_parameter_', 'server:shards=4']
    """
    lines = [""]
    for word in re.findall(r"[^ ,:_]*[ ,:_]?", text):
        if lines[-1] and len(lines[-1]) + len(word.rstrip()) > most:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)


def size_axis(axes: Axes, sizes: Iterable[float], most: int = MOST_TICKS) -> None:
    """A logarithmic x axis with ticks like 64KiB and 1MiB, at the sizes if they are few."""
    values = sorted(set(sizes))
    axes.set_xscale("log", base=2)
    axes.set_xlabel("size V")
    binary = in_binary(values)
    ticks = values if len(values) <= most else _powers(values[0], values[-1], most)
    few = _apart(ticks, most)
    axes.xaxis.set_ticks(few, [format_bytes(tick, binary) for tick in few])
    axes.xaxis.set_minor_locator(NullLocator())


def rank_axis(axes: Axes, ranks: Iterable[float], label: str = "ranks p") -> None:
    """An x axis with ticks at numbers of ranks: logarithmic if they are few and far apart."""
    values = sorted(set(ranks))
    axes.set_xlabel(label)
    if len(values) <= 2 * MOST_TICKS and values[-1] >= 8 * values[0]:
        axes.set_xscale("log", base=2)
        few = _apart(values, 2 * MOST_TICKS)
        axes.xaxis.set_ticks(few, [f"{value:g}" for value in few])
        axes.xaxis.set_minor_locator(NullLocator())
    elif len(values) == 1:
        axes.set_xticks(values)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=2 * MOST_TICKS))


def time_axis(axes: Axes, label: str = "time") -> None:
    """A logarithmic y axis of seconds, with as many labels as fit."""
    axes.set_yscale("log")
    axes.set_ylabel(label)
    log_ticks(axes.yaxis, EngFormatter("s"))


def log_ticks(axis: Axis, formatter: Formatter) -> None:
    """Labels at 1, 2 and 5 of each decade, or at the decades where they are many; at round values
    where the data spans less than a decade."""
    low, high = axis.get_view_interval()
    decades = float(np.log10(high / low)) if 0 < low < high else 1.0
    if decades < 1:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 4 else (1.0,)))
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(NullFormatter())


def bandwidth_axis(axes: Axes, label: str) -> None:
    """A y axis of bytes per second from 0."""
    axes.set_ylim(bottom=0)
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(EngFormatter("B/s"))


def share_axis(axes: Axes, label: str) -> None:
    """A y axis of shares from 0."""
    axes.set_ylim(bottom=0)
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _apart(values: Sequence[float], most: int) -> list[float]:
    """The first of the ascending values, and those far enough behind the one before."""
    least = (values[-1] / values[0]) ** (0.9 / most)
    kept = [values[0]]
    for value in values[1:]:
        if value >= kept[-1] * least:
            kept.append(value)
    return kept


def _powers(low: float, high: float, most: int) -> list[float]:
    """Powers of two within a range: every one, second, fourth or more, counted from 1KiB."""
    first, last = ceil(log2(low) - 1e-9), int(log2(high) + 1e-9)
    for step in (1, 2, 4, 5, 10):
        powers = [power for power in range(first, last + 1) if (power - 10) % step == 0]
        if len(powers) <= most:
            return [2.0**power for power in powers] or [low, high]
    return [low, high]


def to_bytes(figure: Figure, kind: str) -> bytes:
    """The figure as a file: "png", "svg" or "pdf". The same figure gives the same bytes."""
    for text in figure.findobj(Text):
        # Names of files may hold what no font has.
        shown = (each if each.isprintable() or each == "\n" else "?" for each in text.get_text())
        text.set_text("".join(shown))
    file = io.BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with mpl.rc_context({"svg.hashsalt": "simctl"}):
        figure.savefig(file, format=kind, dpi=150, metadata=metadata)
    return file.getvalue()


def write_figure(path: Path, figure: Figure) -> None:
    """Write the figure in the format that the ending of the file says."""
    output.write(path, to_bytes(figure, path.suffix[1:].lower()))


def write_figures(path: Path, figures: Mapping[str, Callable[[], Figure]]) -> None:
    """Write the only figure, or several, each with its key before the ending of the file."""
    for key, draw in figures.items():
        place = path if len(figures) == 1 else path.with_name(f"{path.stem}-{key}{path.suffix}")
        write_figure(place, draw())
        if len(figures) > 1:
            output.note(f"drew {place}")


def to_image(figure: Figure) -> str:
    """The figure as the address of an image that a page holds."""
    return f"data:image/svg+xml;base64,{b64encode(to_bytes(figure, 'svg')).decode()}"
