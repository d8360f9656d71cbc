"""What hurts in other simulators, so that it does not happen in this one. Each test names its
trap."""

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import NAMES, a_sixth, every_algorithm
from simulator.analysis.bounds import best_bound
from simulator.collectives import algorithms
from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    SEND_RECV,
    Collective,
)
from simulator.collectives.posted_exchanges import places
from simulator.collectives.ring import ring_all_reduce
from simulator.engines import Engine, simulate
from simulator.schedules import semantics
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import WrongResult
from topologies.link import Link
from topologies.shapes import SHAPES, full_mesh, line, ring, star
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder
from topologies.units import parse_bandwidth, parse_bytes

MANY = (10, 16)
"""Of 9..20: the others are in the exhaustive tests."""
REST = tuple(sorted({*range(9, 21)} - {*MANY}))
engines = pytest.mark.parametrize("engine", ["reference", "compiled"])


# LogGOPSim: a sort that is not stable; its own ring deadlocks from nine ranks up, with exit code 0.


@engines
@pytest.mark.parametrize("ranks", range(9, 21))
def test_a_ring_of_more_than_nine_ranks_runs_to_its_end_in_order(
    ranks: int, engine: Engine
) -> None:
    """Every operation takes its turn: step k from k·V/(pβ) to (k+1)·V/(pβ), none is lost and none
    overtakes."""
    schedule = ring_all_reduce(ranks, float(ranks))
    timeline = simulate(schedule, ring(ranks, bandwidth=1.0), engine)
    step = np.repeat(np.arange(2 * (ranks - 1)), ranks)
    assert np.array_equal(timeline.start, step)
    assert np.array_equal(timeline.finish, step + 1)
    assert np.array_equal(timeline.ready, step)
    assert timeline.makespan == 2 * (ranks - 1)


@engines
@each_case("ranks", range(9, 21))
def test_who_is_first_in_line_is_served_first(ranks: int, engine: Engine) -> None:
    """All to one at the same instant: the order is the order in which they were written, 10 not
    before 2."""
    builder = ScheduleBuilder(ranks, 1.0)
    builder.reduce(np.arange(1, ranks), 0, slot=0)
    timeline = simulate(builder.build(), star(ranks, bandwidth=1.0), engine)
    assert timeline.finish.tolist() == list(range(1, ranks))


def check_all_run(name: str, ranks: int, engine: Engine) -> None:
    schedule = algorithms()[name].build(ranks, float(ranks))
    timeline = simulate(schedule, star(schedule.ranks, bandwidth=1.0, latency=1.0), engine)
    remote = schedule.remote
    assert np.all(timeline.finish[remote] >= timeline.start[remote] + 2.0)
    for i in range(len(schedule)):
        assert timeline.ready[i] == timeline.finish[schedule.predecessors(i)].max(initial=0.0)
        assert timeline.start[i] >= timeline.ready[i]


@engines
@pytest.mark.parametrize("name", a_sixth(NAMES, 2))
def test_no_operation_is_left_behind(name: str, engine: Engine) -> None:
    for ranks in MANY:
        check_all_run(name, ranks, engine)


@pytest.mark.exhaustive
@engines
@every_algorithm
def test_no_operation_is_left_behind_at_any_count(name: str, engine: Engine) -> None:
    for ranks in REST:
        check_all_run(name, ranks, engine)


# ASTRA-sim: "GB/s" that are GiB/s.


def send(nbytes: float, topology: Topology, chunks: int = 1, engine: Engine = "reference") -> float:
    """Seconds for rank 0 to send a buffer to the last rank, in equal chunks."""
    builder = ScheduleBuilder(topology.ranks, nbytes, slots=chunks)
    builder.copy(0, topology.ranks - 1, slot=np.arange(chunks))
    return simulate(builder.build(), topology, engine).makespan


def test_a_gb_s_moves_a_gb_a_second() -> None:
    assert send(parse_bytes("1GB"), line(2, bandwidth=parse_bandwidth("1GB/s"))) == 1.0
    assert send(parse_bytes("1GiB"), line(2, bandwidth=parse_bandwidth("1GiB/s"))) == 1.0
    assert send(parse_bytes("1GiB"), line(2, bandwidth=parse_bandwidth("1GB/s"))) == 1.073741824
    assert send(parse_bytes("50GB"), line(2, bandwidth=parse_bandwidth("400Gbit/s"))) == 1.0


# ASTRA-sim: chunks in flight that do not share a link, so that a run beats the bandwidth bound.


@engines
@pytest.mark.parametrize("shape", SHAPES)
def test_chunks_in_flight_share_their_links(shape: str, engine: Engine) -> None:
    """However it is cut, V takes V/β on its way, and with α = g = 0 no longer either."""
    topology = SHAPES[shape](2, bandwidth=10.0)
    for chunks in (1, 2, 3, 8, 64, 1000):
        assert send(1000.0, topology, chunks, engine) == pytest.approx(100.0, rel=1e-12)


@given(st.integers(1, 40), st.integers(2, 6), st.floats(0, 1), st.floats(0, 1))
def test_no_number_of_chunks_beats_the_bound(
    chunks: int, ranks: int, latency: float, gap: float
) -> None:
    """Every rank sends its buffer to the next in chunks, all at once."""
    builder = ScheduleBuilder(ranks, 100.0, slots=chunks, scratch=chunks)
    rank = np.repeat(np.arange(ranks), chunks)
    slot = np.tile(np.arange(chunks), ranks)
    builder.copy(rank, (rank + 1) % ranks, slot=slot, target=slot + chunks)
    for make in (ring, star, full_mesh):
        topology = make(ranks, bandwidth=10.0, latency=latency, gap=gap)
        bound = best_bound(SEND_RECV, topology, ranks, 100.0)
        assert simulate(builder.build(), topology, "reference").makespan >= bound.seconds * (
            1 - 1e-12
        )


@engines
def test_transfers_of_different_senders_share_the_receivers_port(engine: Engine) -> None:
    builder = ScheduleBuilder(5, 10.0)
    builder.reduce([1, 2, 3, 4], 0, slot=0)
    assert simulate(builder.build(), star(5, bandwidth=1.0), engine).makespan == 40.0


@engines
def test_both_directions_of_a_wire_are_two_media_and_both_of_a_bus_are_one(engine: Engine) -> None:
    builder = ScheduleBuilder(2, 10.0, scratch=1)
    builder.copy([0, 1], [1, 0], slot=0, target=1)
    schedule = builder.build()
    assert simulate(schedule, line(2, bandwidth=1.0), engine).makespan == 10.0
    assert simulate(schedule, SHAPES["bus"](2, bandwidth=1.0), engine).makespan == 20.0


# ASTRA-sim: a switch that stores and forwards whole chunks, so that a tuning knob doubles the time.


@engines
@pytest.mark.parametrize("chunks", [1, 2, 4, 16, 100])
def test_a_switch_does_not_store_and_forward(chunks: int, engine: Engine) -> None:
    """Through a star: 2α + V/β for any number of chunks; a switch that stored chunks would take
    2V/β for one."""
    assert send(1000.0, star(3, bandwidth=10.0, latency=0.5), chunks, engine) == pytest.approx(
        101.0, rel=1e-12
    )


@engines
@pytest.mark.parametrize("hops", [1, 2, 5, 9])
def test_every_hop_adds_its_latency_and_nothing_else(hops: int, engine: Engine) -> None:
    assert (
        send(1000.0, line(hops + 1, bandwidth=10.0, latency=0.5), engine=engine)
        == 100.0 + hops * 0.5
    )


@engines
@pytest.mark.parametrize("slow", range(4))
def test_the_slowest_link_sets_the_pace_wherever_it_is(slow: int, engine: Engine) -> None:
    builder = TopologyBuilder("line")
    names = [builder.device(f"d{k}") for k in range(5)]
    for k in range(4):
        builder.connect(names[k], names[k + 1], Link(2.0 if k == slow else 10.0, 0.25, 1.0))
    assert send(1000.0, builder.build(names), engine=engine) == 500.0 + 1.0 + 4 * 0.25


# SimAI: a table of latencies for seven rank counts and zero for every other. calculon: one latency
# whatever the algorithm or the number of ranks.


@cache
def build(name: str, ranks: int) -> Schedule:
    return algorithms()[name].build(ranks, 1.0)


def latency_of(name: str, ranks: int) -> float:
    schedule = build(name, ranks)
    return simulate(
        schedule, star(schedule.ranks, bandwidth=float("inf"), latency=0.5), "compiled"
    ).makespan


def check_latency(name: str, counts: Iterable[int]) -> None:
    """A route through the star costs 1 s, so that the time is the number of steps: not only for
    powers of two."""
    for ranks in counts:
        assert latency_of(name, ranks) == build(name, ranks).steps > 0


@pytest.mark.parametrize("name", a_sixth(NAMES, 3))
def test_no_rank_count_is_free_of_latency(name: str) -> None:
    check_latency(name, (2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_no_rank_count_to_33_is_free_of_latency(name: str) -> None:
    check_latency(name, range(2, 34))


def test_latency_depends_on_the_algorithm_and_on_the_number_of_ranks() -> None:
    by_hand = {
        "ring": {2: 2, 3: 4, 5: 8, 8: 14, 9: 16, 16: 30, 17: 32},
        "ring_all_gather": {2: 1, 3: 2, 5: 4, 8: 7, 9: 8},
        "tree": {2: 2, 3: 4, 4: 4, 5: 6, 8: 6, 9: 8, 16: 8, 17: 10},
        "tree_broadcast": {2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 9: 4},
        "recursive_doubling": {2: 1, 3: 3, 4: 2, 5: 4, 7: 4, 8: 3, 9: 5},
        "halving_doubling": {2: 2, 3: 4, 4: 4, 5: 6, 8: 6, 9: 8},
        "naive": {2: 1, 3: 1, 9: 1},
        "naive_serial": {2: 2, 3: 3, 9: 9},
        "parameter_server": {2: 2, 3: 2, 9: 2},
        "pairwise": {2: 1, 3: 1, 9: 1},
    }
    for name, wanted in by_hand.items():
        assert {ranks: latency_of(name, ranks) for ranks in wanted} == wanted


@pytest.mark.parametrize("name", a_sixth(NAMES, 4))
def test_every_rank_count_is_right_and_takes_time(name: str) -> None:
    for ranks in (2, 3, 5, 6, 7, 11, 13, 17, 31, 33):
        schedule = algorithms()[name].build(ranks, 1e6)
        semantics.check(schedule, algorithms()[name].collective)
        topology = star(schedule.ranks, bandwidth=1e6, latency=1e-3)
        bound = best_bound(algorithms()[name].collective, topology, ranks, 1e6)
        assert simulate(schedule, topology, "compiled").makespan >= bound.seconds * (1 - 1e-12) > 0


# msccl-tools: a check that prints and returns False, so that a wrong schedule exits 0. GOAL: no
# identity of data.


def ring_with(ranks: int, steps: int, shift: int = 0, hop: int = 1) -> Schedule:
    """A ring reduce-scatter with its parameters turned."""
    builder = ScheduleBuilder(ranks, float(ranks), slots=ranks)
    rank = np.arange(ranks)
    for step in range(steps):
        builder.reduce(rank, (rank + hop) % ranks, slot=(rank - step - 1 + shift) % ranks)
    return builder.build()


def empty_schedule(ranks: int) -> Schedule:
    return ScheduleBuilder(ranks, float(ranks), slots=ranks).build()


def overwriting_ring(ranks: int) -> Schedule:
    """Copies where it should add."""
    builder = ScheduleBuilder(ranks, float(ranks), slots=ranks)
    rank = np.arange(ranks)
    for step in range(ranks - 1):
        builder.copy(rank, (rank + 1) % ranks, slot=(rank - step - 1) % ranks)
    return builder.build()


def adding_gather(ranks: int) -> Schedule:
    """Adds where it should copy."""
    return ring_with(ranks, ranks - 1, shift=1)


def star_from(root: int, ranks: int) -> Schedule:
    """A broadcast from another root."""
    builder = ScheduleBuilder(ranks, 1.0)
    builder.copy(root, np.delete(np.arange(ranks), root), slot=0)
    return builder.build()


def eager_server(ranks: int) -> Schedule:
    """Rank 0 answers before the last worker has pushed."""
    builder = ScheduleBuilder(ranks, 1.0)
    builder.reduce(np.arange(1, ranks - 1), 0, slot=0)
    builder.copy(0, np.arange(1, ranks), slot=0)
    builder.reduce(ranks - 1, 0, slot=0)
    return builder.build()


def all_reduce_that_keeps_garbage(ranks: int) -> Schedule:
    """The naive one, with an inbox too many: scratch holds garbage until it is written."""
    builder = ScheduleBuilder(ranks, 1.0, scratch=ranks)
    rank = np.arange(ranks)
    for turn in range(1, ranks):
        builder.copy(rank, (rank + turn) % ranks, slot=0, target=ranks - turn)
    for inbox in range(1, ranks + 1):
        builder.reduce(rank, rank, slot=inbox, target=0)
    return builder.build()


WRONG: dict[str, tuple[Callable[[int], Schedule], Collective]] = {
    "a ring of one step too few": (lambda p: ring_with(p, p - 2), REDUCE_SCATTER),
    "a ring that goes round twice": (lambda p: ring_with(p, 2 * p - 1), REDUCE_SCATTER),
    "a ring that ends one rank early": (lambda p: ring_with(p, p - 1, shift=1), REDUCE_SCATTER),
    "a ring that turns the wrong way": (lambda p: ring_with(p, p - 1, hop=p - 1), REDUCE_SCATTER),
    "a ring that overwrites": (overwriting_ring, REDUCE_SCATTER),
    "a gather that adds": (adding_gather, ALL_GATHER),
    "half an all-reduce": (lambda p: ring_with(p, p - 1), ALL_REDUCE),
    "nothing at all": (empty_schedule, ALL_REDUCE),
    "nothing for a gather": (empty_schedule, ALL_GATHER),
    "a broadcast from rank 1": (lambda p: star_from(1, p), BROADCAST),
    "a server that answers early": (eager_server, ALL_REDUCE),
    "garbage added in": (all_reduce_that_keeps_garbage, ALL_REDUCE),
}


@each_case("ranks", [3, 4, 8, 10])
@each_case("story", WRONG)
def test_a_wrong_schedule_is_never_reported_as_right(story: str, ranks: int) -> None:
    make, collective = WRONG[story]
    schedule = make(ranks)
    for seed in range(3):
        with pytest.raises(WrongResult, match=f"{collective.name}: .* results are wrong"):
            semantics.check(schedule, collective, seed)


def test_who_is_told_that_a_schedule_is_wrong_is_told_where() -> None:
    with pytest.raises(
        WrongResult, match=r"^broadcast: 3 of 3 results are wrong, first slot 0 of rank 0$"
    ):
        semantics.check(star_from(1, 3), BROADCAST)


@pytest.mark.parametrize("name", a_sixth(NAMES, 5))
def test_an_algorithm_is_wrong_for_every_other_collective(name: str) -> None:
    """Nothing passes by accident: what an algorithm does is one collective, or a stronger one."""
    mine = algorithms()[name].collective
    stronger = {
        "all_reduce": {"all_reduce", "reduce_scatter", "reduce"},
        "all_gather": {"all_gather", "gather"},
        "broadcast": {"broadcast", "scatter"},
        "all_to_all": {"all_to_all", "incast"},
        "permutation": {"permutation", "send"},
        "bisection": {"bisection", "ping_pong"},
        "gloo_reduce": {"reduce", "reduce_scatter"},
    }
    kept = stronger.get(name) or stronger.get(mine.family, {mine.name, mine.family})
    chunked = {"reduce_scatter", "all_gather", "all_to_all", "scatter", "gather"}
    schedule = algorithms()[name].build(6, 6.0)
    for collective in {algorithm.collective for algorithm in algorithms().values()}:
        if collective.causal:
            continue
        pairs = collective.pairs if not collective.merges else None
        if pairs and schedule.buffer != places(pairs(6), 6).shares.shape[1]:
            with pytest.raises(ValueError, match="slots: the pattern has"):
                semantics.check(schedule, collective)
        elif not pairs and schedule.buffer % 6 and collective.family in chunked:
            with pytest.raises(ValueError, match="slots do not cut into 6 chunks"):
                semantics.check(schedule, collective)
        elif {collective.name, collective.family} & kept:
            semantics.check(schedule, collective)
        else:
            with pytest.raises(WrongResult):
                semantics.check(schedule, collective)


def test_a_contribution_that_counts_twice_and_one_that_is_missing_do_not_cancel() -> None:
    """Sums of small equal numbers would hide it: rank 1 twice, rank 2 never."""
    builder = ScheduleBuilder(3, 1.0)
    builder.reduce([1, 1], 0, slot=0)
    builder.copy(0, [1, 2], slot=0)
    with pytest.raises(WrongResult):
        semantics.check(builder.build(), ALL_REDUCE)
