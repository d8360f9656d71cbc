"""`simctl measure` with ranks that only pretend: what it keeps, resumes, prints and refuses."""

import json
import re
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

import pretended_ranks
from experiments.commands import measure
from experiments.commands.measure import Measure
from experiments.measure import launcher
from experiments.measure import local_ranks as launching
from experiments.measure.result_rows import read_rows
from experiments.measurements import read
from experiments.options.options import Format
from grouped_cases import each_case
from refusals import refusal
from topologies.errors import InputError


@pytest.fixture(autouse=True)
def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    pretended_ranks.pretend(monkeypatch)


def run(options: Measure, out: Path | None, resume: bool, how: str) -> int:
    return replace(options, out=out, resume=resume, format=cast(Format, how)).run()


def measured(out: Path) -> list[tuple[str, int, int]]:
    return [(row.algorithm or row.collective, row.ranks, row.size_bytes) for row in read_rows(out)]


@pytest.mark.exhaustive
def test_what_is_there_is_not_measured_again(tmp_path: Path) -> None:
    out = tmp_path / "runs.csv"
    request = Measure(p="2", collective="ring", size="4KiB")
    assert run(request, out, resume=True, how="table") == 0
    first = read_rows(out)
    more = Measure(p="2,3", collective="ring,broadcast", size="4KiB,8KiB")
    assert run(more, out, resume=True, how="table") == 0
    twos = [("ring", 2, 4096), ("ring", 2, 8192), ("broadcast", 2, 4096), ("broadcast", 2, 8192)]
    threes = [("ring", 3, 4092), ("ring", 3, 8184), ("broadcast", 3, 4096), ("broadcast", 3, 8192)]
    assert measured(out) == twos + threes
    assert read_rows(out)[:1] == first
    meta = json.loads((tmp_path / "runs.csv.meta.json").read_text())
    assert (meta["parameters"]["ranks"], meta["before"]["parameters"]["ranks"]) == ("2,3", "2")
    with pytest.raises(InputError, match="exists: continue it with --resume"):
        run(request, out, resume=False, how="table")
    out.unlink()
    assert run(request, out, resume=False, how="table") == 0
    assert measured(out) == [("ring", 2, 4096)]


def test_a_table_of_measurements_explains_its_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = Measure(p="2", collective="ring", size="4KiB")
    for how, lines in (("table", 5), ("csv", 2)):
        assert run(request, tmp_path / f"{how}.csv", resume=False, how=how) == 0
        printed = capsys.readouterr().out
        assert len(printed.splitlines()) == lines
        assert ("  busbw  V / time" in printed) is (how == "table")


def test_wrong_results_are_counted_and_end_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(
            Measure(p="2", collective="tree,ring", size="4KiB"),
            tmp_path / "runs.csv",
            False,
            "json",
        )
        == 1
    )
    captured = capsys.readouterr()
    assert [row["wrong"] for row in json.loads(captured.out)] == [5, 0]
    assert "simctl: 1 of 2 points has a wrong result" in captured.err


def test_a_failure_keeps_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.csv"
    assert (
        run(
            Measure(p="2", collective="ring,naive,shift", size="4KiB"),
            out,
            False,
            "table",
        )
        == 1
    )
    assert measured(out) == [("ring", 2, 4096)]
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1].startswith(
        "simctl: rank 0 failed in naive of 4KiB: ValueError: no; "
    )
    assert captured.out.splitlines()[1].split()[:4] == ["all_reduce", "ring", "2", "4KiB"]


@each_case(
    ("request_", "reason"),
    [
        (Measure(), "how many ranks: --p 4"),
        (Measure(p="0"), "1 to 1024"),
        (Measure(p="9999"), "1 to 1024"),
        (Measure(p="two"), "not a whole number"),
        (Measure(library="nccl", p="2", device="cpu"), "nccl on cpu"),
        (Measure(p="200", dtype="bfloat16", size="4KiB"), "bfloat16 counts to 256"),
        (Measure(p="2", size="64M"), "no unit"),
        (Measure(p="2", size="1EB"), "more than fits"),
        (Measure(p="2", collective="nvls"), "a switch that reduces"),
        (Measure(p="2", effort="budget=0s"), "budget: 100ms to 86400s"),
        (Measure(p="2", effort="timeout=2"), "no unit"),
        (Measure(p="2", effort="timeout=200Ms"), "--effort timeout=200Ms: timeout: 100ms"),
        (Measure(p="2", effort="repetitions=0"), "1 or more repetitions"),
        (Measure(p="2", effort="warmup=0"), "and for warmup"),
        (Measure(p="2", init="here"), "init 'here'"),
        (Measure(p="2", init="tcp://:1"), "init 'tcp://:1'"),
        (
            Measure(p="2", init="tcp://host:99999"),
            "init 'tcp://host:99999': expected a port from 1 to 65535",
        ),
        (Measure(p="2", init="tcp://host:0"), "expected a port from 1 to 65535"),
        (
            Measure(p="2", init="file:///simctl-no-such-folder/x"),
            "cannot write '/simctl-no-such-folder/x'",
        ),
        (Measure(p="2", init="file:///proc/x"), "cannot write '/proc/x'"),
        (
            Measure(p="2", init="env://"),
            "init 'env://': MASTER_ADDR and MASTER_PORT are not set",
        ),
        (Measure(p="2,3", init="file:///tmp/simctl-not-there"), "one number of ranks"),
        (Measure(p="2", init=f"file://{__file__}"), "not there yet"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(request_: Measure, reason: str) -> None:
    message = refusal(run, request_, None, False, "table")
    assert re.search(reason, message)


def test_files_are_tried_before_any_work(tmp_path: Path) -> None:
    request = Measure(p="2", size="4KiB")
    assert "--out" in refusal(run, request, None, resume=True, how="table")
    assert "cannot write" in refusal(run, request, tmp_path, resume=False, how="table")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="its columns are not those"):
        run(request, tmp_path / "other.csv", resume=True, how="table")


def test_how_a_table_was_made_is_kept_beside_it_and_never_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, meta = tmp_path / "runs.csv", tmp_path / "runs.csv.meta.json"
    assert run(Measure(p="2", collective="naive", size="4KiB"), out, False, "table") == 1
    assert list(tmp_path.iterdir()) == []
    request = Measure(p="2", collective="ring", size="4KiB")
    assert run(request, out, False, "table") == 0
    out.unlink()
    assert run(request, out, resume=True, how="table") == 0
    assert "before" not in json.loads(meta.read_text())
    before = meta.read_text()
    assert run(request, out, resume=True, how="table") == 0
    assert meta.read_text() == before
    meta.unlink()
    capsys.readouterr()
    assert (
        run(
            Measure(p="2", collective="ring", size="8KiB"),
            out,
            resume=True,
            how="table",
        )
        == 0
    )
    assert (
        f"note: {meta} is not there: how the 1 row of {out} came about is not known"
        in capsys.readouterr().err
    )
    assert meta.is_file()


def test_rows_of_another_dtype_are_measured_apart_and_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.csv"
    for dtype in ("float32", "float64", "float32"):
        request = Measure(p="2", collective="ring", size="4KiB,8KiB", dtype=dtype)
        assert run(request, out, resume=True, how="table") == 0
    assert [row.dtype for row in read_rows(out)] == ["float32", "float32", "float64", "float64"]
    first, _, last = capsys.readouterr().out.split("collective  ")[1:]
    assert "dtype" not in first
    assert [line.split()[-1] for line in last.partition("\n\n")[0].splitlines()] == [
        "dtype",
        *["float32"] * 2,
        *["float64"] * 2,
    ]
    assert [(curve.dtype, len(curve.in_place)) for curve in read(out).curves] == [
        ("float32", 2),
        ("float64", 2),
    ]


def test_ranks_that_cannot_begin_say_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refuses = "import sys; from multiprocessing.connection import Connection\n"
    refuses += (
        "Connection(int(sys.argv[1])).send({'refused': '2 ranks did not meet'}); sys.stdin.read()"
    )
    monkeypatch.setattr(launching, "WORKER", refuses)
    with pytest.raises(InputError, match=r"^2 ranks did not meet$"):
        run(Measure(p="2", size="4KiB"), tmp_path / "runs.csv", False, "table")
    assert list(tmp_path.iterdir()) == []


def test_without_torch_there_is_a_line_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "find_spec", lambda name: None)
    assert "pip install '.[torch]'" in refusal(run, Measure(p="2"), None, False, "table")


def test_a_rank_that_leaves_the_message_to_the_first_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The launcher's signal is there already: nothing waits for the time to pass, and the signal
    ends no test.

    It is sent to this thread: one for the process would go to a thread of a library, which does not
    hold it back.
    """
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(launcher, "GRACE_SECONDS", 600.0)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    assert run(Measure(size="64M"), None, False, "table") == 2
    assert signal.sigpending() == set()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_of_ranks_that_were_started_together_only_the_first_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(launcher, "GRACE_SECONDS", 0.0)
    with pytest.raises(InputError, match="at which ranks meet"):
        run(Measure(size="4KiB"), tmp_path / "runs.csv", True, "table")
    assert run(Measure(size="64M"), None, False, "table") == 2
    assert "leave it out" in refusal(run, Measure(p="2"), None, False, "table")
    monkeypatch.setenv("RANK", "0")
    assert "no unit" in refusal(run, Measure(size="64M"), None, False, "table")
