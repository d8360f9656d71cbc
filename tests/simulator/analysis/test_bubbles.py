"""Bubbles: where a training step stalls, and why.

The step that most tests here run, written out by hand. Four ranks train two layers with a server
(rank 4), through a star of 1 B/s without latency. Layer 1 has 2 bytes, layer 2 has 1. On a rank,
forward takes 1 s a layer and backward 2 s; on the server, updating layer 2 takes 1 s and layer 1 2
s. A gradient is pushed as soon as its backward is done, the weights are pulled as soon as they are
updated, and then the next step's forward begins.

    what                        rank 0   rank 1   rank 2   rank 3   because
    forward 1                      0-1      0-1      0-1      0-1
    forward 2                      1-2      1-2      1-2      1-2
    backward 2                     2-4      2-4      2-4      2-4
    push 2, into the server        4-5      5-6      6-7      7-8   ready at 4; one port into it
    backward 1                     4-6      4-6      4-6      4-6
    push 1, into the server       8-10    10-12    12-14    14-16   ready at 6; busy until 8
    update 2, on the server                  8-9                    the last push 2 arrives at 8
    pull 2, out of the server     9-10    10-11    11-12    12-13   one port out of it
    update 1, on the server                 16-18                   the last push 1 arrives at 16
    pull 1, out of the server    18-20    20-22    22-24    24-26
    next forward 1               20-21    22-23    24-25    26-27
    next forward 2               21-22    23-24    25-26    27-28

Bubble of rank r: idle from 6 to 20 + 2r, and from 22 + 2r to 28. Back from its next forward 1: pull
1 on the wire for 2 s, after 2r s behind other pulls of the server; update 1 for 2 s; push 1 of rank
3 on the wire for 2 s. That push waits from 6 to 14: 1 s behind rank 3's own push 2 (7-8), 7 s
behind other ranks. Bubble of the server: 0-8 (push 2 of rank 3 on the wire for 1 s, after 3 s
behind other ranks; 4 s of rank 3's computations), 9-16 (push 1 of rank 3 on the wire for 2 s, after
5 s behind other ranks since 9) and 18-28 (its pulls until 26).
"""

import numpy as np

from grouped_cases import each_case
from simulator.analysis.bubbles import CAUSES, bubbles
from simulator.collectives import algorithms, find
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from topologies import shapes
from topologies.topology import Floats, Topology

SERVER = 4
FORWARD_1, FORWARD_2, BACKWARD_2, PUSH_2, BACKWARD_1, PUSH_1 = (
    slice(4 * k, 4 * k + 4) for k in range(6)
)
UPDATE_2, PULL_2, UPDATE_1, PULL_1 = 24, slice(25, 29), 29, slice(30, 34)
NEXT_1, NEXT_2 = slice(34, 38), slice(38, 42)


def step(
    slowdown: tuple[float, float, float, float] = (1, 1, 1, 1), *, next_forward: bool = True
) -> Schedule:
    """Slot 0 is layer 1, slot 1 is layer 2: weights until its backward, then gradients, then
    weights again."""
    train = ScheduleBuilder(4, 3.0, slots=(2 / 3, 1 / 3), servers=1, phase="forward")
    ranks, factor = np.arange(4), np.array(slowdown)
    before = train.compute(ranks, 1 * factor, reads=0)
    before = train.compute(ranks, 1 * factor, reads=1, after=before[:, None])
    train.phase("backward")
    before = train.compute(ranks, 2 * factor, writes=1, after=before[:, None])
    train.reduce(ranks, SERVER, slot=1)
    before = train.compute(ranks, 2 * factor, writes=0, after=before[:, None])
    train.reduce(ranks, SERVER, slot=0)
    train.phase("update")
    train.compute(SERVER, 1.0, writes=1)
    train.copy(SERVER, ranks, slot=1)
    train.compute(SERVER, 2.0, writes=0)
    train.copy(SERVER, ranks, slot=0)
    if next_forward:
        train.phase("next forward")
        before = train.compute(ranks, 1 * factor, reads=0, after=before[:, None])
        train.compute(ranks, 1 * factor, reads=1, after=before[:, None])
    return train.build()


def star(bandwidth: float = 1.0) -> Topology:
    return shapes.star(5, bandwidth=bandwidth)


def arrivals(timeline: Timeline, transfers: slice) -> list[tuple[float, float]]:
    """When transfers held the last link of their route."""
    nodes = timeline.routed.node_indptr[transfers]
    starts = timeline.node_start[nodes + 1]
    return list(zip(starts.tolist(), timeline.finish[transfers].tolist(), strict=True))


def spans(timeline: Timeline, operations: slice) -> list[tuple[float, float]]:
    return list(
        zip(timeline.start[operations].tolist(), timeline.finish[operations].tolist(), strict=True)
    )


def rows(shares: Floats) -> list[list[float]]:
    """Seconds by transfer, contention, slower peer and drain, a row a rank."""
    values: list[list[float]] = shares.tolist()
    return values


def test_the_causes_are_in_this_order() -> None:
    assert CAUSES == ("transfer", "contention", "slower peer", "drain")


def test_the_timeline_of_the_step_is_the_one_made_by_hand() -> None:
    timeline = simulate(step(), star())
    assert spans(timeline, FORWARD_1) == [(0, 1)] * 4
    assert spans(timeline, FORWARD_2) == [(1, 2)] * 4
    assert spans(timeline, BACKWARD_2) == [(2, 4)] * 4
    assert timeline.start[PUSH_2].tolist() == [4] * 4
    assert arrivals(timeline, PUSH_2) == [(4, 5), (5, 6), (6, 7), (7, 8)]
    assert spans(timeline, BACKWARD_1) == [(4, 6)] * 4
    assert timeline.start[PUSH_1].tolist() == [6] * 4
    assert arrivals(timeline, PUSH_1) == [(8, 10), (10, 12), (12, 14), (14, 16)]
    assert (timeline.start[UPDATE_2], timeline.finish[UPDATE_2]) == (8, 9)
    assert spans(timeline, PULL_2) == [(9, 10), (10, 11), (11, 12), (12, 13)]
    assert (timeline.start[UPDATE_1], timeline.finish[UPDATE_1]) == (16, 18)
    assert spans(timeline, PULL_1) == [(18, 20), (20, 22), (22, 24), (24, 26)]
    assert spans(timeline, NEXT_1) == [(20, 21), (22, 23), (24, 25), (26, 27)]
    assert spans(timeline, NEXT_2) == [(21, 22), (23, 24), (25, 26), (27, 28)]
    assert timeline.makespan == 28


def test_the_bubbles_of_the_step_are_those_made_by_hand() -> None:
    shares = bubbles(simulate(step(), star()))
    assert rows(shares) == [
        [4 + 1, 7, 2, 6],
        [6 + 1, 7, 2, 4],
        [8 + 1, 7, 2, 2],
        [10 + 1, 7, 2, 0],
        [1 + 2 + 8, 3 + 5, 4, 2],
    ]
    assert shares.sum(axis=1).tolist() == [28 - 8] * 4 + [28 - 3], (
        "the makespan less what a rank computes"
    )
    assert shares[:, :3].sum(axis=1).tolist() == [14, 16, 18, 20, 23]


def test_communication_after_the_last_computation_has_its_cause() -> None:
    # Nobody computes after pull 1: rank r has it at 20 + 2r, all is over at 26.
    shares = bubbles(simulate(step(next_forward=False), star()))
    assert rows(shares) == [
        [4 + 1, 7, 2, 6],
        [6 + 1, 7, 2, 4],
        [8 + 1, 7, 2, 2],
        [10 + 1, 7, 2, 0],
        [1 + 2 + 8, 3 + 5, 4, 0],
    ]
    assert shares[:, :3].sum(axis=1).tolist() == [14, 16, 18, 20, 23]


@each_case(
    "name",
    sorted(
        name
        for name, algorithm in algorithms().items()
        if not (schedule := algorithm.build(2, 1.0)).switches and schedule.kind.all()
    ),
)
def test_without_computations_there_is_no_bubble(name: str) -> None:
    algorithm = find(name)
    shares = bubbles(simulate(algorithm.build(4, 64.0), shapes.star(5, bandwidth=1.0)))
    assert not shares.any()
    assert shares.shape == (4 + algorithm.servers, 4)


def test_a_rank_that_computes_on_another_lane_has_no_bubble_on_its_main_one() -> None:
    schedule = ScheduleBuilder(2, 4.0)
    schedule.compute([0, 1], np.array([1.0, 3.0]), lane=[0, 1])
    timeline = simulate(schedule.build(), star())
    assert rows(bubbles(timeline)) == [[0, 0, 0, 2], [0, 0, 0, 0]]
    assert rows(bubbles(timeline, lane=1)) == [[0, 0, 0, 0], [0, 0, 0, 0]]
