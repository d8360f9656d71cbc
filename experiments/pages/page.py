"""A page: one file of HTML or Markdown, safe to open and to send."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from experiments.answer_blocks import Facts, Remarks, Table
from experiments.output import Value

TYPES = {
    "u1": "Uint8Array",
    "u2": "Uint16Array",
    "u4": "Uint32Array",
    "i4": "Int32Array",
    "f4": "Float32Array",
    "f8": "Float64Array",
}
"""Types of numbers, and the typed arrays that hold them in a browser."""


def pack(columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, object]:
    """One-dimensional columns as JSON: names, typed arrays and lengths, and one compressed text.

    `unpacked` in assets/core.js reads it. Integers take the smallest type that holds them. Raises
    TypeError for columns that are no numbers.
    """
    arrays = {name: _narrow(column) for name, column in columns.items()}
    header = [
        {"name": name, "type": TYPES[array.dtype.str[1:]], "length": len(array)}
        for name, array in arrays.items()
    ]
    aligned = b"".join(_aligned(array) for array in arrays.values())
    return {"columns": header, "bytes": b64encode(zlib.compress(aligned, 6)).decode()}


def embedded(value: object) -> str:
    """JSON for a script element: no text in it can end the element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _narrow(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if column.dtype.kind == "f":
        return column.astype("<f8" if column.dtype.itemsize == 8 else "<f4")
    if column.dtype.kind not in "biu":
        raise TypeError(f"a column of {column.dtype}: numbers alone can be packed")
    least, most = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    for name in ("u1", "u2", "u4", "i4"):
        limits = np.iinfo(name)
        if limits.min <= least and most <= limits.max:
            return column.astype(f"<{name}")
    return column.astype("<f8")


def _aligned(array: npt.NDArray[Any]) -> bytes:
    """The bytes, filled up to a multiple of eight: typed arrays begin at multiples of their
    item's size."""
    content = array.tobytes()
    return content + b"\0" * (-len(content) % 8)


@dataclass(frozen=True)
class Figure:
    """A picture."""

    title: str
    image: str
    """Its address, as `to_image` makes it."""
    note: str = ""
    """What stands below the picture."""
    kind: str = "figure"


@dataclass(frozen=True)
class Scene:
    """A drawing that a script makes and that answers to the mouse and the keyboard."""

    title: str
    script: str
    """The name of the script in assets, without its ending: it draws the scene."""
    data: Mapping[str, object]
    """What the script draws: JSON; `pack` makes columns of numbers small."""
    note: str = ""
    """What stands below the drawing."""
    helpers: tuple[str, ...] = ()
    """The names of scripts that `script` needs, without their endings."""
    kind: str = "scene"


Block = Table | Facts | Remarks | Figure | Scene


@dataclass(frozen=True)
class Page:
    """What a page shows, from top to bottom."""

    title: str
    summary: Sequence[str]
    """Sentences: what the reader should know if nothing else is read."""
    blocks: Sequence[Block]
    raw: Mapping[str, Value | object] = field(default_factory=dict)
    """Data for the reader to download, as JSON by the name of a file."""


def to_html(page: Page) -> str:
    """The page as one file.

    All text is escaped. The page's Content-Security-Policy allows the styles and scripts of this
    package, known by their digests, and nothing else: no address is ever asked for.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    styles, scripts = [asset("page.css")], list(_scripts(page))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src {_digests(styles)}",
            f"script-src {_digests(scripts)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return environment.from_string(asset("page.html.jinja")).render(
        page=page,
        policy=policy,
        styles=[Markup(text) for text in styles],
        scripts=[Markup(text) for text in scripts],
        embedded=lambda value: Markup(embedded(value)),
    )


def _scripts(page: Page) -> Iterator[str]:
    """The scripts that the page needs, the one that starts the others at the end."""
    scenes = [block for block in page.blocks if isinstance(block, Scene)]
    names = dict.fromkeys(name for scene in scenes for name in (*scene.helpers, scene.script))
    if any(isinstance(block, Table) for block in page.blocks):
        yield asset("tables.js")
    yield from (asset(f"{name}.js") for name in names)
    yield asset("core.js")


def _digests(texts: Sequence[str]) -> str:
    digests = (b64encode(sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


@cache
def asset(name: str) -> str:
    """A style, script or template that comes with this package."""
    return (files("experiments.pages") / "assets" / name).read_text(encoding="utf-8")


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
        yield from (escaped(line) for line in block.note.splitlines())
    elif isinstance(block, Remarks):
        yield f"## {escaped(block.title)}"
        yield "\n".join(f"- {escaped(line)}" for line in block.lines)


def _table(table: Table) -> str:
    head = [escaped(heading.text) for heading in table.headings]
    rule = ["---:" if heading.number else "---" for heading in table.headings]
    rows = [[escaped(cell.text) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
