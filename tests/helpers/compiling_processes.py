"""Processes that compile kernels, most of them on a copy of the packages, so that nothing is left
beside ours."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import simulator
import topologies

CHAIN = """
import numpy as np
from simulator.kernels import dependencies, first_come
from topologies._compile import compiled, is_loaded, kernel
ones, line = np.ones(4, np.int8), np.array([0, 0, 1, 2, 3], np.int32)
before = np.array([0, 1, 2], np.int32)
"""
"""Four operations in a row: their depths are 1, 2, 3, 4."""
DEPTHS = [1, 2, 3, 4]

COMPILE_ONE = f"""{CHAIN}
import sys
answer = dict(
    depths=compiled(dependencies.chain)(ones, line, before).tolist(),
    built="numba" in sys.modules,
)
"""

SIMULATE = """
import sys
from simulator.kernels import dependencies, first_come
from topologies._compile import compiled
from simulator.collectives import find
from simulator.engines import simulate
from topologies import shapes
schedule, topology = find("ring").build(4, 4.0), shapes.ring(4, bandwidth=1.0, latency=0.5)
fast, slow = (simulate(schedule, topology, engine) for engine in ("compiled", "reference"))
# Six steps of 1 s and half a second of latency.
answer = dict(
    makespan=fast.makespan,
    same=fast.finish.tolist() == slow.finish.tolist(),
    built="numba" in sys.modules,
)
"""


Answer = tuple[Any, str]
"""What a process answered, and what it wrote to stderr."""
OURS = Path(str(simulator.__file__)).parent.parent


def start(code: str, tree: Path | None, environment: dict[str, str]) -> "subprocess.Popen[str]":
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("SIMCTL_", "NUMBA_", "PYTHON"))
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-c", f"{code}\nimport json, sys\nprint(json.dumps(answer))"],
        env=inherited
        | {"SIMCTL_COMPILE": "needed"}
        | environment
        | {"PYTHONPATH": str(tree or OURS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> Answer:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return json.loads(out), error


def run(code: str, tree: Path | None = None, **environment: str) -> Answer:
    """Run code that sets `answer` in a process of its own, on our packages or on the copy in
    `tree`."""
    return finish(start(code, tree, environment))


def copied(folder: Path) -> Path:
    """A copy of the packages in a folder."""
    for package in (simulator, topologies):
        origin = Path(str(package.__file__)).parent
        shutil.copytree(
            origin, folder / "tree" / origin.name, ignore=shutil.ignore_patterns("__pycache__")
        )
    return folder / "tree"


def cached(folder: Path) -> list[Path]:
    """The files of compiled kernels below a folder."""
    return sorted(folder.rglob("simulator.kernels.*-*"))


def warnings_in(error: str) -> int:
    return error.count("Warning: ")
