"""Figures of matplotlib as files, and as elements of pages."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import matplotlib as mpl
from defusedxml.ElementTree import fromstring
from matplotlib.figure import Figure
from matplotlib.text import Text

from experiments import output

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


SVG = "http://www.w3.org/2000/svg"


def inline_svg(figure: Figure, name: str, label: str) -> str:
    """The figure as the text of an `svg` element.

    A page forbids styles inside elements: each property becomes an attribute. All ids begin with
    `name`, so that several figures fit into a page. `label` describes the figure for screen
    readers.
    """
    root = fromstring(to_bytes(figure, "svg"))
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        _rewrite(element, f"{name}-")
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": label, "class": "figure"}
    # matplotlib's style sheet of the whole picture says this.
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt"}
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    return ElementTree.tostring(root, encoding="unicode")


def _rewrite(element: ElementTree.Element, prefix: str) -> None:
    """Turn properties into attributes, and put the prefix before every id."""
    attributes = element.attrib
    for rule in attributes.pop("style", "").split(";"):
        name, colon, value = rule.partition(":")
        if colon:
            attributes[name.strip()] = value.strip()
    for name, value in attributes.items():
        if name == "id":
            attributes[name] = prefix + value
        elif name.rpartition("}")[2] == "href":
            attributes[name] = f"#{prefix}{value[1:]}" if value.startswith("#") else value
        else:
            attributes[name] = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", value)
