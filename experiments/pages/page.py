"""A page: one HTML file with everything that it shows, safe to open and to send."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from experiments.output import Value
from experiments.pages.packed import embedded


class Heading(NamedTuple):
    """A column of a table."""

    text: str
    """What stands above the column."""
    number: bool = False
    """Whether cells are numbers, which stand to the right."""


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    """What the reader sees."""
    value: float | str | None = None
    """What sorting compares; the text if missing."""

    @property
    def key(self) -> str:
        """The value that sorting compares, as text."""
        return self.text if self.value is None else str(self.value)


@dataclass(frozen=True)
class Table:
    """A table that sorts by each column and filters by text."""

    title: str
    headings: Sequence[Heading]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    """What stands below the table."""
    kind: str = "table"


@dataclass(frozen=True)
class Figure:
    """A picture."""

    title: str
    svg: str
    """An element, as `inline_svg` makes it."""
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


@dataclass(frozen=True)
class Facts:
    """Names and their values, such as parameters and versions."""

    title: str
    values: Mapping[str, str]
    kind: str = "facts"


@dataclass(frozen=True)
class Lines:
    """Short remarks, each on a line of its own."""

    title: str
    lines: Sequence[str]
    kind: str = "lines"


Block = Table | Figure | Scene | Facts | Lines


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
        safe=Markup,
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
