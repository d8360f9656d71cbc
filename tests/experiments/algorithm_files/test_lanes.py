"""Lanes run in turns, wait for each other, block each other, and race."""

import pytest

from experiments.algorithm_files.lanes import (
    COLUMNS,
    EventPost,
    EventWait,
    Lane,
    LaneMove,
    LanePlace,
    run,
)
from refusals import refusal


def lane(rank: int, *actions: LaneMove | EventPost | EventWait) -> Lane:
    return [(LanePlace(rank, 0, step), action) for step, action in enumerate(actions)]


SEND = LaneMove(0, 1, 0, 0, 1, posted=True)
ADD = LaneMove(1, 1, 0, 1, 1, reduces=True)


def test_a_wait_orders_moves() -> None:
    waiting = lane(1, EventWait("there", 1, "the message"), ADD)
    result = run([waiting, lane(0, SEND, EventPost("there", arrives=1))])
    assert result.moves.tolist() == [*SEND[:COLUMNS], *ADD[:COLUMNS]]
    assert result.waits.tolist() == [1, 0]
    schedule = result.schedule(2, 2, 0)
    assert schedule.predecessors(1).tolist() == [0]
    assert schedule.nbytes.tolist() == [0.5, 0.5]


def test_lanes_that_wait_for_each_other_are_stuck() -> None:
    lanes = [
        lane(rank, EventWait(1 - rank, 1, f"rank {1 - rank}"), EventPost(rank)) for rank in range(2)
    ]
    assert run(lanes).stuck == "gpu 0, thread block 0, step 0 waits for rank 1"


def test_moves_on_the_same_slot_without_an_order_are_refused() -> None:
    message = refusal(run, [lane(1, ADD), lane(0, SEND)])
    assert "nothing orders them" in message
    moves = run([lane(1, ADD), lane(0, SEND)], check=False).moves
    assert moves.tolist() == [*ADD[:COLUMNS], *SEND[:COLUMNS]]


@pytest.mark.parametrize("posted", [False, True])
def test_a_lane_goes_on_while_its_message_is_on_the_way(posted: bool) -> None:
    first, second = LaneMove(0, 1, 0, 0, 1, posted=posted), LaneMove(0, 2, 1, 1, 1)
    result = run([lane(0, first, second)], check=False)
    assert result.waits.tolist() == ([] if posted else [1, 0])


def test_of_the_moves_of_a_lane_the_last_is_waited_for() -> None:
    """So a program of many loops takes little memory."""
    adds = lane(1, ADD, EventPost("done"), ADD, EventPost("done"))
    sends = lane(0, EventWait("done", 1, "rank 1"), EventWait("done", 2, "rank 1"), SEND)
    result = run([adds, sends], check=False)
    assert result.waits.tolist() == [1, 0, 2, 1]


def test_a_rank_waits_for_what_others_do_with_its_slots() -> None:
    fetch, there = LaneMove(1, 0, 1, 0, 1), EventWait("there", 1, "rank 0")
    for move, place in ((SEND, "gpu 1"), (fetch, "gpu 1")):
        message = refusal(
            run, [lane(0, move, EventPost("there", arrives=int(move.posted))), lane(1)]
        )
        assert message == (
            f"gpu 0, thread block 0, step 0 uses a chunk of {place}, which may be done before: no "
            f"thread block of {place} waits for it"
        )
        done = run([lane(0, move, EventPost("there", arrives=int(move.posted))), lane(1, there)])
        assert not done.stuck
