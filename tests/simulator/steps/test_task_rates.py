"""Tests of simulator.steps.task_rates and simulator.kernels.rates, against a second loop in exact
rationals."""

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from law_cases import tries
from refusals import refusal
from simulator.analysis.critical_path import critical_path
from simulator.engines import run as run_engine
from simulator.kernels.rates import Usages
from simulator.schedules.routed import Routed, route
from simulator.steps import task_rates
from simulator.steps.kinds import COMPUTATION
from simulator.steps.step_graph import priced, step_graph
from simulator.steps.task_rates import Shared
from topologies.shapes import star

LANES = 3
COMPUTE = 0
Use = dict[int, tuple[Fraction, Fraction]]
"""Share and flows of media."""


@dataclass(frozen=True)
class Drawn:
    """Tasks on lanes of places, some of which join in calls that use media."""

    place: list[int]
    lane: list[int]
    seconds: list[int]
    after: list[list[int]]
    first: list[int]
    uses: list[list[Use]]
    """What a call uses in each of its phases, by its first task. All its phases are as long."""
    slowdown: Fraction


@st.composite
def drawn(draw: st.DrawFn, *, media: int = 3, slows: bool = True, joins: bool = True) -> Drawn:
    """Up to 14 tasks of two places. Tasks of a call are in the same order on both places."""
    size = draw(st.integers(1, 14))
    number = st.integers(0, 2**16)
    place, lane, seconds, first = (list[int]() for _ in range(4))
    after = list[list[int]]()
    uses = list[list[Use]]()
    for _ in range(size):
        row, at = len(place), draw(number) % 2
        waits = sorted({draw(number) % row for _ in range(draw(number) % 3)} if row else set())
        on, length = draw(number) % LANES, draw(number) % 9
        phases: list[Use] = [{} for _ in range(1 + draw(number) % 3)]
        for use, medium in product(phases, range(media * (on != COMPUTE))):
            share = Fraction(draw(number) % 5, 4)
            if share:
                use[medium] = share, share * (1 + draw(number) % 3)
        pair = joins and on == LANES - 1 and draw(number) % 2
        for member in range(1 + pair):
            place.append((at + member) % 2)
            lane.append(on)
            seconds.append(length)
            after.append(waits)
            first.append(row)
            uses.append(phases)
    slowdown = Fraction(draw(number) % 4, 4) if slows else Fraction(0)
    return Drawn(place, lane, seconds, after, first, uses, slowdown)


def shares_of(uses: dict[int, Use]) -> dict[int, Fraction]:
    """Rates of calls by the rule: on each medium all flows get the same share of what is left.
    Calls for which that is enough go first, then the one that gets least."""
    rate, left = dict[int, Fraction](), dict[int, Fraction]()
    while len(rate) < len(uses):
        growing = [i for i in uses if i not in rate]
        flows = dict[int, Fraction]()
        for i in growing:
            for medium, (_, n) in uses[i].items():
                flows[medium] = flows.get(medium, Fraction(0)) + n
        level = {m: left.get(m, Fraction(1)) / flows[m] for m in flows}
        fair = {
            i: min([Fraction(1), *(level[m] * n / u for m, (u, n) in uses[i].items())])
            for i in growing
        }
        chosen = [i for i in growing if fair[i] == 1] or [
            i for i in growing if fair[i] == min(fair.values())
        ]
        for i in chosen:
            rate[i] = fair[i]
            for medium, (share, _) in uses[i].items():
                left[medium] = left.get(medium, Fraction(1)) - share * fair[i]
    assert all(value >= 0 for value in left.values())
    return rate


def naive(graph: Drawn) -> tuple[list[Fraction], list[Fraction]]:
    """When tasks take their lanes, and when they end: all rates anew at each event."""
    count = len(graph.place)
    start, finish = dict[int, Fraction](), dict[int, Fraction]()
    queue = dict[tuple[int, int], list[int]]()
    held, left = dict[tuple[int, int], int](), dict[int, Fraction]()
    members = {f: [i for i in range(count) if graph.first[i] == f] for f in graph.first}
    arrived = set[int]()
    now = Fraction(0)

    def enter(lane: tuple[int, int]) -> None:
        task = queue[lane].pop(0)
        held[lane], start[task] = task, now
        first = graph.first[task]
        if all(i in start for i in members[first]):
            left[first] = Fraction(graph.seconds[first])

    def settle() -> None:
        while True:
            for first in [f for f, rest in left.items() if rest == 0]:
                del left[first]
                for i in members[first]:
                    finish[i] = now
                    lane = graph.place[i], graph.lane[i]
                    del held[lane]
                    if queue.get(lane):
                        enter(lane)
            if any(rest == 0 for rest in left.values()):
                continue
            ready = [
                i
                for i in range(count)
                if i not in arrived and all(before in finish for before in graph.after[i])
            ]
            if not ready:
                return
            task = ready[0]
            arrived.add(task)
            lane = graph.place[task], graph.lane[task]
            queue.setdefault(lane, []).append(task)
            if lane not in held:
                enter(lane)

    settle()
    while left:
        done = {i: len(graph.uses[i]) * (1 - rest / graph.seconds[i]) for i, rest in left.items()}
        rate = shares_of({i: graph.uses[i][int(done[i])] for i in left})
        talking = {
            place for (place, lane), i in held.items() if lane != COMPUTE and graph.seconds[i]
        }
        for i in left:
            if graph.lane[i] == COMPUTE and graph.place[i] in talking:
                rate[i] = min(rate[i], 1 / (1 + graph.slowdown))
        # A phase ends, or a call.
        step = min(
            (int(part) + 1 - part) * graph.seconds[i] / len(graph.uses[i]) / rate[i]
            for i, part in done.items()
        )
        now += step
        for i in left:
            left[i] -= step * rate[i]
        settle()
    return [start[i] for i in range(len(start))], [finish[i] for i in range(len(finish))]


def shared(graph: Drawn) -> Shared:
    """What the tasks share, for the loop."""
    uses = [{}, *(use for phases in graph.uses for use in phases)]
    counts = [len(phases) for phases in graph.uses]
    return Shared(
        Usages(
            np.cumsum([0, *map(len, uses)]).astype(np.int32),
            np.array([m for use in uses for m in use], dtype=np.int32),
            np.array([float(u) for use in uses for u, _ in use.values()]),
            np.array([float(n) for use in uses for _, n in use.values()]),
            np.array([0.0, *(1 - (k + 1) / count for count in counts for k in range(count))]),
        ),
        np.array(
            [(1 + sum(counts[:i])) * any(phases) for i, phases in enumerate(graph.uses)],
            dtype=np.int32,
        ),
        np.arange(3, dtype=np.int32),
        np.array(graph.first, dtype=np.int32),
        float(graph.slowdown),
    )


def routed(graph: Drawn) -> Routed:
    """The tasks as a schedule."""
    columns = {name: getattr(graph, name) for name in ("place", "lane", "seconds")}
    columns["kind"] = [COMPUTATION] * len(graph.place)
    made = step_graph(
        np.arange(2, dtype=np.int32)[:, None], ("compute", "one", "two"), columns, graph.after
    )
    return route(priced(made), star(2, bandwidth=1.0))


def ran(graph: Drawn) -> task_rates.TaskTimeline:
    """What the loop says."""
    schedule = routed(graph)
    lane = schedule.schedule.lane
    return task_rates.run(schedule, lane == COMPUTE, lane != COMPUTE, shared(graph))


NOTHING: list[Use] = [{}]
TIED = Drawn(
    place=[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    lane=[0, 0, 1, 2, 2, 1, 0, 1, 2, 2, 0, 0, 0, 2],
    seconds=[0, 8, 2, 0, 0, 1, 0, 0, 1, 1, 3, 0, 0, 0],
    after=[[], [], [1], [], [], [1], [], [], [1], [5], [], [], [], [10]],
    first=[0, 1, 2, 3, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13],
    uses=[
        *([NOTHING] * 2),
        [{}, {2: (Fraction(3, 4), Fraction(3, 4))}],
        *([NOTHING] * 5),
        [{}, {}, {2: (Fraction(3, 4), Fraction(3, 2))}],
        *([NOTHING] * 5),
    ],
    slowdown=Fraction(0),
)
"""Task 8 ends its third phase at the moment at which task 2 begins to use the same medium."""

ROUNDED = Drawn(
    place=[0, 1, 0, 0, 1, 0, 0, 0],
    lane=[2, 2, 1, 0, 1, 0, 0, 2],
    seconds=[0, 0, 3, 1, 3, 0, 0, 1],
    after=[[], [], [], [0, 2], [], [], [4], []],
    first=[0, 0, 2, 3, 4, 5, 6, 7],
    uses=[
        *([NOTHING] * 2),
        [{1: (Fraction(3, 4), Fraction(3, 2))}],
        NOTHING,
        [{1: (Fraction(1, 4), Fraction(1, 2))}],
        *([NOTHING] * 2),
        [{1: (Fraction(3, 4), Fraction(3, 4))}],
    ],
    slowdown=Fraction(0),
)
"""Tasks 2 and 4 end at the same moment, but for the rounding of their rates."""


@tries(150, 2000)
@given(drawn())
@example(TIED)
@example(ROUNDED)
def test_the_loop_agrees_with_exact_rationals(graph: Drawn) -> None:
    start, finish = naive(graph)
    if len(finish) < len(graph.place):
        assert "wait for each other in a circle" in refusal(ran, graph)
        return
    timeline = ran(graph)
    assert timeline.start == pytest.approx([float(each) for each in start], rel=1e-9, abs=1e-9)
    assert timeline.finish == pytest.approx([float(each) for each in finish], rel=1e-9, abs=1e-9)


@tries(60, 600)
@given(drawn(media=0, slows=False, joins=False))
def test_where_nothing_is_shared_times_are_those_of_the_engine(graph: Drawn) -> None:
    timeline, expected = ran(graph), run_engine(routed(graph))
    assert timeline.finish.tolist() == expected.finish.tolist()
    assert timeline.start.tolist() == expected.start.tolist()
    assert timeline.node_cause.tolist() == expected.node_cause.tolist()


@tries(60, 600)
@given(drawn(slows=False))
def test_what_calls_lose_is_what_they_take_longer(graph: Drawn) -> None:
    if len(naive(graph)[1]) < len(graph.place):
        return
    result = ran(graph)
    first, begin = np.unique(graph.first), np.zeros(len(graph.first))
    np.maximum.at(begin, graph.first, result.start)
    longer = result.finish - begin - np.array(graph.seconds)
    assert result.lost.sum() == pytest.approx(longer[first].sum(), abs=1e-9)
    assert (result.together >= result.lost - 1e-9).all()


@tries(60, 600)
@given(drawn())
def test_the_critical_path_has_what_tasks_and_calls_took(graph: Drawn) -> None:
    """It has no gaps: a call began when its last task had its lane."""
    if len(naive(graph)[1]) < len(graph.place):
        return
    timeline = ran(graph)
    begin = np.zeros(len(graph.first))
    np.maximum.at(begin, graph.first, timeline.start)
    took = timeline.finish - begin[graph.first]
    path = critical_path(timeline)
    assert path.seconds.sum() == pytest.approx(timeline.makespan, abs=1e-9)
    assert path.seconds == pytest.approx(took[path.operation], abs=1e-9)


def test_calls_that_wait_for_each_other_in_a_circle_are_refused() -> None:
    """Two places begin with different calls on the same lane."""
    graph = Drawn(
        place=[0, 1, 1, 0],
        lane=[2, 2, 2, 2],
        seconds=[1, 1, 1, 1],
        after=[[], [2], [], [0]],
        first=[0, 0, 2, 2],
        uses=[[{}]] * 4,
        slowdown=Fraction(0),
    )
    assert "4 of 4 tasks wait for each other in a circle" in refusal(ran, graph)


@tries(60, 600)
@given(drawn())
def test_rates_never_shorten_tasks_that_keep_their_order(graph: Drawn) -> None:
    """On each lane one task waits for the other, so that none overtakes another one."""
    after, latest = [*graph.after], dict[tuple[int, int], int]()
    for task, lane in enumerate(zip(graph.place, graph.lane, strict=True)):
        after[task] = [*after[task], *([latest[lane]] if lane in latest else [])]
        latest[lane] = task
    shared_media = replace(graph, after=after)
    alone = replace(shared_media, uses=[[{}] for _ in graph.uses], slowdown=Fraction(0))
    slower, usual = ran(shared_media), ran(alone)
    assert (slower.finish >= usual.finish - 1e-9).all()
