"""Launchers of ranks, and processes that fail in every way, without torch."""

import os
import pickle
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from experiments.measure import local_ranks
from experiments.measure.launcher import (
    Complaint,
    MeasurementFailed,
    blame,
    complaint,
    find_place,
    first_host,
    meeting_point,
)
from experiments.measure.local_ranks import launch
from experiments.measure.points import MeasurementPlan, points
from experiments.measure.result_rows import ResultRow, row_of
from grouped_cases import each_case
from refusals import refusal

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
import pickle, signal
from experiments.measure import local_ranks
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below a shell's background job
local_ranks.WORKER = {code!r}
local_ranks.launch(pickle.loads({plan!r}), print)
"""
CHILD = """
import os
from experiments.measure.worker import _end_with_parent
os.write(2, b"here\\n")
_end_with_parent()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ranks_end_with_their_parent(number: int, tmp_path: Path) -> None:
    script = PARENT.format(code=CHILD, plan=pickle.dumps(PLAN))
    place = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, env=place
    ) as parent:
        assert parent.stderr is not None
        assert [parent.stderr.readline() for _ in range(2)] == ["here\n"] * 2
        parent.send_signal(number)
        parent.communicate(timeout=30)  # to the end of stderr: all that could write to it are gone
    assert parent.returncode == -number


TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
SRUN = {"SLURM_PROCID": "2", "SLURM_NTASKS": "3", "SLURM_LOCALID": "0"}
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
}


@each_case(
    ("environment", "place"),
    [
        (TORCHRUN, (5, 8, 1)),
        (SRUN, (2, 3, 0)),
        (MPIRUN, (1, 2, 1)),
        (SRUN | TORCHRUN, (5, 8, 1)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1, 0)),
        ({"RANK": "0"}, None),
        ({}, None),
    ],
)
def test_a_rank_knows_its_place(
    environment: dict[str, str], place: tuple[int, int, int] | None
) -> None:
    assert find_place(environment) == place


@each_case("rank", ["8", "-1", "x", "", "٣", "1" * 5000])
def test_a_place_that_makes_no_sense_is_refused(rank: str) -> None:
    assert "RANK" in refusal(find_place, TORCHRUN | {"RANK": rank})


@each_case(
    ("hosts", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("n[3-9]", "n3"),
        ("n[03,05-09],m1", "n03"),
        ("r[1-2]-ib", "r1-ib"),
        ("a-b[10]", "a-b10"),
    ],
)
def test_the_first_host_of_a_list(hosts: str, first: str) -> None:
    assert first_host(hosts) == first


def test_slurm_says_where_ranks_meet() -> None:
    slurm = {"SLURM_STEP_NODELIST": "n[7-8]", "SLURM_JOB_ID": "40017"}
    assert meeting_point(slurm) == {"MASTER_ADDR": "n7", "MASTER_PORT": "20017"}
    assert meeting_point(slurm | {"MASTER_ADDR": "h"}) == {
        "MASTER_ADDR": "h",
        "MASTER_PORT": "20017",
    }
    variables = {"MASTER_ADDR": "h", "MASTER_PORT": "1"}
    assert meeting_point(slurm | variables) == variables
    assert "MASTER_ADDR" in refusal(meeting_point, {})


LOST = "RuntimeError: Connection closed by peer [127.0.0.1]:4711"
LATE = "RuntimeError: Timed out waiting 1000ms for recv operation to complete"
AT = "in ring of 4KiB"


def complaints_of(**messages: str) -> dict[int, Complaint]:
    return {int(rank[1:]): Complaint(AT, message) for rank, message in messages.items()}


@each_case(
    ("complaints", "ended", "line"),
    [
        (
            complaints_of(r0=LOST, r1=LOST),
            {2: -9},
            "rank 2 was killed by SIGKILL (out of memory?) in ring of 4KiB",
        ),
        (complaints_of(r0=LOST, r1=LOST), {2: -11}, "rank 2 was killed by SIGSEGV in ring of 4KiB"),
        ({}, {2: -77}, "rank 2 was killed by signal 77 at the start"),
        (complaints_of(r0=LOST, r1=LOST), {2: 3}, "rank 2 ended with exit code 3 in ring of 4KiB"),
        (
            complaints_of(r0=LOST, r1="KeyError: 'x'", r2=LOST),
            {},
            "rank 1 failed in ring of 4KiB: KeyError: 'x'",
        ),
        (
            complaints_of(r0=LATE, r2=LOST),
            {},
            f"rank 1 does not answer in ring of 4KiB: rank 0 says {LATE}",
        ),
        (
            complaints_of(r0=LATE),
            {},
            f"ranks 1, 2 do not answer in ring of 4KiB: rank 0 says {LATE}",
        ),
        (
            complaints_of(r0=LATE, r1=LATE, r2=LATE),
            {},
            f"all ranks wait for each other in ring of 4KiB: {LATE}",
        ),
        ({}, {}, "no rank answers at the start"),
    ],
)
def test_the_culprit_is_named_and_not_a_victim(
    complaints: dict[int, Complaint], ended: dict[int, int], line: str
) -> None:
    assert blame(3, complaints, ended, {}) == line


def test_a_rank_that_was_killed_is_where_it_was_last() -> None:
    assert blame(2, {}, {1: -9}, {1: "in tree of 1MiB"}).endswith("in tree of 1MiB")


def test_an_exception_becomes_one_line_without_the_path_of_a_library() -> None:
    error = RuntimeError("[/__w/gloo/tcp/pair.cc:78] Timed out\n  waiting")
    assert complaint(AT, error) == (AT, "RuntimeError: Timed out waiting")
    assert complaint(AT, KeyError()) == (AT, "KeyError")
    assert len(complaint(AT, ValueError("x" * 5000)).message) < 400
