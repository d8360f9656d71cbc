"""Shifts are a group, and so are what they do to ranks and slots."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from folded import assert_alike, groups, machines
from grouped_cases import each_case
from law_cases import a_third, tries
from refusals import message_of
from simulator.collectives import Algorithm, algorithms, find
from simulator.collectives.ring import ring_all_reduce
from simulator.collectives.symmetry import candidates
from simulator.engines import run, simulate
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import TABLE_MOVES, Shifts, SlotMove, bits, fold, halves, rotations
from topologies.errors import InputError
from topologies.shapes import SHAPES
from topologies.topology import Topology
from topologies.variants import slowed


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
    np.testing.assert_array_equal(group.slots_shifted(moved, np.array(1), moves, -1), slots)


@given(shifts(), st.data())
def test_many_moves_are_looked_up_with_the_same_result(group: Shifts, data: st.DataObject) -> None:
    moves: list[SlotMove] = []
    for axis, extent in enumerate(group.shape):
        slots = extent * 2
        moves += [SlotMove(axis, k * slots, 2, (k + 1) * slots) for k in range(TABLE_MOVES)]
    slot = np.arange(-1, 2 * TABLE_MOVES * max(group.shape) + 3)
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


FOLDING = [algorithm for algorithm in algorithms().values() if algorithm.shifts(8)]
NAMES = [algorithm.name for algorithm in FOLDING]


def test_many_algorithms_fold() -> None:
    assert {"ring", "naive", "pairwise", "halving_doubling", "rings", "gloo_ring"} <= {*NAMES}


def alike(algorithm: Algorithm, topology: Topology, group: Shifts, **rules: str) -> bool:
    """Whether the machine allows algorithm and fold; if so, all operations take equal times."""
    nbytes = 4.0 * group.ranks
    try:
        fitted = algorithm.on(topology, group.ranks, nbytes)
        folded = algorithm.on(topology, group.ranks, nbytes, group)
        timeline = simulate(folded.schedule, folded.topology, **rules)  # type: ignore[arg-type]
    except InputError:
        return False
    whole = simulate(fitted.schedule, fitted.topology, **rules)  # type: ignore[arg-type]
    assert_alike(whole, timeline)
    return True


@pytest.mark.parametrize("algorithm", a_third(FOLDING, 0))
def test_on_a_star_every_shift_is_allowed(algorithm: Algorithm) -> None:
    for ranks in (2, 3, 6, 8):
        topology = SHAPES["star"](ranks, bandwidth=2.0, latency=0.5, reduction=0.25)
        for group in groups(algorithm.shifts(ranks)):
            assert alike(algorithm, topology, group), (ranks, group)


@pytest.mark.parametrize("algorithm", a_third(FOLDING, 1))
@given(data=st.data())
@tries(3, many=40)
def test_folded_or_refused_never_wrong(algorithm: Algorithm, data: st.DataObject) -> None:
    ranks = data.draw(st.integers(2, 16).filter(lambda p: any(groups(algorithm.shifts(p)))))
    group = data.draw(st.sampled_from([*groups(algorithm.shifts(ranks))]))
    topology = data.draw(st.sampled_from([*machines(ranks)]))
    rules = data.draw(
        st.sampled_from([{}, {"engine": "compiled"}, {"sharing": "fair", "engine": "compiled"}])
    )
    alike(algorithm, topology, group, **rules)


@pytest.mark.exhaustive
@pytest.mark.parametrize("algorithm", FOLDING, ids=NAMES)
def test_on_all_machines(algorithm: Algorithm) -> None:
    for ranks in (2, 3, 4, 5, 6, 7, 8, 9, 12, 16):
        for topology in machines(ranks):
            for group in groups(algorithm.shifts(ranks)):
                for sharing in ("fifo", "fair"):
                    alike(algorithm, topology, group, sharing=sharing)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["ring", "pairwise", "recursive_doubling", "halving_doubling"])
def test_of_128_ranks(name: str) -> None:
    algorithm, link = find(name), {"bandwidth": 2.0, "latency": 0.5}
    for topology in (SHAPES["star"](128, **link), SHAPES["nodes"](128, **link, per_node=8)):
        folds = [alike(algorithm, topology, g) for g in candidates(algorithm.shifts(128), 8)]
        assert any(folds) or name == "pairwise"


def sent_twice(ranks: int, steps: tuple[int, int], shifts: Shifts | None) -> Schedule:
    """Every rank sends to two others, in a call each."""
    builder = ScheduleBuilder(fold(ranks, shifts), 8.0 * ranks, slots=2, scratch=2)
    for slot, step in enumerate(steps):
        rank = builder.each()
        builder.copy(rank, (rank + step) % ranks, slot=slot, target=2 + slot)
    return builder.build()


def test_a_way_over_several_wires_of_a_ring_is_refused_or_equal() -> None:
    """Without latency a message reaches its second wire when the next rank's enters it: which of
    them goes first depends on their numbers, and so not on the shift alone."""
    topology = SHAPES["ring"](7, bandwidth=2.0)
    with pytest.raises(NotSymmetric, match="may meet another rank"):
        simulate(sent_twice(7, (2, 3), rotations(7)), topology)


def test_ways_over_several_wires_may_meet_under_fair_sharing() -> None:
    topology, folded = SHAPES["ring"](7, bandwidth=2.0), sent_twice(7, (2, 3), rotations(7))
    timeline = simulate(folded, topology, sharing="fair")
    assert_alike(simulate(sent_twice(7, (2, 3), None), topology, sharing="fair"), timeline)
    assert message_of(lambda: run(timeline.routed)) == (
        "sharing is 'fifo': the routes are folded for 'fair'"
    )


def test_two_ways_out_and_one_way_in_are_refused_or_equal() -> None:
    """Ranks of a node send to the next node at once, through one way in."""
    topology = SHAPES["nodes"](8, bandwidth=2.0, latency=0.5, per_node=2)
    whole = simulate(sent_twice(8, (2, 3), None), topology)
    for stride in (2, 4):
        try:
            folded = simulate(sent_twice(8, (2, 3), rotations(8, stride)), topology)
        except NotSymmetric:
            continue
        assert_alike(whole, folded)


@pytest.mark.parametrize("slow", [0, 3, 5])
def test_a_slow_rank_refuses_the_shifts_that_move_it(slow: int) -> None:
    topology = slowed(SHAPES["star"](6, bandwidth=2.0, latency=0.5), slow, 2.0)
    for stride in (1, 2, 3):
        with pytest.raises(NotSymmetric):
            simulate(ring_all_reduce(6, 6.0, rotations(6, stride)), topology)


def message(call: Callable[[ScheduleBuilder], object]) -> str:
    builder = ScheduleBuilder(fold(4, rotations(4)), 4.0, slots=4)
    return message_of(lambda: (call(builder), builder.build()))


def test_operations_are_written_for_representatives() -> None:
    expected = "a folded schedule is written for its representatives: see each()"
    assert message(lambda b: b.copy(np.arange(2), 1, slot=0)) == expected
    assert message(lambda b: b.compute(2, 1.0)) == expected


def test_servers_do_not_fold() -> None:
    for extra in ("servers", "switches"):
        refused = message_of(ScheduleBuilder, fold(4, rotations(4)), 4.0, **{extra: 1})
        assert refused.endswith("folded, 0 of both")


def test_ranks_that_overwrite_what_another_rank_reads_are_refused() -> None:
    """Rank 0 alone would be no conflict: rank 3 sends to it what it sends on."""
    assert "writes what another reads" in message(lambda b: b.copy(b.each(), 1, slot=0))


def test_steps_see_the_step_before() -> None:
    builder = ScheduleBuilder(3, 3.0)
    builder.copy(np.array([[0], [1]]), np.array([[1], [2]]), slot=0, steps=1)
    schedule = builder.build()
    assert [schedule.predecessors(i).tolist() for i in range(2)] == [[], [0]]


def test_steps_with_a_conflict_are_refused() -> None:
    builder = ScheduleBuilder(3, 3.0)
    builder.copy(np.array([[0, 1]]), np.array([[1, 2]]), slot=0, steps=1)
    assert "one operation of a step writes what another reads, slot 0" in message_of(builder.build)
    builder = ScheduleBuilder(3, 3.0)
    builder.copy(np.array([[0, 1]]), 2, slot=0, steps=1)
    assert "two operations of one step overwrite the same slot, 0" in message_of(builder.build)


def test_a_child_is_folded_as_its_parent() -> None:
    whole, folded = (ring_all_reduce(4, 4.0, shifts) for shifts in (None, rotations(4)))
    for child, shifts in ((whole, rotations(4)), (folded, None), (folded, rotations(4, 2))):
        builder = ScheduleBuilder(fold(4, shifts), 8.0, slots=8)
        assert "folded alike" in message_of(builder.inline, child)


def test_a_child_has_the_channels_of_its_parent() -> None:
    child = ring_all_reduce(4, 4.0, rotations(4))
    channels = (SlotMove(0, 0, 1, 4),)
    builder = ScheduleBuilder(fold(4, rotations(4), channels=channels), 8.0, slots=8)
    assert "folded alike" in message_of(builder.inline, child)


def test_several_axes_may_be_steps() -> None:
    builder = ScheduleBuilder(3, 3.0)
    builder.copy(
        np.array([[[0], [1]], [[2], [0]]]), np.array([[[1], [2]], [[0], [1]]]), slot=0, steps=2
    )
    schedule = builder.build()
    assert [schedule.predecessors(i).tolist() for i in range(4)] == [[], [0], [0, 1], [1, 2]]


def test_slots_move_in_one_way() -> None:
    builder, child = (
        ScheduleBuilder(fold(4, rotations(4)), 8.0, slots=8),
        ring_all_reduce(4, 4.0, rotations(4)),
    )
    for slot in (0, 3):
        builder.inline(child, slot=slot)
    assert "slots 3 to 6 move in another way than slots 0 to 3" in message_of(builder.build)


def test_a_child_keeps_its_moves() -> None:
    """Two rings, one after the other in the buffer, and one twice in a row."""
    topology = SHAPES["star"](4, bandwidth=2.0, latency=0.5)
    timelines = []
    for shifts in (None, rotations(4)):
        builder = ScheduleBuilder(fold(4, shifts), 8.0, slots=[1 / 8] * 8)
        child = ring_all_reduce(4, 4.0, shifts)
        for place in (0, 0, 4):
            builder.inline(child, slot=place)
        timelines.append(simulate(builder.build(), topology))
    assert_alike(*timelines)
