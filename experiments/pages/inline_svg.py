"""A matplotlib figure as an SVG element of a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from defusedxml.ElementTree import fromstring

from experiments.pictures.figure_file import to_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
REFERENCE = re.compile(r"url\(#([^)]+)\)")


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
    ElementTree.register_namespace("xlink", XLINK)
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
        elif name in ("href", f"{{{XLINK}}}href"):
            attributes[name] = f"#{prefix}{value[1:]}" if value.startswith("#") else value
        else:
            attributes[name] = REFERENCE.sub(rf"url(#{prefix}\1)", value)
