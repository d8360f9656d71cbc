"""Pages of the Python API, written from docstrings."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NAME = re.compile(r"`((?:topologies|simulator|experiments)(?:\.\w+)+)")
NOUNS = (
    "topologies.link",
    "topologies.topology",
    "topologies.units",
    "simulator.profile",
    "simulator.schedules.schedule",
    "simulator.schedules.timeline",
    "simulator.training.strategy",
    "experiments.measurements.curve",
)
"""Modules of arguments and results of the functions, beside those that the page names."""
ARRAY = re.compile(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]")
FOLDER = Path("docs", "reference", "api")


def write(root: Path, pages: Path) -> None:
    """Write a page for each module that the page of the Python API names, and link them there."""
    api = pages / "docs" / "reference" / "python-api.md"
    modules = sorted({*NOUNS, *map(module, NAME.findall(api.read_text()))})
    (pages / FOLDER).mkdir(parents=True, exist_ok=True)
    for name in modules:
        text = f"# {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n```\n"
        (pages / FOLDER / f"{name}.md").write_text(text)
    entries = "\n".join(f"api/{name}" for name in modules)
    with api.open("a") as page:
        page.write(
            "\n## Modules\n\nThese pages are written from docstrings.\n\n"
            f"```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```\n"
        )


def module(name: str) -> str:
    """The module that a name is, or is in."""
    while True:
        try:
            if find_spec(name) is not None:
                return name
        except ModuleNotFoundError:
            pass
        name = name.rpartition(".")[0]


def as_rst(
    app: object, what: str, name: str, thing: object, options: Any, lines: list[str]
) -> None:
    """Escape the markup of reStructuredText."""
    for place, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = line.split("`")
        parts[::2] = [re.sub(r"([*|\\]|_(?=\W|$))", r"\\\1", part) for part in parts[::2]]
        lines[place] = "`".join(parts)


def short_types(
    app: object,
    what: str,
    name: str,
    thing: object,
    options: Any,
    signature: str | None,
    result: str | None,
) -> tuple[str | None, str | None]:
    """A signature with short names of arrays."""
    short = [text and ARRAY.sub(r"ndarray[\1]", text) for text in (signature, result)]
    return short[0], short[1]
