"""The site: Sphinx builds it without warnings, and its pages load nothing from elsewhere."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest

import docstrings
import notebook_pages
from browser import chromium, opened
from extras import needs
from page_copies import relinked, shelves

ROOT = Path(__file__).parents[1]
LOADED = {"href": {"link"}, "src": {"script", "img", "iframe", "source", "video", "audio", "embed"}}
"""Attributes of elements that make a browser load something."""


class Addresses(HTMLParser):
    """The addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if tag in LOADED.get(name, ())]


def loaded(page: Path) -> Iterator[str]:
    text = page.read_text()
    if page.suffix == ".html":
        parser = Addresses()
        parser.feed(text)
        yield from parser.addresses
        text = "\n".join(re.findall(r"<style.*?</style>", text, re.DOTALL))
    yield from re.findall(r"url\(\s*[\"']?([^\"')]+)", text)
    yield from re.findall(r"@import\s+[\"']([^\"']+)", text)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    paths = [str(ROOT / "docs"), str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, *paths], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.exhaustive
@needs("sphinx", "docs")
def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    addresses = {(page, address) for page in pages for address in loaded(page)}
    assert len(pages) > 70
    assert len(addresses) > 500
    for page, address in addresses:
        name = re.split(r"[?#]", address)[0]
        assert address.startswith(("#", "data:")) or (page.parent / name).exists(), (page, address)
    assert "simctl predicts" in (site / "index.html").read_text()
    for source in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")]:
        built = (site / source.relative_to(ROOT)).with_suffix(".html").read_text()
        assert "toctree-l1 current" in built, source


@pytest.mark.exhaustive
@needs("sphinx", "docs")
def test_no_page_is_wider_than_the_screen(site: Path) -> None:
    """Wide tables and code scroll; the browser asks for nothing and has no complaint."""
    names = ("index", "docs/zh/README", "docs/reference/algorithms", "docs/reference/speed")
    with chromium() as browser, opened(browser) as open_page:
        for name, width in product(names, (390, 1280)):
            page = open_page(site / f"{name}.html", width=width)
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(wide) <= 0, name


def test_links_hold_among_the_copies() -> None:
    def on_the_site(text: str, page: str) -> str:
        return relinked(text, ROOT / page, ROOT)

    assert on_the_site("[a](../README.md#b)", "docs/README.md") == "[a](../index.md#b)"
    assert on_the_site("[a](README.md)", "docs/README.md") == "[a](README.md)"
    assert on_the_site("[a](notebooks/01-x.ipynb)", "README.md") == "[a](notebooks/01-x.md)"
    assert on_the_site("[a](https://b.c/README.md)", "README.md") == "[a](https://b.c/README.md)"
    assert on_the_site("[a](../simulator/training)", "docs/README.md") == "a"
    assert on_the_site("[a](../experiments/studies/lab-notebook.md)", "docs/README.md") == "a"


def test_the_shelves_of_the_index_are_the_navigation() -> None:
    trees = shelves("# All\n\n## How-to\n\n- [A](how-to/a.md): x\n- [B](../notebooks/b.ipynb)\n")
    assert trees.split() == [
        *("```{toctree}", ":hidden:", ":caption:", "How-to"),
        *("A", "<docs/how-to/a>", "B", "<notebooks/b>", "```"),
    ]


def test_a_notebook_becomes_a_page_with_its_outputs(tmp_path: Path) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["1\n", "```\n"]},
        {"output_type": "display_data", "data": {"image/png": "iVBORw==", "text/plain": ["<f>"]}},
        {"output_type": "execute_result", "data": {"image/png": "R0lGODlh"}},
        {"output_type": "execute_result", "data": {"text/html": ["<table>\n", "\n", "</table>"]}},
        {"output_type": "execute_result", "data": {"text/plain": ["2"]}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# A\n", "b"]},
        {"cell_type": "code", "source": ["print(1)"], "outputs": outputs},
    ]
    notebook = tmp_path / "a.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    blocks = notebook_pages.page(notebook, tmp_path).rstrip().split("\n\n")
    assert blocks == [
        "# A\nb",
        "```python\nprint(1)\n```",
        "````text\n1\n```\n````",
        "![](a-1-1.png)",
        "![](a-1-2.gif)",
        f"{notebook_pages.TABLE}\n</table></div>",
        "```text\n2\n```",
    ]
    assert (tmp_path / "a-1-1.png").read_bytes() == b"\x89PNG\r\n"[:4]


def test_docstrings_are_no_markup() -> None:
    lines = ["Σ|x| * 2 of x_ in `a_*b`.", ">>> a * b"]
    docstrings.as_rst(None, "", "", None, None, lines)
    assert lines == [r"Σ\|x\| \* 2 of x\_ in `a_*b`.", ">>> a * b"]
    array = "(a: ndarray[tuple[Any, ...], dtype[int8]])"
    assert docstrings.short_types(None, "", "", None, None, array, None) == (
        "(a: ndarray[int8])",
        None,
    )
