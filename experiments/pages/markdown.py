"""A page as Markdown: for a ticket, without pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator

from experiments.pages.page import Block, Facts, Lines, Page, Table

SPECIAL = re.compile(r"([\\`*{}\[\]<>|#~&@$]|(?<![^\W_])_|_(?![^\W_]))")
"""What GitHub reads as something else than text. An @ would notify somebody."""


def to_markdown(page: Page) -> str:
    """Title, summary, tables and facts. All text is escaped."""
    parts = [f"# {escaped(page.title)}", *map(escaped, page.summary)]
    for block in page.blocks:
        parts += _block(block)
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    r"""Text that shows as it is, on one line.

    >>> print(escaped("<b> a|b"))
    \<b\> a\|b
    """
    return SPECIAL.sub(r"\\\1", " ".join(text.replace("\0", "").split()))


def _block(block: Block) -> Iterator[str]:
    """The parts of a block; none of what only a page can show."""
    if isinstance(block, Table):
        yield f"## {escaped(block.title)}"
        yield _table(block)
        yield from (escaped(line) for line in block.note.splitlines())
    elif isinstance(block, Facts):
        yield f"## {escaped(block.title)}"
        yield "\n".join(
            f"- {escaped(name)}: {escaped(value)}" for name, value in block.values.items()
        )
    elif isinstance(block, Lines):
        yield f"## {escaped(block.title)}"
        yield "\n".join(f"- {escaped(line)}" for line in block.lines)


def _table(table: Table) -> str:
    head = [escaped(heading.text) for heading in table.headings]
    rule = ["---:" if heading.number else "---" for heading in table.headings]
    rows = [[escaped(cell.text) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
