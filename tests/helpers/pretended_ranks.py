"""Ranks for `simctl measure` that measure nothing and answer at once."""

from importlib.machinery import ModuleSpec

import pytest

from experiments.commands import measure as command
from experiments.measure import local_ranks as launching
from experiments.measure.launcher import MPIRUN, SRUN, TORCHRUN

PRETENDS = """
import pickle, sys
from multiprocessing.connection import Connection
import numpy as np
from dataclasses import asdict
from experiments.measure.launcher import Complaint
from experiments.measure.result_rows import row_of
pipe, rank = Connection(int(sys.argv[1])), int(sys.argv[2])
plan = pickle.loads(bytes.fromhex(sys.argv[3]))
about = {"device": "cpu", "library": "none", "source": "here"}
for point in plan.points:
    if point.algorithm == "naive":
        pipe.send({"failed": Complaint(f"in {point}", "ValueError: no")})
        sys.stdin.read()
    row = row_of(plan, point, np.full((2, 3), 1e-3), 5 * (point.algorithm == "tree"), 1, about)
    if rank == 0: pipe.send({"row": asdict(row)})
pipe.send({"done": rank})
sys.stdin.read()
"""
"""The program of a rank: naive fails, and tree has five wrong elements."""


def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `simctl measure` start these, with torch or without, as if nothing else had started
    it."""
    monkeypatch.setattr(launching, "WORKER", PRETENDS)
    monkeypatch.setattr(command, "find_spec", lambda name: ModuleSpec(name, None))
    for name in ("MASTER_ADDR", *TORCHRUN, *SRUN, *MPIRUN):
        monkeypatch.delenv(name, raising=False)
