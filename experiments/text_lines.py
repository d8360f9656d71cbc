"""Lines of text for people: none is wider than a screen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap

from topologies.units import format_bytes

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


def shrunk(widths: Sequence[int], least: Mapping[int, int], widest: int) -> list[int]:
    """The widths of columns, where those with a `least` width, the widest first, are as narrow as
    lines of `widest` characters need.

    >>> shrunk([40, 5, 30], {0: 12, 2: 28}, 60)
    [23, 5, 28]
    """
    widths = list(widths)
    while width_of(widths) > widest:
        wide = [column for column, width in least.items() if widths[column] > width]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def visible(text: str) -> str:
    """Text in which characters that steer a terminal, or turn the order of others, are written as
    in Python. Ends of lines and tabs stay."""
    return _STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def bytes_cell(nbytes: float | None) -> str:
    """Bytes of memory as text, or a dash if they are not known."""
    return "-" if nbytes is None else format_bytes(float(nbytes), binary=False)


def first_of(words: Sequence[object], most: int) -> str:
    """The first words of many, and how many more there are.

    >>> first_of([1, 2, 3], 2), first_of("ab", 2)
    ('1, 2 and 1 more', 'a, b')
    """
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(map(str, words[:most])) + more
