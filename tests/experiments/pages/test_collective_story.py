"""The story of a collective: who waits on its critical path, and what of it is simulated."""

import json
import re

from experiments.answer_blocks import Table, to_text
from experiments.names import wait_records
from experiments.pages.reports.collective_story import SHOWN, contention
from experiments.pages.reports.result import Result
from grouped_cases import each_case
from simctl_process import Simctl
from simulator.analysis.critical_path import QueueWait
from simulator.schedules.schedule_builder import ScheduleBuilder

SCHEDULE = ScheduleBuilder(9, 1.0, servers=1).build()


@each_case(
    ("behind", "words"),
    [
        ((3,), "rank 3"),
        ((3, 1), "ranks 3, 1"),
        ((9,), "server"),
        ((3, 9), "rank 3, server"),
        ((1, 2, 3, 4, 5, 6, 7, 8), "ranks 1, 2, 3, 4, 5, 6, 2 more"),
    ],
)
def test_a_wait_says_who_waits_behind_whom(behind: tuple[int, ...], words: str) -> None:
    [shown] = contention(wait_records([QueueWait("a->b", 0, behind, 2e-3)], SCHEDULE), steps=2)
    assert isinstance(shown, Table)
    assert [[cell.text for cell in row] for row in shown.rows] == [["a->b", "rank 0", words, "1ms"]]


def test_the_longest_waits_are_shown_and_the_rest_is_added_up() -> None:
    waits = [QueueWait(f"link {k}", k % 9, ((k + 1) % 9,), 1.0) for k in range(SHOWN + 3)]
    [shown] = contention(wait_records(waits, SCHEDULE))
    title, heading, *lines = to_text("", [shown]).split("\n\n")[0].split("\n")
    assert title.startswith("Contention")
    assert heading.split()[0] == "link"
    assert len(lines) == SHOWN + 1
    assert lines[-1].split("  ")[1] == "3 more: --format json has all"
    assert lines[-1].split()[-1] == "3s"
    assert isinstance(shown, Table)
    assert len(shown.rows) == SHOWN + 3


def test_where_a_rank_stands_for_many_so_does_its_link(simctl: Simctl) -> None:
    waits = wait_records([QueueWait("a->b", 0, (1,), 1.0)], SCHEDULE)
    [shown] = contention(waits, folded=True)
    assert isinstance(shown, Table)
    assert shown.rows[0][0].text == "a->b and all like it"
    line = ("run", "recursive_doubling", "--p", "8", "--topology", "ring", "--format", "json")
    report = json.loads(simctl(*line).stdout)
    for simulated, said in ((2, True), (8, False)):
        text = Result("run", report | {"ranks_simulated": simulated}).text()
        assert "Contention" in text
        assert (" and all like it" in text) == said
        assert bool(re.search("simulated +2 of 8 ranks +all others do the same", text)) == said


def test_words_of_figures_are_explained(simctl: Simctl) -> None:
    line = ("run", "--p", "16", "--topology", "hgx_h100:nodes=2")
    terms = [row.split("  ")[1] for row in simctl(*line).stdout.split("\n\n")[-1].splitlines()]
    assert terms[:2] == ["redundant", "not claimed"]
    assert "  not claimed  " not in simctl("run", "--p", "4").stdout
