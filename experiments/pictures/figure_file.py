"""Figures of matplotlib as files, and as elements of pages."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.text import Text

from experiments import output


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
