"""The notebooks run, and are kept without their outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert all(
        not cell.get("outputs") and not cell.get("execution_count") for cell in notebook.cells
    )
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    folder = tmp_path / "notebooks"
    folder.mkdir()
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS
