"""Notebooks as pages: text, code, and its output."""

import base64
import json
from pathlib import Path
from typing import Any

PICTURES = {"image/png": "png", "image/gif": "gif", "image/jpeg": "jpg", "image/svg+xml": "svg"}

TABLE = '<div class="table-wrapper docutils container"><table class="docutils">'
"""A table that looks like those of the pages, and scrolls where it is too wide."""


def page(notebook: Path, folder: Path) -> str:
    """The Markdown of a notebook. Its pictures go to `folder`."""
    blocks: list[str] = []
    for number, cell in enumerate(json.loads(notebook.read_text())["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            blocks.append(source)
        elif source.strip():
            blocks.append(fenced("python", source))
            for place, output in enumerate(cell.get("outputs", ())):
                blocks.append(shown(output, folder / f"{notebook.stem}-{number}-{place}"))
    return "\n\n".join(blocks) + "\n"


def fenced(language: str, text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def shown(output: dict[str, Any], stem: Path) -> str:
    """One output of a cell: the richest form that it has. A GIF may be stored as PNG, since not
    every viewer of notebooks knows GIFs."""
    if output["output_type"] == "stream":
        return fenced("text", "".join(output["text"]))
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
    for kind, suffix in PICTURES.items():
        if kind in data:
            content = data[kind].encode()
            content = content if suffix == "svg" else base64.b64decode(content)
            path = stem.with_suffix(".gif" if content.startswith(b"GIF8") else f".{suffix}")
            path.write_bytes(content)
            return f"![]({path.name})"
    if "text/html" in data:
        html = "\n".join(line for line in data["text/html"].splitlines() if line.strip())
        return html.replace("<table>", TABLE).replace("</table>", "</table></div>")
    return fenced("text", data.get("text/plain", ""))
