"""What the cells of a notebook print and draw: stored in it, and found again when it runs."""

import ast
import json
import os
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import BytesIO, StringIO
from itertools import count
from math import isclose
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import PIL.Image
import pytest
from IPython.display import Image
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""The metadata of every notebook, whichever kernel wrote it."""
NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
PROGRESS = re.compile(r"^\s*\w[\w ]*: \d+ of \d+.*$\n?", re.MULTILINE)
"""How far a call is: written on stderr, on slow machines alone."""
SETTINGS = "figure.dpi: 80\n"
"""The settings of matplotlib in which figures are stored."""


class Shown(NamedTuple):
    """What a cell shows."""

    text: str
    """What it prints, its value as text, or its value as HTML."""
    pictures: int


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def stored(notebook: Any) -> list[Shown]:
    """What the outputs of each cell of code show."""
    return [
        Shown(
            "".join(map(text_of, cell.outputs)),
            sum(is_picture(output.get("data", {})) for output in cell.outputs),
        )
        for cell in code_cells(notebook)
    ]


def text_of(output: Any) -> str:
    if output.output_type == "stream":
        text = str(output.text)
        return PROGRESS.sub("", text) if output.name == "stderr" else text
    data = output.data
    return "" if is_picture(data) else "".join(data.get("text/html", data.get("text/plain")))


def is_picture(data: Mapping[str, Any]) -> bool:
    return any(kind.startswith("image/") for kind in data)


class Node(dict[str, Any]):
    """A part of a notebook, with its keys as attributes and its lines as one text."""

    def __getattr__(self, key: str) -> Any:
        value = self[key]
        return "".join(value) if key in ("source", "text") else value


def read(path: Path) -> Any:
    """A notebook, without nbformat, whose import takes two seconds."""
    return json.loads(path.read_text(), object_hook=Node)


def run_here(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Shown]:
    """What each cell shows when it runs in this process, where everything is imported already."""
    plt.switch_backend("agg")
    module = ModuleType(path.stem)
    monkeypatch.setitem(sys.modules, path.stem, module)
    shown = []
    for number, cell in enumerate(code_cells(read(path))):
        tree = ast.parse(cell.source.removeprefix("%matplotlib inline\n"))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        name = f"{path.name}, cell {number}"
        with redirect_stdout(StringIO()) as printed:
            exec(compile(tree, name, "exec"), vars(module))
            value = None
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), name, "eval"), vars(module))
        pictures = len(plt.get_fignums()) + isinstance(value, Figure | Image)
        plt.close("all")
        shown.append(Shown(printed.getvalue() + value_text(value), pictures))
    return shown


def value_text(value: Any) -> str:
    if value is None or isinstance(value, Figure | Image):
        return ""
    return str(value._repr_html_()) if hasattr(value, "_repr_html_") else repr(value)


def run_in_kernel(path: Path, folder: Path) -> Any:
    """The notebook with the outputs that a kernel in `folder` gives, without times and addresses of
    that run."""
    settings = folder / "matplotlibrc"
    settings.write_text(SETTINGS)
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=300,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    ).execute(env=os.environ | {"MATPLOTLIBRC": str(settings)})
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in zip(count(1), code_cells(notebook), strict=False):
        cell.metadata, cell.execution_count = {}, number
        for output in cell.outputs:
            clean(output, number)
    return notebook


def clean(output: Any, number: int) -> None:
    """Keep the richest form of an output. The text of a picture or table holds addresses."""
    data = output.get("data", {})
    if is_picture(data) or "text/html" in data:
        data.pop("text/plain", None)
    if "image/png" in data:
        data["image/png"] = b64encode(small(b64decode(data["image/png"]))).decode()
    if "metadata" in output:
        output.metadata = {}
    if "execution_count" in output:
        output.execution_count = number


def small(png: bytes) -> bytes:
    """The picture in 256 colours, at a third of its size. A GIF stays as it is."""
    picture = PIL.Image.open(BytesIO(png))
    if picture.format != "PNG":
        return png
    file = BytesIO()
    picture.convert("RGB").quantize(256, dither=PIL.Image.Dither.NONE).save(file, "png")
    return file.getvalue()


def check_same(fresh: list[Shown], kept: list[Shown]) -> None:
    """Raises AssertionError if a cell shows something else than what is stored."""
    assert len(fresh) == len(kept)
    for number, (new, old) in enumerate(zip(fresh, kept, strict=True), 1):
        assert new.pictures == old.pictures, f"cell [{number}] draws {new.pictures} pictures"
        assert same_text(new.text, old.text), f"cell [{number}] shows\n{new.text}\nnot\n{old.text}"


def same_text(new: str, old: str) -> bool:
    """Whether two texts have the same words, and numbers that agree to three digits."""
    pieces, others = (NUMBER.split(" ".join(text.split())) for text in (new, old))
    return len(pieces) == len(others) and all(
        isclose(float(piece), float(other), rel_tol=5e-3) if place % 2 else piece == other
        for place, (piece, other) in enumerate(zip(pieces, others, strict=True))
    )
