import re

from IPython.core.formatters import DisplayFormatter

import simulator
from parsed_html import Parsed
from simulator.analysis.timeline_html import STRIP_RANKS, WIDTH, timeline_html
from simulator.collectives import find
from simulator.engines import simulate
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.shapes import star


def test_a_timeline_shows_its_time_and_what_it_waited_for() -> None:
    html = timeline_html(simulate(find("ring").build(4, 2.0**20), star(4, bandwidth=1e9)))
    rows = Parsed(html).rows
    assert rows[0] == ["time", "1.573ms"]
    assert rows[1] == ["critical path: serialisation", "1.573ms, 100%"]
    assert html.count("<text") == 4
    assert "of 4 ranks" not in html


def test_the_strip_shows_when_a_rank_computes_and_sends() -> None:
    builder = ScheduleBuilder(2, 1e9)
    first = builder.compute(0, 1.0)
    builder.signal(0, 1, nbytes=1e9, after=first)
    html = timeline_html(simulate(builder.build(), star(2, bandwidth=1e9)))
    boxes = [tuple(map(int, box)) for box in re.findall(r'x="(\d+)" y="\d+" width="(\d+)"', html)]
    assert (40, WIDTH // 2) in boxes
    assert boxes[-1][0] + boxes[-1][1] == 40 + WIDTH


def test_the_strip_has_few_ranks_and_boxes() -> None:
    timeline = simulate(find("ring").build(64, 2.0**20), star(64, bandwidth=1e9, latency=1e-6))
    html = timeline_html(timeline)
    assert html.count("<text") == STRIP_RANKS
    assert "16 of 64 ranks" in html
    assert len(html) < 100_000


def test_an_empty_timeline_has_no_strip() -> None:
    timeline = simulate(ScheduleBuilder(2, 1.0).build(), star(2, bandwidth=1e9))
    assert "svg" not in Parsed(timeline_html(timeline)).tags


class Shell:
    """The part of an IPython shell that shows values."""

    def __init__(self) -> None:
        self.display_formatter = DisplayFormatter()


def test_a_notebook_shows_a_timeline_as_html() -> None:
    timeline = simulate(find("ring").build(4, 2.0**20), star(4, bandwidth=1e9))
    shell = Shell()
    simulator.show_in_notebooks(shell)
    shown = shell.display_formatter.formatters["text/html"](timeline)
    assert shown == timeline_html(timeline)


def test_python_without_a_notebook_shows_nothing() -> None:
    simulator.show_in_notebooks(None)
