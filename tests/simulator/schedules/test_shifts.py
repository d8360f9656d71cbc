"""Shifts are a group, and so are what they do to ranks and slots."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import message_of
from simulator.schedules.shifts import SOME, Shifts, SlotMove, bits, halves, rotations


@st.composite
def shifts(draw: st.DrawFn) -> Shifts:
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    strides = (draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0])) for n in shape)
    return Shifts(shape, tuple(strides))


@given(shifts())
def test_a_rank_is_its_representative_after_its_shift(group: Shifts) -> None:
    rank = np.arange(group.ranks)
    element = group.element(rank)
    np.testing.assert_array_equal(group.shifted(group.folded(rank), element), rank)
    np.testing.assert_array_equal(group.back(rank, element), group.folded(rank))
    assert sorted(set(group.folded(rank).tolist())) == group.representatives.tolist()
    assert sorted(set(element.tolist())) == group.elements.tolist()


@given(shifts())
def test_every_shift_takes_every_rank_elsewhere(group: Shifts) -> None:
    rank = np.arange(group.ranks)
    images = np.stack([group.shifted(rank, np.array(e)) for e in group.elements])
    assert len(images) == group.order
    assert all(len(set(column)) == group.order for column in images.T.tolist())
    assert all(sorted(row) == rank.tolist() for row in images.tolist())


@given(shifts(), st.data())
def test_shifts_add_up(group: Shifts, data: st.DataObject) -> None:
    first, second = (
        np.array(data.draw(st.sampled_from(group.elements.tolist()))) for _ in range(2)
    )
    rank = np.arange(group.ranks)
    both = group.shifted(first, second)
    one_after_the_other = group.shifted(group.shifted(rank, first), second)
    np.testing.assert_array_equal(one_after_the_other, group.shifted(rank, both))


@given(shifts())
def test_places_count_the_representatives(group: Shifts) -> None:
    rank = np.arange(group.ranks)
    np.testing.assert_array_equal(group.representatives[group.place(rank)], group.folded(rank))


def test_slots_move_with_ranks_and_others_stay() -> None:
    group, moves = rotations(4), (SlotMove(axis=0, first=2, inner=3, end=14),)
    slots = np.arange(-1, 16)
    moved = group.slots_shifted(slots, np.array(1), moves)
    assert moved[:3].tolist() == [-1, 0, 1]
    assert moved[3:15].tolist() == [*range(5, 14), 2, 3, 4]
    assert moved[15:].tolist() == [14, 15]
    np.testing.assert_array_equal(group.slots_back(moved, np.array(1), moves), slots)


@given(shifts(), st.data())
def test_many_moves_are_looked_up_with_the_same_result(group: Shifts, data: st.DataObject) -> None:
    moves: list[SlotMove] = []
    for axis, extent in enumerate(group.shape):
        slots = extent * 2
        moves += [SlotMove(axis, k * slots, 2, (k + 1) * slots) for k in range(SOME)]
    slot = np.arange(-1, 2 * SOME * max(group.shape) + 3)
    element = np.array(data.draw(st.sampled_from(group.elements.tolist())))
    expected = slot
    for move in moves:
        expected = group.slots_shifted(expected, element, (move,))
    looked_up = group.slots_shifted(slot, element, (*moves, SlotMove(0, 10**6, 1, 10**6)))
    np.testing.assert_array_equal(looked_up, expected)


def test_slots_of_bits_go_where_ranks_go() -> None:
    group, slots = Shifts((2, 2, 2), (1, 1, 1)), np.arange(8)
    for element in range(8):
        moved = group.slots_shifted(slots, np.array(element), tuple(halves(3)))
        np.testing.assert_array_equal(moved, slots ^ element)


@each_case(
    ("shape", "strides"), [((4,), (3,)), ((4,), (0,)), ((4, 2), (1,)), ((4,), (8,)), ((0,), (1,))]
)
def test_a_stride_divides_its_extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    assert "a stride divides its extent" in message_of(Shifts, shape, strides)


def test_a_million_ranks_are_flipped_at_once() -> None:
    """They have 20 axes of two."""
    flips, rank = bits(1 << 20), np.arange(1 << 20)
    assert flips is not None
    assert flips.shifted(rank, rank[::-1]).tolist() == [len(rank) - 1] * len(rank)
