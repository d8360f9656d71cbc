"""What pytest runs, and in which order."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("topologies", "simulator", "experiments")
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
