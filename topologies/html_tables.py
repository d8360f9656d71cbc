"""Small tables as HTML, for the `_repr_html_` of objects in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 40
"""The rows of a table at most."""


def text(value: object) -> str:
    """A value as text of HTML, whatever characters it holds.

    >>> text("<b>")
    '&lt;b&gt;'
    """
    return escape(str(value).replace("\0", "\N{REPLACEMENT CHARACTER}"))


def table(header: Sequence[str], rows: Iterable[Sequence[object]], most: int = MOST_ROWS) -> str:
    """A table with its first `most` rows, and how many follow."""
    every = list(rows)
    lines = [_row("th", header), *(_row("td", row) for row in every[:most])]
    more = f"<p>and {len(every) - most} more rows</p>" if len(every) > most else ""
    return f"<table>{''.join(lines)}</table>{more}"


def facts(title: str, values: Iterable[tuple[str, object]]) -> str:
    """A title, and below it a table of names and values."""
    lines = (f"<tr><th>{text(name)}</th>{_cell('td', value)}</tr>" for name, value in values)
    return f"<p><strong>{text(title)}</strong></p><table>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(_cell(tag, cell) for cell in cells)}</tr>"


def _cell(tag: str, value: object) -> str:
    return f"<{tag}>{text(value)}</{tag}>"
