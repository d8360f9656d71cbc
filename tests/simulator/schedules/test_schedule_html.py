from dataclasses import replace

from parsed_html import Parsed
from simulator.collectives import find
from simulator.collectives.symmetry import fold
from small_schedules import equal_messages
from topologies.shapes import star


def test_a_schedule_shows_its_bytes_and_first_transfers() -> None:
    rows = Parsed(find("ring").build(4, 2.0**20)._repr_html_()).rows
    assert ["V", "1MiB"] in rows
    assert ["steps", "6"] in rows
    assert ["transfers", "24"] in rows
    assert ["bytes sent by all ranks", "6MiB"] in rows
    assert ["0", "0", "1", "256KiB", "adds", "reduce-scatter"] in rows
    assert len(rows) == 6 + 1 + 8


def test_a_short_schedule_shows_all_its_transfers() -> None:
    assert "more" not in equal_messages(2, 8.0)._repr_html_()


def test_a_folded_schedule_counts_all_transfers() -> None:
    folded = fold(find("ring"), star(8, bandwidth=1e9), 8)
    assert folded is not None
    html = folded.routed.schedule._repr_html_()
    assert ["transfers", "112"] in Parsed(html).rows
    assert "8 transfers" in html


def test_the_names_of_phases_are_escaped() -> None:
    schedule = replace(equal_messages(1, 8.0), phases=("<script>",))
    assert "script" not in Parsed(schedule._repr_html_()).tags
