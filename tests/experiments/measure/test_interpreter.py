"""Every schedule, interpreted rank by rank, computes what its collective promises, whatever arrives
first."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import law_cases
from experiments.measure.interpreter import Arrival, Transport, bind
from experiments.measure.patterns import PROMISES
from experiments.measure.program import (
    ElementMove,
    Message,
    RankProgram,
    compile_program,
    granularity,
    slot_bounds,
    slot_span,
    with_signals,
)
from grouped_cases import each_case
from law_cases import a_third, tries
from refusals import refusal
from simulator.collectives import algorithms, find
from simulator.collectives.ring import ring_all_reduce
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.errors import InputError

Choose = Callable[[int], int]
"""From a number of choices to one of them."""
Memory = npt.NDArray[np.float64]


class Blocked(Exception):
    """A step has to wait."""


class Deadlock(Exception):
    """Every rank waits and nothing is under way."""


class Flight:
    """A message that one end has posted, or both."""

    def __init__(self) -> None:
        self.source: Memory | None = None
        self.target: Memory | None = None
        self.arrived = False

    def wait(self) -> None:
        if not self.arrived:
            raise Blocked


class Network:
    """Messages by sender, receiver and tag (or, untagged, in order), delivered long after both ends
    have posted.

    An eager one keeps a copy of what is sent, so that the sender need not wait for the receiver.
    """

    def __init__(self, tagged: bool = True, eager: bool = False) -> None:
        self.tagged, self.eager = tagged, eager
        self.half: dict[tuple[int, int, int, bool], deque[Flight]] = {}
        self.flying: list[Flight] = []

    def post(self, rank: int, message: Message, elements: Any) -> Arrival:
        pair = (rank, message.peer) if message.sends else (message.peer, rank)
        tag = message.number if self.tagged else 0
        waiting = self.half.setdefault((*pair, tag, not message.sends), deque())
        flight = waiting.popleft() if waiting else Flight()
        if flight.source is None and flight.target is None:
            self.half.setdefault((*pair, tag, message.sends), deque()).append(flight)
        else:
            self.flying.append(flight)
        if message.sends:
            flight.source = elements.copy() if self.eager else elements
            # An eager message has left: its sender may forget it.
            return (lambda: None) if self.eager else flight.wait
        flight.target = elements
        return flight.wait

    def deliver(self, number: int) -> None:
        flight = self.flying.pop(number)
        assert flight.source is not None
        assert flight.target is not None
        assert len(flight.source) == len(flight.target) > 0
        flight.target[:] = flight.source
        flight.arrived = True


def port(network: Network, rank: int) -> Transport:
    """A rank's side of the network."""

    def prepare(parts: Sequence[tuple[Message, Any]]) -> Callable[[], Sequence[Arrival]]:
        return lambda: [network.post(rank, message, elements) for message, elements in parts]

    return Transport(prepare, np.copyto, lambda target, source: np.add(target, source, target))


def execute(
    schedule: Schedule, inputs: Memory, choose: Choose, network: Network, repeat: int = 1
) -> Memory:
    """What the buffers hold afterwards, shape (ranks, elements) as before.

    Each rank runs its program `repeat` times on the same inputs, waiting for nobody in between.
    Raises Deadlock.
    """
    elements, tagged = inputs.shape[1], network.tagged
    programs = [
        compile_program(schedule, rank, elements, tagged=tagged) for rank in range(schedule.ranks)
    ]
    memories = [np.full(program.size, np.nan) for program in programs]

    def begin(rank: int) -> None:
        memories[rank][:] = np.nan
        memories[rank][:elements] = inputs[rank]

    steps: list[list[Callable[[], object]]] = []
    for rank, (program, memory) in enumerate(zip(programs, memories, strict=True)):
        steps.append([partial(begin, rank), *bind(program, memory, port(network, rank))] * repeat)
    _take_turns(steps, network, choose)
    return np.stack([memory[:elements] for memory in memories])


def _take_turns(
    steps: Sequence[Sequence[Callable[[], object]]], network: Network, choose: Choose
) -> None:
    done = [0] * len(steps)
    while any(done[rank] < len(steps[rank]) for rank in range(len(steps))) or network.flying:
        able = [rank for rank in range(len(steps)) if done[rank] < len(steps[rank])]
        blocked = []
        for _ in range(len(able)):
            rank = able.pop(choose(len(able)))
            try:
                steps[rank][done[rank]]()
            except Blocked:
                blocked.append(rank)
                continue
            done[rank] += 1
            break
        else:
            if not network.flying:
                raise Deadlock(f"ranks {sorted(blocked)} wait")
        if network.flying and (not able or choose(2)):
            network.deliver(choose(len(network.flying)))


NAMES = [
    name
    for name in law_cases.NAMES
    if not (algorithm := algorithms()[name]).servers
    and algorithm.collective.name in PROMISES
    and not algorithm.collective.causal
]
NETWORKS: dict[str, Callable[[], Network]] = {
    "tagged": Network,
    "eager": lambda: Network(eager=True),
    "in order": lambda: Network(tagged=False),
}


def contents(schedule: Schedule, factor: int = 3) -> Memory:
    """Numbers that no permutation and no doubling leaves alone."""
    elements = granularity(schedule) * schedule.ranks * factor
    return np.random.default_rng(1).integers(1, 2**20, (schedule.ranks, elements)).astype(float)


def expect(name: str, before: Memory) -> tuple[np.ndarray, np.ndarray]:
    promised, values = algorithms()[name].collective.postcondition(before.astype(np.uint64), None)
    return promised, values.astype(float)


def agree(
    name: str, ranks: int, network: Network, choose: Callable[[int], int], repeat: int = 1
) -> None:
    schedule = find(name).build(ranks, 2.0**20)
    before = contents(schedule)
    promised, values = expect(name, before)
    after = execute(schedule, before, choose, network, repeat)
    np.testing.assert_array_equal(after[promised], values[promised])


@pytest.mark.parametrize("name", a_third(NAMES, 0))
def test_each_rank_ends_with_what_is_promised(name: str) -> None:
    for ranks in (3, 5, 6, 8):
        agree(
            name,
            ranks,
            Network(tagged=ranks % 3 > 0, eager=ranks % 2 > 0),
            random.Random(ranks).randrange,
        )


@pytest.mark.exhaustive
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", NAMES)
def test_each_rank_ends_with_what_is_promised_on_every_network(name: str, network: str) -> None:
    for ranks in range(2, 14):
        agree(name, ranks, NETWORKS[network](), random.Random(ranks).randrange)


@tries(15, 60)
@given(
    st.sampled_from(NAMES),
    st.integers(1, 6),
    st.sampled_from(sorted(NETWORKS)),
    st.randoms(use_true_random=False),
)
def test_no_order_of_arrival_blocks_or_changes_the_result(
    name: str, ranks: int, network: str, choices: random.Random
) -> None:
    agree(name, ranks, NETWORKS[network](), choices.randrange, repeat=2)


def test_the_test_would_see_a_deadlock() -> None:
    program = compile_program(ring_all_reduce(2, 8.0), 0, 2)
    network, memory = Network(), np.zeros(program.size)
    steps = bind(program, memory, port(network, 0))
    with pytest.raises(Deadlock):
        _take_turns([steps, []], network, random.Random(0).randrange)


def test_what_a_rank_of_a_ring_does() -> None:
    """Slots are 0:2 and 2:4, signals 4:5, what is received to be added waits in 5:7."""
    first, inbox = slice(0, 2), slice(5, 7)
    receives, sends = Message(1, False, 1, inbox), Message(0, True, 1, slice(2, 4))
    passes, gathers = Message(2, True, 1, first), Message(3, False, 1, slice(2, 4))
    assert compile_program(ring_all_reduce(2, 16.0), 0, 4) == RankProgram(
        (
            (receives, sends),
            1,
            ElementMove(inbox, first, True),
            (passes,),
            0,
            (gathers,),
            2,
            3,
        ),
        7,
    )


def test_in_order_all_that_is_equally_deep_goes_together() -> None:
    messages = [
        [(number, sends, peer) for number, sends, peer, _ in step]
        for step in compile_program(find("naive").build(3, 8.0), 0, 3, tagged=False).instructions
        if isinstance(step, tuple) and not isinstance(step, ElementMove)
    ]
    assert messages == [[(0, True, 1), (2, False, 2), (3, True, 2), (4, False, 1)]]


@each_case("name", NAMES)
def test_an_operation_waits_for_what_its_ranks_know(name: str) -> None:
    schedule = with_signals(find(name).build(5, 2.0**20))
    for i in range(len(schedule)):
        ends = {schedule.rank[i], schedule.peer[i]}
        for before in schedule.predecessors(i):
            assert before < i
            assert ends & {schedule.rank[before], schedule.peer[before]}


def test_one_root_at_a_time_needs_messages_and_a_ring_none() -> None:
    serial = find("naive_serial").build(4, 8.0)
    signalled = with_signals(serial)
    assert signalled.steps > serial.steps
    assert signalled.volume == serial.volume
    ring = ring_all_reduce(4, 8.0)
    assert with_signals(ring) is ring


def test_places_for_what_arrives_are_used_again() -> None:
    """Gloo takes two, for segments of 64/16 elements."""
    program = compile_program(find("gloo_ring").build(8, 64.0), 0, 64)
    assert program.size == 64 + 1 + 2 * 4


def test_slots_may_differ() -> None:
    builder = ScheduleBuilder(3, 80.0, slots=[0.5, 0.125, 0.375], scratch=[0.5])
    builder.copy([1, 2], [0, 1], slot=0, target=3)
    builder.reduce(0, 2, slot=1, count=2)
    builder.signal(2, 1)
    schedule = builder.build()
    assert granularity(schedule) == 8
    before = contents(schedule)
    bounds = slot_bounds(schedule, before.shape[1])
    spans = [slot_span(bounds, *slots) for slots in ((0, 1), (1, 2), (-1, 0))]
    assert spans == [slice(0, 36), slice(36, 72), slice(0, 0)]
    after = execute(schedule, before, random.Random(0).randrange, Network())
    np.testing.assert_array_equal(after[2, 36:], before[2, 36:] + before[0, 36:])
    np.testing.assert_array_equal(after[:2], before[:2])


def test_what_cannot_be_run_is_refused() -> None:
    builder = ScheduleBuilder(2, 8.0)
    builder.compute(0, 1.0)
    assert "computations" in refusal(compile_program, builder.build(), 0, 1)
    with pytest.raises(InputError, match="cut no number"):
        granularity(ScheduleBuilder(2, 8.0, slots=[1 / np.pi, 1 - 1 / np.pi]).build())
    uneven = ScheduleBuilder(2, 8.0, slots=[0.25, 0.75])
    uneven.copy(0, 1, slot=0, target=1)
    with pytest.raises(InputError, match="operation 0 moves 1 elements to where 3 belong"):
        compile_program(uneven.build(), 0, 4)


def test_equal_slots_divide_as_many_elements() -> None:
    assert granularity(find("ring").build(6, 6.0)) == 6
    assert granularity(find("permutation").build(6, 6.0)) == 1


@pytest.mark.parametrize("name", ["incast", "posted_all_to_allv"])
def test_slots_that_differ_by_rank_are_refused(name: str) -> None:
    assert refusal(granularity, find(name).build(6, 6.0)).startswith(
        "the ranks of this algorithm hold data of different sizes"
    )
