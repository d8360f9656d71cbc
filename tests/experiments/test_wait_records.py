"""Waits behind other ranks, in words and as records."""

from experiments.wait_records import SHOWN, wait_cells, wait_records
from grouped_cases import each_case
from simulator.analysis.critical_path import QueueWait
from simulator.collectives.recursive_doubling import recursive_doubling_all_reduce
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import bits

SCHEDULE = ScheduleBuilder(9, 1.0, servers=1).build()


@each_case(
    ("behind", "words"),
    [
        ((3,), "rank 0 waits behind rank 3"),
        ((3, 1), "rank 0 waits behind ranks 3, 1"),
        ((9,), "rank 0 waits behind server"),
        ((3, 9), "rank 0 waits behind rank 3, server"),
        ((1, 2, 3, 4, 5, 6, 7, 8), "rank 0 waits behind ranks 1, 2, 3, 4, 5, 6, 2 more"),
    ],
)
def test_a_wait_says_who_waits_behind_whom(behind: tuple[int, ...], words: str) -> None:
    assert wait_cells([QueueWait("a->b", 0, behind, 2e-3)], SCHEDULE, steps=2) == [
        ["  a->b", "1ms", words]
    ]


def test_the_longest_waits_are_shown_and_the_rest_is_added_up() -> None:
    waits = [QueueWait(f"link {k}", k % 9, ((k + 1) % 9,), 1.0) for k in range(SHOWN + 3)]
    lines = wait_cells(waits, SCHEDULE)
    assert len(lines) == SHOWN + 1
    assert lines[-1] == ["  3 more", "3s", ""]
    assert len(wait_records(waits, SCHEDULE)) == SHOWN + 3


def test_where_a_rank_stands_for_many_so_does_its_link() -> None:
    schedule = recursive_doubling_all_reduce(8, 8.0, bits(8))
    assert wait_cells([QueueWait("a->b", 0, (1,), 1.0)], schedule) == [
        ["  a->b and all like it", "1s", "rank 0 waits behind rank 1"]
    ]


def test_records_have_all_ranks() -> None:
    assert wait_records([QueueWait("a->b", 9, (0, 4), 0.5)], SCHEDULE) == [
        {"where": "a->b", "waits": "server", "behind": ["rank 0", "rank 4"], "seconds": 0.5}
    ]
