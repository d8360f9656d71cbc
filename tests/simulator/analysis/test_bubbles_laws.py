"""Laws of bubbles, by cause and as columns, and the kernel against a plain walk."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.analysis.bubbles import (
    BUBBLE_CAUSES,
    CAUSES,
    CONTENTION,
    DRAIN,
    SLOWER_PEER,
    TRANSFER,
    BubbleSpans,
    bubble_spans,
    bubbles,
)
from simulator.analysis.contention import contended_share, queue_spans, waited
from simulator.engines import simulate
from simulator.schedules.schedule import COMPUTE, Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from small_machines import IRREGULAR_MACHINE, random_machine
from small_schedules import IRREGULAR_SCHEDULE, random_schedule
from topologies import shapes
from topologies.jit import compiled
from topologies.topology import Floats, Topology
from transfers import arrival as arrival_of
from transfers import head, slower_by, slowest_hop

MOSTLY_COMPUTING = IRREGULAR_SCHEDULE._replace(
    kinds=("copy", "reduce", "signal", "compute", "compute", "compute"),
    after=(0, 1, 1, 2),
    lanes=(0, 0, 1),
    on_slots=True,
)
cases = st.tuples(st.builds(Random, st.integers(0, 2**32)), st.integers(2, 5))


def drawn(random: Random, ranks: int) -> tuple[Schedule, Topology]:
    return random_schedule(random, ranks, MOSTLY_COMPUTING), random_machine(
        random, ranks, IRREGULAR_MACHINE
    )


def main_lane(timeline: Timeline, rank: int, lane: int = 0) -> list[tuple[float, float]]:
    schedule = timeline.schedule
    mine = np.flatnonzero(
        (schedule.kind == COMPUTE) & (schedule.lane == lane) & (schedule.rank == rank)
    )
    return sorted((float(timeline.start[i]), float(timeline.finish[i])) for i in mine)


def taking_part(timeline: Timeline, rank: int) -> npt.NDArray[np.intp]:
    """The operations that a rank runs, sends or receives."""
    return np.flatnonzero((timeline.schedule.rank == rank) | (timeline.schedule.peer == rank))


@given(cases, st.integers(0, 1), st.floats(0, 1.5))
def test_up_to_an_end_the_causes_add_up_to_the_idle_time_before_it(
    case: tuple[Random, int], lane: int, share: float
) -> None:
    random, ranks = case
    timeline = simulate(*drawn(random, ranks), "reference")
    end = share * timeline.makespan
    shares = bubbles(timeline, lane, end)
    for rank in range(ranks):
        busy = main_lane(timeline, rank, lane)
        before = sum(max(0.0, min(until, end) - min(start, end)) for start, until in busy)
        assert shares.sum(axis=1)[rank] == pytest.approx(
            min(end, timeline.makespan) - before if busy else 0.0, abs=1e-9
        )
        done = timeline.finish[taking_part(timeline, rank)].max(initial=0.0)
        drain = max(0.0, min(end, timeline.makespan) - done) if busy else 0.0
        assert shares[rank, DRAIN] == pytest.approx(drain, abs=1e-9)
    assert (shares >= 0).all()


@given(cases)
def test_on_a_machine_without_limits_there_are_only_slower_peers_and_the_drain(
    case: tuple[Random, int],
) -> None:
    random, ranks = case
    schedule = random_schedule(random, ranks, MOSTLY_COMPUTING)
    timeline = simulate(schedule, shapes.star(ranks, bandwidth=float("inf")), "reference")
    assert not bubbles(timeline)[:, :2].any()


@given(cases)
def test_where_nothing_queued_nothing_is_called_contention(case: tuple[Random, int]) -> None:
    random, ranks = case
    original = random_schedule(random, ranks, MOSTLY_COMPUTING)
    schedule = replace(
        original,
        nbytes=np.zeros(len(original)),
        seconds=original.seconds / (1 + np.arange(len(original))),
    )
    timeline = simulate(schedule, random_machine(random, ranks, IRREGULAR_MACHINE), "reference")
    if (timeline.node_cause < 0).all():
        assert not bubbles(timeline)[:, 1].any()


# The kernel beside the walk as it reads on a Timeline: the same floating-point operations, so the
# same bits.


class Piece(NamedTuple):
    """A cause and its interval; of a queue the node that waits."""

    cause: int
    since: float
    until: float
    node: int = -1


def walked(timeline: Timeline, lane: int = 0, end: float = np.inf) -> Floats:
    """Bubbles by the definition: gap by gap, predecessor by predecessor, piece by piece."""
    schedule = timeline.schedule
    seconds, queues = (
        np.zeros((schedule.ranks, len(CAUSES))),
        np.zeros((schedule.ranks, len(CAUSES))),
    )
    main = np.flatnonzero((schedule.kind == COMPUTE) & (schedule.lane == lane))
    for rank in np.unique(schedule.rank[main]):
        free, computations = 0.0, main[schedule.rank[main] == rank]
        for operation in computations[np.argsort(timeline.start[computations], kind="stable")]:
            if timeline.start[operation] > free:
                add(
                    timeline,
                    waits(timeline, int(operation), free),
                    (free, end),
                    seconds[rank],
                    queues[rank],
                )
            free = max(free, float(timeline.finish[operation]))
        mine = taking_part(timeline, int(rank))
        last = int(mine[np.flatnonzero(timeline.finish[mine] == timeline.finish[mine].max())[-1]])
        if timeline.finish[last] > free:
            add(
                timeline,
                chain(pieces(timeline, last), waits(timeline, last, free)),
                (free, end),
                seconds[rank],
                queues[rank],
            )
            free = float(timeline.finish[last])
        seconds[rank, DRAIN] += max(0.0, min(timeline.makespan, end) - free)
    return seconds + queues


def add(
    timeline: Timeline,
    pieces: Iterable[Piece],
    window: tuple[float, float],
    seconds: Floats,
    queues: Floats,
) -> None:
    """What of the pieces is within the window, by cause; what waits in queues apart."""
    begin, end = window
    for cause, since, until, node in pieces:
        clipped = max(since, begin)
        passed = max(0.0, min(until, end) - clipped)
        if node < 0 or not passed:
            seconds[cause] += passed
        else:
            behind_others = min(passed, contention(timeline, node, clipped, end))
            queues[CONTENTION] += behind_others
            queues[TRANSFER] += passed - behind_others


def contention(timeline: Timeline, node: int, since: float, end: float) -> float:
    """From `since` to `end`: how long a node waited while other ranks' operations held what it
    waited for."""
    rank, total = sender(timeline, node), 0.0
    while timeline.node_cause[node] >= 0 and timeline.node_start[node] > since:
        occupant = int(timeline.node_cause[node])
        if sender(timeline, occupant) != rank:
            until = min(float(timeline.node_start[node]), end)
            total += max(0.0, until - max(since, float(timeline.node_start[occupant])))
        node = occupant
    return total


def sender(timeline: Timeline, node: int) -> int:
    return int(
        timeline.schedule.rank[
            int(np.searchsorted(timeline.routed.node_indptr, node, side="right")) - 1
        ]
    )


def waits(timeline: Timeline, operation: int, begin: float) -> Iterator[Piece]:
    """What `operation` waited for since `begin`, the last first."""
    nodes = timeline.routed.node_indptr
    while timeline.ready[operation] > begin:
        # Of several that finished last the one with most hops, as the critical path has it.
        operation = max(
            timeline.schedule.predecessors(operation).tolist(),
            key=lambda i: (timeline.finish[i], nodes[i + 1] - nodes[i]),
        )
        yield from pieces(timeline, operation)


def pieces(timeline: Timeline, i: int) -> Iterator[Piece]:
    """An operation from ready to finish, the last first."""
    schedule, first = timeline.schedule, int(timeline.routed.node_indptr[i])
    last, hops = int(timeline.routed.node_indptr[i + 1]) - 1, timeline.routed.hops(i)
    ready, finish = float(timeline.ready[i]), float(timeline.finish[i])
    if schedule.kind[i] == COMPUTE:
        yield Piece(SLOWER_PEER, ready, finish)
        return
    if last - first >= len(hops):
        merged = float(timeline.node_start[last])
        yield Piece(TRANSFER, merged, finish)
        finish = arrival_of(timeline, i) if len(hops) else ready
        yield Piece(CONTENTION, finish, merged, last)
    if len(hops):
        yield from (flowing if timeline.sharing == "fair" else crossing)(timeline, i, ready, finish)


def crossing(timeline: Timeline, i: int, ready: float, arrival: float) -> Iterator[Piece]:
    """The way of the bytes that arrived last: queues before them count, others were not noticed."""
    first, until = int(timeline.routed.node_indptr[i]), arrival
    for hop in range(slowest_hop(timeline, i)[0], -1, -1):
        start = float(timeline.node_start[first + hop])
        before = head(timeline, i, hop) if hop else ready
        yield Piece(TRANSFER, start, until)
        yield Piece(CONTENTION, before, start, first + hop)
        until = before


def flowing(timeline: Timeline, i: int, ready: float, arrival: float) -> Iterator[Piece]:
    """What other ranks cost a flow comes first, then what it takes alone and behind messages of its
    own rank."""
    start, waited = (
        float(timeline.start[i]),
        slower_by(timeline, i) * float(contended_share(timeline)[i]),
    )
    yield Piece(TRANSFER, start + waited, arrival)
    yield Piece(CONTENTION, start, start + waited)
    yield Piece(TRANSFER, ready, start)


@pytest.mark.parametrize(
    "chosen", [lambda loop, _: loop, lambda loop, _: compiled(loop)], ids=["as it is", "compiled"]
)
@pytest.mark.parametrize(
    "rules", [{}, {"sharing": "fair"}, {"store_and_forward": True}], ids="".join
)
@given(case=cases, lane=st.integers(0, 1), share=st.sampled_from([0.0, 0.3, 0.7, 1.0, np.inf]))
def test_the_kernel_finds_what_the_walk_finds(
    chosen: Callable[..., Any],
    rules: dict[str, Any],
    case: tuple[Random, int],
    lane: int,
    share: float,
) -> None:
    random, ranks = case
    timeline = simulate(*drawn(random, ranks), "reference", **rules)
    end = share * (timeline.makespan or 1.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("simulator.analysis.bubbles.kernel", chosen)
        shares = bubbles(timeline, lane, end)
    expected = walked(timeline, lane, end)
    assert shares == pytest.approx(expected, rel=1e-12, abs=1e-12)


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
    assert added == pytest.approx(bubbles(timeline, lane, end), abs=1e-9)
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
