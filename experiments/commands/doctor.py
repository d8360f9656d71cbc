"""`simctl doctor`."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from experiments import output
from topologies._compile import code_cache

PACKAGES = (
    "simctl-collectives",
    "numpy",
    "simpy",
    "networkx",
    "matplotlib",
    "typer",
    "numba",
    "scipy",
    "pandas",
    "pydantic",
    "PyYAML",
)
EXTRAS = ("torch",)
FLOORS = ("topologies", "simulator", "experiments", "simctl")


def run() -> None:
    """Print what a bug report needs."""
    rows = [["python", platform.python_version(), platform.platform()]]
    rows += [[package, version(package), ""] for package in PACKAGES]
    rows += [[package, _installed(package), ""] for package in EXTRAS]
    rows += [[floor, "", str(Path(import_module(floor).__file__ or "").parent)] for floor in FLOORS]
    rows.append(["compiled code", "", str(code_cache.folder())])
    output.say(output.align(rows))


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed: an extra"
