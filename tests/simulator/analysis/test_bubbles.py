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
import pytest

from grouped_cases import each_case
from simulator.analysis.bubbles import CAUSES, bubbles
from simulator.collectives import algorithms, find
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from small_machines import merge
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


def test_a_rank_that_takes_part_in_nothing_more_drains() -> None:
    # Rank 0 is through at 1; ranks 1 and 2 exchange 4 bytes from 1 to 5.
    schedule = ScheduleBuilder(3, 4.0)
    done = schedule.compute([0, 1, 2], 1.0)
    schedule.signal(1, 2, nbytes=4.0, after=done[1])
    shares = bubbles(simulate(schedule.build(), shapes.full_mesh(3, bandwidth=1.0)))
    assert rows(shares) == [[0, 0, 0, 4], [4, 0, 0, 0], [4, 0, 0, 0]]


def test_on_a_machine_without_limits_ranks_wait_for_the_server_alone() -> None:
    # Pushes arrive at 4 and 6; the server updates layer 2 from 4 to 5 and layer 1 from 6 to 8;
    # forward from 8 to 10.
    timeline = simulate(step(), star(float("inf")))
    assert timeline.makespan == 10
    assert rows(bubbles(timeline)) == [[0, 0, 2, 0]] * 4 + [[0, 0, 4 + 1, 2]]


def test_latency_is_time_on_the_wire() -> None:
    # One message a way, 1 s of latency a link and 3 s of bytes: ready at 2, arrives at 7.
    schedule = ScheduleBuilder(2, 3.0)
    schedule.compute(0, 2.0, writes=0)
    schedule.copy(0, 1, slot=0)
    schedule.compute(1, 1.0, reads=0)
    shares = bubbles(simulate(schedule.build(), shapes.star(2, bandwidth=1.0, latency=1.0)))
    assert rows(shares) == [[5, 0, 0, 1], [5, 0, 2, 0]]


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


def test_a_rank_that_never_computes_has_no_bubble() -> None:
    # Rank 1 passes on what rank 0 computes; rank 2 waits for it.
    schedule = ScheduleBuilder(3, 4.0)
    schedule.compute(0, 1.0, writes=0)
    schedule.copy(0, 1, slot=0)
    schedule.copy(1, 2, slot=0)
    schedule.compute(2, 2.0, reads=0)
    shares = bubbles(simulate(schedule.build(), shapes.line(3, bandwidth=1.0)))
    assert rows(shares) == [[4, 0, 0, 6], [0, 0, 0, 0], [8, 0, 1, 0]]


def test_a_rank_that_computes_on_another_lane_has_no_bubble_on_its_main_one() -> None:
    schedule = ScheduleBuilder(2, 4.0)
    schedule.compute([0, 1], np.array([1.0, 3.0]), lane=[0, 1])
    timeline = simulate(schedule.build(), star())
    assert rows(bubbles(timeline)) == [[0, 0, 0, 2], [0, 0, 0, 0]]
    assert rows(bubbles(timeline, lane=1)) == [[0, 0, 0, 0], [0, 0, 0, 0]]


def test_the_walk_ends_where_the_gap_begins() -> None:
    # Rank 1's message is on its way from 0 to 10; rank 0 computes until 7: of the wire it sees the
    # last 3 s.
    schedule = ScheduleBuilder(2, 10.0)
    schedule.copy(1, 0, slot=0)
    computation = schedule.compute(0, 7.0)
    schedule.compute(0, 1.0, reads=0, after=computation)
    assert rows(bubbles(simulate(schedule.build(), shapes.line(2, bandwidth=1.0))))[0] == [
        3,
        0,
        0,
        0,
    ]


def test_waiting_for_the_senders_port_behind_its_own_message_is_transfer() -> None:
    # Rank 0 sends 6 bytes to rank 1, then 2 bytes to rank 2.
    schedule = ScheduleBuilder(3, 8.0, slots=(0.75, 0.25))
    schedule.copy(0, 1, slot=0)
    schedule.copy(0, 2, slot=1)
    schedule.compute(2, 1.0, reads=1)
    shares = bubbles(simulate(schedule.build(), shapes.star(3, bandwidth=1.0)))
    assert rows(shares)[2] == [2 + 6, 0, 0, 0]


def test_waiting_at_the_receivers_port_behind_another_rank_is_contention() -> None:
    schedule = ScheduleBuilder(3, 8.0, slots=(0.75, 0.25))
    schedule.copy(1, 0, slot=0)
    schedule.copy(2, 0, slot=1)
    schedule.compute(0, 1.0, reads=1)
    shares = bubbles(simulate(schedule.build(), shapes.star(3, bandwidth=1.0, latency=1.0)))
    # The head of the second is at the switch at 1, waits until 7, and 2 s + 1 s later it has
    # arrived.
    assert rows(shares)[0] == [1 + 2 + 1, 6, 0, 0]


@pytest.mark.parametrize("busy", [5.0, 7.5])
def test_a_queue_that_its_bytes_do_not_notice_is_time_on_the_wire(busy: float) -> None:
    # Rank 0's bytes are on its slow wire from 0 to 10. The wire into rank 2 is busy for a while,
    # but has room for them before they are there, if only just: they arrive at 10, as they would
    # have on an empty machine.
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal(1, 2, nbytes=4 * busy)
    schedule.compute(2, 1.0, after=schedule.signal(0, 2, nbytes=10.0))
    timeline = simulate(schedule.build(), merge())
    assert timeline.finish.tolist() == [busy, 10, 11]
    assert rows(bubbles(timeline))[2] == [10, 0, 0, 0]


def test_waiting_to_be_merged_behind_another_rank_is_contention() -> None:
    # Two reductions arrive at 4 and take 3 s each to merge: the second is on the wire 4 s, waits 3
    # s, is merged 3 s.
    schedule = ScheduleBuilder(3, 4.0)
    schedule.reduce([1, 2], 0, slot=0)
    schedule.compute(0, 1.0, reads=0)
    timeline = simulate(schedule.build(), shapes.full_mesh(3, bandwidth=1.0, reduction=0.75))
    assert timeline.finish.tolist() == [7, 10, 11]
    shares = rows(bubbles(timeline))[0]
    assert sum(shares) == 10
    assert shares[1] == 3
    assert shares[0] == 7, "the rest of a reduction's time is transfer"


def busy_peer(*, ordered: bool) -> Timeline:
    """Rank 1 computes 5 s, then 2 s more, and sends the result; whether the order is said or left
    to its lane."""
    schedule = ScheduleBuilder(2, 2.0)
    first = schedule.compute(1, 5.0)
    schedule.compute(1, 2.0, writes=0, after=first if ordered else ())
    schedule.copy(1, 0, slot=0)
    schedule.compute(0, 1.0, reads=0)
    return simulate(schedule.build(), shapes.line(2, bandwidth=1.0))


def test_a_peer_that_was_busy_with_something_else_is_a_slower_peer() -> None:
    explicit_order, implied = busy_peer(ordered=True), busy_peer(ordered=False)
    assert explicit_order.finish.tolist() == implied.finish.tolist() == [5, 7, 9, 10]
    assert rows(bubbles(explicit_order))[0] == [2, 0, 7, 0]
    assert rows(bubbles(implied))[0] == [2, 0, 7, 0], (
        "the sender was still busy: it makes no difference why"
    )


def test_merging_keeps_no_rank_from_computing() -> None:
    schedule = ScheduleBuilder(4, 4.0, scratch=1)
    schedule.compute([0, 1, 2, 3], 20.0)
    schedule.reduce([1, 2, 3, 0], [0, 1, 2, 3], slot=0, target=1)
    timeline = simulate(schedule.build(), shapes.ring(4, bandwidth=1.0, reduction=1.0), "compiled")
    assert timeline.finish.tolist() == [20] * 4 + [8] * 4
    assert not bubbles(timeline).any()
