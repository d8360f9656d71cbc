"""Lines of text for people: none is wider than a screen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap

from topologies.units import format_bytes, format_seconds

WIDEST, NARROWEST = 120, 12
"""Characters of a line, and of a column of words whose cells go on in lines below, at the least."""
GAP = "  "
"""What parts two columns."""
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def wrapped(text: str, width: int = WIDEST, hang: str = GAP) -> list[str]:
    """`text` in lines of at most `width` characters. Words are not broken. Further lines are
    indented as the first, and by `hang`.

    >>> wrapped("  as wide as this", 12)
    ['  as wide as', '    this']
    """
    if len(text) <= width:
        return [text]
    indent = " " * (len(text) - len(text.lstrip())) + hang
    return wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def width_of(widths: Sequence[int]) -> int:
    """Characters of a line of columns."""
    return sum(widths) + len(GAP) * (len(widths) - 1)


def narrowed(widths: Mapping[str, int], dispensable: Sequence[str], widest: int) -> list[str]:
    """The headings of a table, without as many of `dispensable`, in their order, as find no place
    in lines of `widest` characters.

    >>> narrowed({"p": 3, "formula": 9, "time": 8}, ["formula", "p"], 15)
    ['p', 'time']
    """
    shown = dict(widths)
    for heading in dispensable:
        if width_of([*shown.values()]) > widest:
            shown.pop(heading, None)
    return list(shown)


def shrunk(widths: Sequence[int], words: Sequence[int], widest: int) -> list[int]:
    """The widths of columns, where those of `words`, the widest first, are as narrow as lines of
    `widest` characters need.

    >>> shrunk([40, 5, 30], [0, 2], 60)
    [25, 5, 26]
    """
    widths = list(widths)
    while words and width_of(widths) > widest:
        longest = max(words, key=widths.__getitem__)
        if widths[longest] <= NARROWEST:
            break
        widths[longest] -= 1
    return widths


def visible(text: str) -> str:
    """Text in which characters that steer a terminal, or turn the order of others, are written as
    in Python. Ends of lines and tabs stay."""
    return _STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def share_cells(name: str, seconds: float, total: float, *about: str) -> list[str]:
    """A line of a report: seconds, and what share of all they are."""
    return [f"  {name}", format_seconds(seconds), f"{seconds / (total or 1.0):.1%}", *about]


def bytes_cell(nbytes: float | None) -> str:
    """Bytes of memory as text, or a dash if they are not known."""
    return "-" if nbytes is None else format_bytes(float(nbytes), binary=False)
