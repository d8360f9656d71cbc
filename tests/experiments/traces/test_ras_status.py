"""The status of communicators from NCCL's RAS: who is missing or behind, and what is no status."""

import csv
from pathlib import Path
from typing import Any

from experiments.traces.ras_status import read_status
from grouped_cases import each_case
from monitor_files import answering, communicator, document, silent, written
from refusals import refusal
from simctl_process import Simctl, mistake


def problems(folder: Path, *communicators: Any, **more: Any) -> list[tuple[str, str]]:
    status = read_status([written(folder, document(*communicators, **more))])
    assert status is not None
    return [(each.kind, each.text.removeprefix("communicator 0x7f8c: ")) for each in status[1]]


def test_a_job_that_runs_is_normal(simctl: Simctl, tmp_path: Path) -> None:
    ranks = [answering(rank, async_error=7 * (rank == 1)) for rank in range(4)]
    done = simctl("diagnose", "--job", written(tmp_path, document(communicator(ranks, []))))
    assert (done.returncode, done.stderr) == (0, "")
    assert "all ranks answer, without an error, and made the same calls" in done.stdout
    assert "running  AllReduce 1205" in done.stdout


def test_ranks_that_are_missing_behind_or_wrong_are_named(tmp_path: Path) -> None:
    ranks = [answering(0), answering(1, 1204), answering(2, async_error=6), answering(4)]
    missing = [silent(3, dead=True), silent(5), silent(6, unresponsive=False), silent(7)]
    assert problems(tmp_path, communicator(ranks, missing)) == [
        ("missing", "rank 3: dead"),
        ("missing", "ranks 5, 7: no answer"),
        ("missing", "rank 6: an answer without this communicator"),
        ("error", "rank 2: an error of a remote process"),
        (
            "mismatch",
            "rank 1 made 1204 calls of AllReduce, and 3 ranks made 1205: ask again, ranks of a "
            "sound job may differ by one",
        ),
    ]


def test_states_that_differ_are_named(tmp_path: Path) -> None:
    ranks = [
        answering(0),
        answering(1, init_state=7),
        answering(2, finalize_called=True),
        answering(3, abort_flag=True, init_state=99),
    ]
    assert problems(tmp_path, communicator(ranks, [])) == [
        ("error", "rank 3: the unknown result 99"),
        ("error", "rank 3: an abort"),
        (
            "mismatch",
            "states differ, running: rank 0; starting: rank 1; ending: rank 2; aborted: rank 3",
        ),
    ]


def test_at_most_ten_problems_of_a_kind_are_listed(tmp_path: Path) -> None:
    ranks = [answering(rank, rank) for rank in range(40)]
    listed = problems(tmp_path, communicator(ranks, []))
    assert (len(listed), listed[-1]) == (11, ("mismatch", "29 more"))


def test_answers_that_came_too_late_are_counted(tmp_path: Path) -> None:
    late = {"collection_time_sec": 5.0, "timeouts_count": 2}
    listed = problems(tmp_path, communicator([answering(0)], []), ras=late)
    assert listed == [("missing", "2 answers did not come in time")]


def test_csv_has_a_row_a_communicator_and_problem(simctl: Simctl, tmp_path: Path) -> None:
    file = written(tmp_path, document(communicator([answering(0)], [silent(1)])))
    done = simctl("diagnose", "--job", file, "--format", "csv")
    rows = [*csv.DictReader(done.stdout.splitlines())]
    assert [(row["row"], row["ranks"], row["answered"]) for row in rows] == [
        ("communicator", "2", "1"),
        ("problem", "", ""),
    ]
    report = simctl("diagnose", "--job", file, "--report", tmp_path / "page.html")
    assert report.returncode == 1
    assert "Does this job hang" in (tmp_path / "page.html").read_text()


@each_case(
    ("change", "words"),
    [
        ({"communicators": 3}, "communicators: 3 is not a list"),
        ({"communicators": [3]}, "communicators[0]: 3 is not a mapping"),
        ({"communicators_count": 2}, "has 1 communicator: expected the communicators_count 2"),
        ({"communicators_count": None}, "communicators_count: none is not a whole number"),
        ({"ras": {"timeouts_count": -1}}, "ras.timeouts_count: -1: input should be greater"),
        ({"ras": None}, "ras: none is not a mapping"),
    ],
)
def test_wrong_documents_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    content = document(communicator([answering(0)], []), **change)
    assert words in refusal(read_status, [written(tmp_path, content)])


@each_case(
    ("change", "words"),
    [
        ({"size": True}, "size: true is not a whole number"),
        ({"size": 3}, "has 2 ranks: expected each from 0 to 2 once"),
        ({"size": 10**12, "ranks": [], "missing_ranks": []}, "has 0 ranks: expected each"),
        ({"size": 10**12}, "has 2 ranks: expected each from 0 to 999999999999 once"),
        ({"ranks": [answering(1)]}, "expected each from 0 to 1 once"),
        ({"hash": 7}, "hash: 7 is not text"),
        ({"hash": "\x1b[1m"}, "hash: '\\x1b[1m': string should match"),
        ({"ranks": None}, "ranks: none is not a list"),
        ({"ranks": [answering(0, -4)]}, "AllReduce: -4: input should be greater"),
        ({"ranks": [answering(0, 2**64)]}, "AllReduce: 18446744073709551616: input should be less"),
        ({"ranks": [answering(0, async_error="x")]}, "async_error: 'x' is not a whole number"),
        ({"ranks": [answering(0, abort_flag=0)]}, "abort_flag: 0 is not true or false"),
        ({"ranks": [answering(0) | {"status": 3}]}, "status: 3 is not a mapping"),
        ({"ranks": [answering(0) | {"collective_counts": []}]}, "collective_counts: a list is not"),
        (
            {"ranks": [answering(0) | {"collective_counts": {}}, answering(2)], "size": 3},
            "collective_counts with other names",
        ),
        ({"missing_ranks": [{"rank": 1}]}, "missing_ranks[0].status: is missing"),
        ({"missing_ranks": [{"rank": 1.5}]}, "missing_ranks[0].rank: 1.5 is not a whole number"),
    ],
)
def test_wrong_communicators_are_refused(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    content = document({**communicator([answering(0)], [silent(1)]), **change})
    text = refusal(read_status, [written(tmp_path, content)])
    assert text.startswith("ras.json: communicator")
    assert words in text


@each_case(
    ("text", "words"),
    [
        ('{"communicators":' * 10**5, "is nested too deep"),
        ('{"communicators": [], "communicators": []}', "the key 'communicators' is there twice"),
        ('{"communicators": [' + "9" * 5000, "is larger than any number"),
        ('{"communicators": [NaN]}', "NaN"),
        ('{"communicators": [', "ras.json line 1: "),
        ('{"communicators": "\udcff"}', "not UTF-8"),
    ],
)
def test_json_that_is_none_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "ras.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    assert words in refusal(read_status, [file])


def test_a_status_among_other_files_is_refused(simctl: Simctl, tmp_path: Path) -> None:
    file = written(tmp_path, document(communicator([answering(0)], [])))
    assert "ras.json is a status of NCCL's RAS: give it alone" in mistake(
        simctl("diagnose", "--job", file, file)
    )
