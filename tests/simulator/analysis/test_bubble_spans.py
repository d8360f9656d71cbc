"""Bubbles as columns: they add up to the bubbles by cause, and name what is awaited."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_machines import IRREGULAR_MACHINE, random_machine
from random_schedules import IRREGULAR_SCHEDULE, random_schedule
from simulator.analysis.bubbles import (
    BUBBLE_CAUSES,
    CAUSES,
    CONTENTION,
    DRAIN,
    BubbleSpans,
    bubble_spans,
    bubbles,
)
from simulator.analysis.contention import queue_spans, waited
from simulator.engines import simulate
from simulator.schedules.schedule import COMPUTE
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from topologies import shapes

MOSTLY_COMPUTING = IRREGULAR_SCHEDULE._replace(
    kinds=("copy", "reduce", "signal", "compute", "compute", "compute"),
    after=(0, 1, 1, 2),
    lanes=(0, 0, 1),
    on_slots=True,
)
cases = st.tuples(st.builds(Random, st.integers(0, 2**32)), st.integers(2, 5))


@pytest.mark.parametrize(
    "rules", [{}, {"sharing": "fair"}, {"store_and_forward": True}], ids="".join
)
@given(case=cases, lane=st.integers(0, 1), share=st.sampled_from([0.3, 1.0, np.inf]))
def test_the_rows_add_up_to_the_bubbles_by_cause(
    rules: dict[str, Any], case: tuple[Random, int], lane: int, share: float
) -> None:
    random, ranks = case
    schedule = random_schedule(random, ranks, MOSTLY_COMPUTING)
    machine = random_machine(random, ranks, IRREGULAR_MACHINE)
    timeline = simulate(schedule, machine, "reference", **rules)
    end = share * (timeline.makespan or 1.0)
    spans = bubble_spans(timeline, lane, end)
    added = np.zeros((ranks, len(CAUSES)))
    np.add.at(added, (spans.rank, spans.cause), spans.end - spans.start)
    assert added == pytest.approx(bubbles(timeline, lane, end).seconds, abs=1e-9)
    check_rows(spans, timeline, lane)


def check_rows(spans: BubbleSpans, timeline: Timeline, lane: int) -> None:
    """Rows do not overlap with each other or with computations, and know what they wait for."""
    schedule, slack = timeline.schedule, 1e-9
    for rank in range(schedule.ranks):
        mine = (schedule.kind == COMPUTE) & (schedule.lane == lane) & (schedule.rank == rank)
        idle = spans.take(spans.rank == rank)
        start = np.concatenate((idle.start, timeline.start[mine]))
        order = np.lexsort((np.concatenate((idle.end, timeline.finish[mine])), start))
        end = np.maximum.accumulate(np.concatenate((idle.end, timeline.finish[mine]))[order])
        is_row = order < len(idle.rank)
        before, after = is_row[:-1], is_row[1:]
        assert (start[order][1:] >= end[:-1] - slack)[before | after].all()
    draining = spans.cause == DRAIN
    assert (spans.awaited[draining] == -1).all()
    assert (spans.operation[draining] == -1).all()
    waiting = spans.take(~draining)
    assert (timeline.finish[waiting.awaited] >= waiting.end - slack).all()
    assert (timeline.ready[waiting.operation] <= waiting.end + slack).all()
    assert (spans.medium[spans.cause != CONTENTION] == -1).all()


def test_a_queue_names_its_port_and_the_message_that_waits() -> None:
    """Two messages of 2 s to rank 2 meet at its port; the second waits 2 s behind the first."""
    meeting = ScheduleBuilder(3, 4.0, slots=2)
    meeting.compute([0, 1, 2], 1.0, writes=np.array([0, 1, 0]))
    meeting.copy(np.array([0, 1]), 2, slot=np.array([0, 1]))
    meeting.compute(2, 1.0, reads=0, count=2)
    timeline = simulate(meeting.build(), shapes.star(3, bandwidth=1.0))
    spans = bubble_spans(timeline)
    idle = spans.take(spans.rank == 2)
    assert [BUBBLE_CAUSES[cause] for cause in idle.cause] == ["contention", "transfer"]
    assert (idle.start.tolist(), idle.end.tolist()) == ([1.0, 3.0], [3.0, 5.0])
    late = int(np.argmax(timeline.finish[3:5])) + 3
    assert idle.awaited.tolist() == idle.operation.tolist() == [late, late]
    names = timeline.routed.topology.medium_names
    assert names[idle.medium[0]].endswith("->gpu2")
    assert idle.medium[1] == -1


def test_nothing_computes_so_nothing_is_a_bubble() -> None:
    silent = ScheduleBuilder(2, 1.0)
    silent.copy(0, 1, slot=0)
    spans = bubble_spans(simulate(silent.build(), shapes.star(2, bandwidth=1.0)))
    assert not len(spans.rank)


def test_queues_are_the_waits_behind_other_ranks() -> None:
    """Rank 0 sends two messages, rank 1 one, all of 1 s to rank 2. The first two start together."""
    crowded = ScheduleBuilder(3, 3.0, slots=3)
    crowded.copy(np.array([0, 0, 1]), 2, slot=np.array([0, 1, 2]))
    timeline = simulate(crowded.build(), shapes.star(3, bandwidth=1.0))
    queues = queue_spans(timeline)
    names = timeline.routed.topology.medium_names
    assert {names[medium] for medium in queues.medium} == {"switch->gpu2"}
    waits, total = waited(timeline)
    assert total.sum() == pytest.approx((queues.end - queues.start).sum())
    assert (queues.end - queues.start <= waits[queues.operation] + 1e-12).all()
    assert not len(
        queue_spans(simulate(crowded.build(), shapes.star(3, bandwidth=1.0), sharing="fair")).medium
    )
