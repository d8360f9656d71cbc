"""Processes that fail in every way, without torch: one line says who, what was measured is kept,
and none remains."""

import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from experiments.measure import local_ranks
from experiments.measure.launcher import MeasurementFailed
from experiments.measure.local_ranks import launch
from experiments.measure.points import MeasurementPlan, points
from experiments.measure.result_rows import ResultRow, row_of

PLAN = MeasurementPlan(
    "gloo", "cpu", "float32", 2, "", points(["ring"], [64.0], 2, "float32"), timeout=0.2
)
ABOUT = {"device": "cpu", "library": "none", "source": "here"}
ROW = row_of(PLAN, PLAN.points[0], np.ones((2, 3)), 0, 1, ABOUT)
BEGIN = f"""
import os, signal, sys, threading
from multiprocessing.connection import Connection
from experiments.measure.launcher import Complaint
pipe, rank, row = Connection(int(sys.argv[1])), int(sys.argv[2]), {asdict(ROW)!r}
late = Complaint("in ring of 64B", "RuntimeError: Timed out")
pipe.send({{"at": "in ring of 64B"}})
if rank == 0: pipe.send({{"row": row}})
def wait(): threading.Event().wait()
"""


def failing(
    code: str, monkeypatch: pytest.MonkeyPatch, plan: MeasurementPlan = PLAN
) -> tuple[str, list[ResultRow]]:
    """What is said of ranks that run `code`, and the rows before that."""
    rows: list[ResultRow] = []
    monkeypatch.setattr(local_ranks, "WORKER", BEGIN + code)
    with pytest.raises(MeasurementFailed) as error:
        launch(plan, rows.append)
    return str(error.value), rows


def test_rows_arrive_and_nobody_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = (
        f"open(r'{tmp_path}/' + str(os.getpid()), 'w').close(); pipe.send({{'done': rank}}); wait()"
    )
    monkeypatch.setattr(local_ranks, "WORKER", BEGIN + code)
    rows: list[ResultRow] = []
    launch(PLAN, rows.append)
    assert rows == [ROW]
    assert len(list(tmp_path.iterdir())) == 2
    for path in tmp_path.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.name), 0)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (
            "os.kill(os.getpid(), signal.SIGKILL) if rank else wait()",
            "rank 1 was killed by SIGKILL",
        ),
        ("os._exit(7) if rank else wait()", "rank 1 ended with exit code 7 in ring of 64B"),
        (
            "pipe.send({'failed': Complaint('in x', 'KeyError: 3')}) if rank else wait()",
            "rank 1 failed in x: KeyError",
        ),
        (
            "wait() if rank else pipe.send({'failed': late}); wait()",
            "rank 1 does not answer in ring of 64B: rank 0",
        ),
        (
            "os.kill(os.getpid(), signal.SIGSTOP) if rank else pipe.send({'failed': late}); wait()",
            "rank 1 does not",
        ),
        (
            "pipe.send({'done': 0}) if rank == 0 else os._exit(1); wait()",
            "rank 1 ended with exit code 1",
        ),
    ],
)
def test_the_rank_to_blame_is_named(code: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message, rows = failing(code, monkeypatch)
    assert message.startswith(line)
    assert rows == [ROW]


def test_ranks_that_all_time_out_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_ranks, "GRACE_SECONDS", 60.0)  # the last rank may begin late
    code = "pipe.send({'failed': late}); wait()"
    message, rows = failing(code, monkeypatch, replace(PLAN, timeout=60.0))
    assert message.startswith("all ranks wait for each other in ring of 64B")
    assert rows == [ROW]


def test_ranks_that_all_hang_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.measure.points.START_SECONDS", 0.0)
    message, _ = failing("wait()", monkeypatch, replace(PLAN, budget=0.1, timeout=0.1))
    assert message == "no rank answers in ring of 64B"


PARENT = """
import signal
from experiments.measure import local_ranks, points
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below a shell's background job
local_ranks.WORKER = {code!r}
local_ranks.launch(points.MeasurementPlan.from_json({plan!r}), print)
"""
CHILD = """
import os
from experiments.measure.worker import _end_with_parent
os.write(2, b"here\\n")
_end_with_parent()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ranks_end_with_their_parent(number: int, tmp_path: Path) -> None:
    script = PARENT.format(code=CHILD, plan=PLAN.to_json())
    place = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, env=place
    ) as parent:
        assert parent.stderr is not None
        assert [parent.stderr.readline() for _ in range(2)] == ["here\n"] * 2
        parent.send_signal(number)
        parent.communicate(timeout=30)  # to the end of stderr: all that could write to it are gone
    assert parent.returncode == -number
