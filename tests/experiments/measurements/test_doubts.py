"""Times that nothing can measure are named; those of real machines are not."""

from pathlib import Path

import pytest

from experiments.measurements import Curve, Point, doubts, read_all

SHARED = Path(__file__).parents[4] / "shared" / "measured"


def doubts_about(
    *points: Point, collective: str = "all_reduce", ranks: int | None = 4
) -> list[str]:
    return list(doubts([Curve(collective, ranks, None, points, (), "folder/runs.csv")]))


def test_a_time_of_almost_nothing_is_named_with_its_file_and_row() -> None:
    (line,) = doubts_about(Point(4, 5e-9), Point(8, 1e-5))
    asked = "which is impossible: is its time in microseconds?"
    assert line == f"runs.csv, row of 4B: it takes 5ns, {asked}"


def test_a_bandwidth_beyond_all_memory_is_named() -> None:
    (line,) = doubts_about(Point(8, 1e-5), Point(2**30, 5e-5), Point(2**31, 1e-4))
    assert line.startswith("runs.csv, row of 1GiB: it moves 21.47TB/s, ")
    assert line.endswith("(and 1 more)")


def test_what_many_pairs_move_together_is_more() -> None:
    assert doubts_about(Point(2**30, 5e-5), collective="send_recv", ranks=64) == []
    assert doubts_about(Point(2**30, 5e-5), collective="send_recv", ranks=None) != []


@pytest.mark.parametrize(("ranks", "count"), [(1, 0), (2, 1)])
def test_one_rank_does_nothing_in_place(ranks: int, count: int) -> None:
    curve = Curve("all_reduce", ranks, 1, (Point(2**30, 1.0),), (Point(2**30, 2e-7),), "runs.csv")
    assert len(list(doubts([curve]))) == count


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared measurements are not here")
def test_no_real_machine_is_doubted() -> None:
    assert list(doubts(read_all([SHARED]).curves)) == []
