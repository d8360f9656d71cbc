"""Processes that compile kernels, each with a folder of compiled code."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import simulator

CHAIN = """
import numpy as np
from simulator.kernels import dependencies
from topologies.jit import compiled, is_loaded, kernel, pays
ones, line = np.ones(4, np.int8), np.array([0, 0, 1, 2, 3], np.int32)
before = np.array([0, 1, 2], np.int32)
"""
"""Four operations in a row: their depths are 1, 2, 3, 4."""
COMPILE_ONE = f"""{CHAIN}
chain = compiled(dependencies.chain)
answer = chain(ones, line, before).tolist(), len(chain.stats.cache_hits)
"""
"""The depths, and whether Numba had the code."""
DEPTHS = [1, 2, 3, 4]
PACKAGES = Path(str(simulator.__file__)).parent.parent


def run(code: str, tree: Path = PACKAGES, **environment: str) -> tuple[Any, str]:
    """Run code that sets `answer` in a process of its own, on the packages in a folder: the answer,
    and what it wrote to stderr."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SIMCTL_", "NUMBA_", "PYTHON"))
    }
    chosen = {"SIMCTL_COMPILE": "needed", "PYTHONPATH": str(tree)} | environment
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{code}\nimport json\nprint(json.dumps(answer))"],
        env=inherited | chosen,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr
