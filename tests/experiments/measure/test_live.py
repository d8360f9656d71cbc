"""Real torch.distributed on this machine: results, a rank that hangs, and ranks that something else
has started."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

if "torch" not in os.environ.get("SIMCTL_REQUIRE", "").split(","):
    pytest.importorskip("torch", reason="torch is not installed")

from experiments.commands.measure import Measure
from experiments.measure import local_ranks as launching
from experiments.measure.launcher import RankPlace
from experiments.measure.patterns import PROMISES
from experiments.measure.points import MeasurementPlan
from experiments.measure.result_rows import read_rows
from refusals import refusal

QUICK = Measure(p="2", effort="repetitions=3,warmup=1,budget=100ms")


def test_what_is_measured_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names, out = [*PROMISES, "ring"], tmp_path / "runs.csv"
    options = replace(QUICK, collective=",".join(names), size="8B,100KiB")
    assert replace(options, out=out).run() == 0
    rows = read_rows(out)
    assert len(rows) == 2 * len(names) - 1
    assert {row.wrong for row in rows} == {0}
    assert {(row.ranks, row.nodes, row.backend, row.device) for row in rows} == {
        (2, 1, "gloo", "cpu")
    }
    assert all(0 < row.min_us <= row.time_us <= row.p90_us for row in rows)
    assert len(capsys.readouterr().out.partition("\n\n")[0].splitlines()) == len(rows) + 1


def test_ranks_that_do_not_meet_wait_no_longer_than_they_were_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from experiments.measure.ranks import begin

    monkeypatch.setattr("experiments.measure.points.MEETING_SECONDS", 0.1)
    plan = MeasurementPlan("gloo", "cpu", "float32", 2, f"file://{tmp_path}/store", (), timeout=0.1)
    assert refusal(begin, plan, RankPlace(0, 2, 0)).startswith(
        f"2 ranks did not meet at file://{tmp_path}/store in 0.1s: "
    )


HANGS = """
import os, signal
from experiments.measure import cases, transport, worker
cases.transport_for = lambda backend, device: transport.by_tag(transport.staged)
prepare = cases.LIBRARY["broadcast"]
def stopped(own, site):
    if site.rank == 1: os.kill(os.getpid(), signal.SIGSTOP)
    return prepare(own, site)
cases.LIBRARY["broadcast"] = stopped
worker.main()
"""


@pytest.mark.exhaustive
def test_a_rank_that_hangs_is_named_and_what_was_measured_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launching, "WORKER", HANGS)
    out = tmp_path / "runs.csv"
    options = replace(
        QUICK,
        collective="tree,broadcast,reduce",
        size="4KiB",
        effort="repetitions=3,warmup=1,budget=100ms,timeout=800ms",
    )
    assert replace(options, out=out).run() == 1
    assert [(row.algorithm, row.wrong) for row in read_rows(out)] == [("tree", 0)]
    messages = capsys.readouterr().err
    assert (
        "rank 1 does not answer in broadcast of 4KiB: rank 0 says RuntimeError: Timed out"
        in messages
    )
    assert messages.rstrip().endswith(f"1 point is kept in {out}")


RANK = """
from experiments.commands.measure import Measure
from experiments.measure import cases, transport
import sys
from dataclasses import replace
from pathlib import Path
cases.transport_for = lambda backend, device: transport.in_order()
def prepare(own, site):
    if site.rank == 1: raise KeyError("a tensor")
    return cases.LIBRARY["broadcast"](own, site)
cases.LIBRARY["gather"] = prepare
out, init = sys.argv[1:]
options = Measure(
    collective="naive_serial,gather", size="4KiB", init=init, effort="repetitions=3", out=Path(out),
    format="csv"
)
options.run()
"""


@pytest.mark.exhaustive
def test_ranks_that_were_started_by_something_else_agree(tmp_path: Path) -> None:
    """As torchrun does it, with messages in order, as NCCL has them; in the end one of them
    fails."""
    out, init = tmp_path / "runs.csv", f"file://{tmp_path}/store"
    script = f"import sys; sys.path[:] = {sys.path!r}\n{RANK}"
    places = [
        os.environ | {"RANK": str(rank), "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
        for rank in range(2)
    ]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(out), init],
            env=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for place in places
    ]
    (table, note), (output, error) = [rank.communicate(timeout=60) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [1, 1]
    rows = read_rows(out)
    assert [(row.algorithm, row.wrong) for row in rows] == [("naive_serial", 0)]
    assert table.decode() == out.read_text()
    assert error == b"simctl: rank 1 failed in gather of 4KiB: KeyError: 'a tensor'\n"
    assert (output, note.decode()) == (b"", f"simctl: 1 point is kept in {out}\n")
