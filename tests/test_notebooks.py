"""The notebooks show what is stored in them. SIMCTL_UPDATE_DOCS=1 stores it anew."""

import os
from itertools import count
from pathlib import Path

import pytest

from notebook_outputs import (
    METADATA,
    check_same,
    code_cells,
    read,
    run_here,
    run_in_kernel,
    same_text,
    stored,
    text_of,
)

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
MEGABYTE = 1_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the examples beside it, as the notebooks have."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "notebooks").mkdir()
    return tmp_path / "notebooks"


@every_notebook
def test_a_notebook_is_kept_with_its_outputs(path: Path) -> None:
    notebook = read(path)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert path.stat().st_size <= MEGABYTE
    assert notebook.metadata == METADATA
    for cell, number in zip(code_cells(notebook), count(1), strict=False):
        assert cell.metadata == {}
        assert cell.execution_count == number
        for output in cell.outputs:
            assert output.output_type in ("stream", "display_data", "execute_result"), output
            assert output.get("name") != "stderr", output.text
            assert " at 0x" not in text_of(output), "an address changes with each run"
    assert sum(cell.pictures for cell in stored(notebook)) >= 1


@pytest.mark.exhaustive
@every_notebook
def test_a_notebook_is_valid(path: Path) -> None:
    import nbformat

    nbformat.validate(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("path", NOTEBOOKS[3:4], ids=lambda path: path.name)
def test_every_cell_shows_what_is_stored(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process. The others take longer, and run in a kernel alone."""
    monkeypatch.chdir(folder)
    check_same(run_here(path, monkeypatch), stored(read(path)))


@pytest.mark.exhaustive
@every_notebook
def test_a_kernel_shows_what_is_stored(path: Path, folder: Path) -> None:
    fresh = run_in_kernel(path, folder)
    if os.environ.get("SIMCTL_UPDATE_DOCS"):
        from nbformat import write

        write(fresh, path)
    check_same(stored(fresh), stored(read(path)))


def test_three_digits_of_each_number_count() -> None:
    assert same_text("ring  12.345 ms", "ring 12.36 ms")
    assert not same_text("ring 12.3 ms", "ring 12.4 ms")
    assert not same_text("ring 12.3 ms", "tree 12.3 ms")
    assert not same_text("ring 12.3 ms", "ring 12.3 ms 4")
    assert not same_text("1e-6 s", "1e-5 s")
