"""`simctl doctor`."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

from experiments import output

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


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Print versions, folders and where compiled code is kept."""

    EXAMPLES: ClassVar = ("doctor",)

    def run(self) -> int:
        """Print what a bug report needs."""
        from topologies import compilation

        rows = [["python", platform.python_version(), platform.platform()]]
        rows += [[package, version(package), ""] for package in PACKAGES]
        rows += [[package, _installed(package), ""] for package in EXTRAS]
        floors = {floor: import_module(floor).__file__ or "" for floor in FLOORS}
        rows += [[floor, "", str(Path(file).parent)] for floor, file in floors.items()]
        rows.append(["compiled code", "", str(compilation.folder())])
        output.say(output.align(rows))
        return 0


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed: an extra"
