"""The notebooks run, and are kept without their outputs."""

import sys
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from matplotlib import pyplot as plt
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples beside it, as the notebooks have."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "notebooks").mkdir()
    return tmp_path / "notebooks"


@every_notebook
def test_outputs_are_not_kept(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs")
        assert not cell.get("execution_count")


@pytest.mark.parametrize("path", NOTEBOOKS[::3], ids=lambda path: path.name)
def test_every_cell_runs(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, where everything is imported already. No figure is shown. The others take
    longer, and run in a kernel alone."""
    monkeypatch.chdir(folder)
    plt.switch_backend("agg")
    module = ModuleType(path.stem)
    monkeypatch.setitem(sys.modules, path.stem, module)
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells):
        if cell.cell_type == "code":
            source = cell.source.removeprefix("%matplotlib inline\n")
            exec(compile(source, f"{path.name}, cell {number}", "exec"), vars(module))
    plt.close("all")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.exhaustive] * bool(place), id=path.name)
        for place, path in enumerate(NOTEBOOKS)
    ],
)
def test_jupyter_runs_it(path: Path, folder: Path) -> None:
    """In a kernel, where each figure is drawn."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
