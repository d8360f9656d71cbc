"""Launchers of ranks, and the rank to blame."""

from experiments.measure.launcher import (
    Complaint,
    blame,
    complaint,
    find_place,
    first_host,
    meeting_point,
)
from grouped_cases import each_case
from refusals import refusal

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
        ("n[", "n"),
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
