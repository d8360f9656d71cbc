"""Of ranks that fail together one is to blame."""

from experiments.measure.blame import Complaint, blame, complaint
from grouped_cases import each_case

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
