"""Copies of the repository's pages, as Sphinx reads them.

The copies lie in the same folders. Three things change: README.md is the start page, notebooks
become pages, and the start page lists the four shelves.
"""

import re
import shutil
from pathlib import Path

import notebook_pages

FOLDERS = ("docs", "examples")
START = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")
SHELF = re.compile(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def copy(root: Path, pages: Path) -> None:
    """Write the pages of the repository `root` into the folder `pages`."""
    shutil.rmtree(pages, ignore_errors=True)
    sources = [root / name for name in START]
    for folder in FOLDERS:
        sources += [path for path in (root / folder).rglob("*") if wanted(path)]
    for source in sources:
        target = pages / source.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(relinked(source.read_text(), source, root))
        else:
            shutil.copy(source, target)
    for notebook in sorted((root / "notebooks").glob("*.ipynb")):
        target = (pages / notebook.relative_to(root)).with_suffix(".md")
        target.parent.mkdir(exist_ok=True)
        target.write_text(relinked(notebook_pages.page(notebook, target.parent), notebook, root))
    (pages / "README.md").rename(pages / "index.md")
    index = (root / "docs" / "README.md").read_text()
    with (pages / "index.md").open("a") as start:
        start.write(shelves(index))


def wanted(path: Path) -> bool:
    return path.is_file() and path.suffix not in (".py", ".pyc", ".css")


def relinked(text: str, source: Path, root: Path) -> str:
    """`text` with links that hold among the copies, and languages that Pygments knows."""

    def link(match: re.Match[str]) -> str:
        name, hash_sign, anchor = match[2].partition("#")
        if ":" in name or not name:
            return match[0]
        path = (source.parent / name).resolve()
        if path == root / "README.md":
            name = name.replace("README.md", "index.md")
        elif path.suffix == ".ipynb":
            name = name.replace(".ipynb", ".md")
        elif path.suffix == ".py" or path.is_dir() or path.is_relative_to(root / "experiments"):
            return match[0].partition("](")[0].lstrip("[")
        return match[1] + name + hash_sign + anchor + match[3]

    return LINK.sub(link, text).replace("```csv\n", "```text\n")


def shelves(index: str) -> str:
    """The contents of the site: the shelves and links of docs/README.md."""
    trees = []
    for caption, section in SHELF.findall(index):
        links = re.findall(r"^- \[([^\]]*)\]\(([^)]*)\)", section, re.MULTILINE)
        links += [("All pages", "README.md")] * (caption == "Project")
        entries = "\n".join(f"{text} <{place(name)}>" for text, name in links)
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n")
    return "\n" + "\n".join(trees)


def place(name: str) -> str:
    """The page of a link in docs/README.md, as Sphinx calls it."""
    return re.sub(r"\.(md|ipynb)$", "", re.sub(r"^docs/\.\./", "", f"docs/{name}"))
