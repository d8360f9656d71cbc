"""What pytest runs, and in which order."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("topologies", "simulator", "experiments", "simctl")
TESTPATHS: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"][
    "ini_options"
]["testpaths"]


def test_the_laws_come_first_and_nothing_is_left_out_or_run_twice() -> None:
    """A path within another would lose its place: pytest keeps the outer one alone."""
    chosen = [path for pattern in TESTPATHS for path in sorted(ROOT.glob(pattern))]
    assert chosen[0] == ROOT / "tests" / "laws"
    folders = {"tests": "test_*.py"} | dict.fromkeys(PACKAGES, "*.py")
    modules = [
        module for folder, pattern in folders.items() for module in (ROOT / folder).rglob(pattern)
    ]
    for module in modules:
        assert sum(module.is_relative_to(path) for path in chosen) == 1, module


def test_a_test_file_that_cannot_be_imported_is_an_error(tmp_path: Path) -> None:
    """pytest would skip it, with all its tests, since its doctests cannot be looked at."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_broken.py").write_text("import no_such_module\n\n\ndef test(): ...\n")
    options = ("--import-mode=importlib", "--doctest-modules", "--doctest-ignore-import-errors")
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={tmp_path}", "."]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 2, run.stdout
    assert "test_broken.py cannot be imported" in run.stdout
