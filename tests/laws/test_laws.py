"""The five laws: every algorithm keeps its promise in any order, every operation matters, the
engines agree.

(1) the postcondition; (2) any topological order gives the same result; (3) dropping any transfer or
doubling any reduction is caught; (4) volume and steps equal the closed form; (5) reference and
compiled engines agree to the bit.
"""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import (
    COUNTS,
    NAMES,
    PLAIN,
    SOME,
    a_sixth,
    build,
    counts,
    every_algorithm,
    every_count,
    every_plain_algorithm,
    orders,
    tries,
)
from refusals import refusal
from simulator.analysis import memory
from simulator.collectives import algorithms, find
from simulator.cost_models import is_power_of_two
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.schedule import TRANSFER
from simulator.schedules.semantics import WrongResult
from topologies.shapes import SHAPES, full_mesh

# (1) The postcondition.


@every_count
@every_plain_algorithm
def test_every_algorithm_keeps_its_promise(name: str, several: tuple[int, ...]) -> None:
    for ranks in counts(name, several):
        for seed in range(3):
            semantics.check(build(name, ranks), algorithms()[name].collective, seed)


@given(st.sampled_from(NAMES), st.integers(2, 33), st.integers(0, 2**32 - 1))
@tries(7, 30)
def test_promises_are_kept_at_any_count_and_on_any_data(name: str, ranks: int, seed: int) -> None:
    semantics.check(build(name, ranks), algorithms()[name].collective, seed)


def test_every_collective_of_the_design_has_an_algorithm() -> None:
    promised = {algorithm.collective.name for algorithm in algorithms().values()}
    reducing = {"all_reduce", "reduce_scatter", "reduce"}
    moving = {"all_gather", "broadcast", "scatter", "gather", "all_to_all", "send_recv"}
    sums = {"scan", "exscan", "gossip_ring", "gossip_exponential", "map_reduce"}
    uneven = {"all_gatherv", "reduce_scatterv", "gatherv", "scatterv", "all_to_allv"}
    exchanges = {"send", "permutation", "incast", "bisection", "halo_exchange", "stage_exchange"}
    assert promised >= reducing | moving | exchanges | sums | uneven
    assert promised >= {"neighbor_all_to_all", "ring_exchange", "ping_pong", "barrier"}


def check_orders(name: str, ranks: int, random: Random) -> None:
    schedule = build(name, ranks)
    data = semantics.inputs(schedule, random.randrange(2**32))
    wanted = semantics.run(schedule, data)
    for order in orders(schedule, random):
        assert np.array_equal(semantics.run(schedule, data, order), wanted)


@every_algorithm
@given(ranks=st.integers(2, 9), random=st.randoms(use_true_random=False))
@tries(2, many=20)
def test_any_topological_order_gives_the_same_result(name: str, ranks: int, random: Random) -> None:
    check_orders(name, ranks, random)


@pytest.mark.exhaustive
@every_plain_algorithm
def test_any_topological_order_gives_the_same_result_at_every_count(name: str) -> None:
    for ranks in counts(name, (*COUNTS, 64)):
        for seed in range(3):
            check_orders(name, ranks, Random(seed))


@pytest.mark.parametrize("name", a_sixth(NAMES, 5))
def test_the_order_of_service_is_a_topological_one(name: str) -> None:
    """What the engine ran, in the order in which it ran, is right too."""
    schedule = build(name, 6)
    topology = SHAPES["star"](schedule.ranks, bandwidth=1e6, latency=1e-3, gap=1e-3, reduction=1e-6)
    order = np.argsort(simulate(schedule, topology, "reference").finish, kind="stable").astype(
        np.int32
    )
    semantics.check(schedule, algorithms()[name].collective, order=order)


# (3) Every operation matters.


def check_drops(name: str, ranks: int) -> None:
    schedule = build(name, ranks)
    every = np.arange(len(schedule), dtype=np.int32)
    for i in np.flatnonzero((schedule.source >= 0) & (schedule.kind == TRANSFER)):
        with pytest.raises(WrongResult):
            semantics.check(schedule, algorithms()[name].collective, order=np.delete(every, i))


def check_doubles(name: str, ranks: int) -> None:
    schedule = build(name, ranks)
    every = np.arange(len(schedule), dtype=np.int32)
    for i in np.flatnonzero(schedule.reduces):
        with pytest.raises(WrongResult):
            semantics.check(
                schedule, algorithms()[name].collective, order=np.insert(every, i, every[i])
            )


@every_plain_algorithm
def test_dropping_any_transfer_is_caught(name: str) -> None:
    for ranks in counts(name, SOME[:4]):
        check_drops(name, ranks)


@pytest.mark.parametrize("name", a_sixth(PLAIN, 0))
def test_doubling_any_reduction_is_caught(name: str) -> None:
    for ranks in counts(name, SOME[:4]):
        check_doubles(name, ranks)


@pytest.mark.exhaustive
@every_plain_algorithm
def test_every_operation_matters_at_every_count(name: str) -> None:
    for ranks in counts(name, (5, *range(7, 18))):
        check_drops(name, ranks)
        check_doubles(name, ranks)


# (4) Volume and steps.


@every_count
@every_plain_algorithm
def test_volume_and_steps_equal_the_closed_form(name: str, several: tuple[int, ...]) -> None:
    cost = algorithms()[name].cost
    for ranks in counts(name, several):
        schedule = build(name, ranks)
        assert schedule.volume == pytest.approx(cost.volume(ranks) * (ranks * 1024.0), rel=1e-12)
        assert schedule.steps == cost.steps(ranks)


@every_count
@every_plain_algorithm
def test_no_schedule_moves_less_than_its_collective_must(
    name: str, several: tuple[int, ...]
) -> None:
    for ranks in counts(name, several):
        schedule, collective = build(name, ranks), algorithms()[name].collective
        nbytes = schedule.nbytes_total
        received = np.bincount(
            schedule.peer[schedule.remote], schedule.nbytes[schedule.remote], schedule.ranks
        )
        followers = slice(1, schedule.workers)
        sends, receives = (
            np.broadcast_to(least(ranks), ranks)[followers] * nbytes * (1 - 1e-12)
            for least in (collective.sends, collective.receives)
        )
        assert schedule.volume >= collective.volume(ranks) * nbytes * (1 - 1e-12)
        assert np.all(schedule.sent()[followers] >= sends)
        assert np.all(received[followers] >= receives)


WHERE_MESSAGES_MEET = {
    *("k_nomial_reduce", "double_tree", "optimal", "optimal_reduce_scatter"),
    *("byteps", "forwarded_all_to_allv"),
}
"""Algorithms whose pieces meet on the way, so that no form says what is held."""
UNCLAIMED = [name for name in PLAIN if algorithms()[name].cost.unclaimed]


@pytest.mark.parametrize("name", sorted({*UNCLAIMED} - WHERE_MESSAGES_MEET))
def test_memory_is_that_of_the_form_where_no_time_is_claimed(name: str) -> None:
    """On a mesh; the inboxes of gloo fill up while its signals are on their way."""
    cost, latency = algorithms()[name].cost, 0.5 if name.startswith("gloo") else 0.0
    for ranks in counts(name, SOME[:5]):
        schedule = build(name, ranks)
        mesh = full_mesh(ranks, bandwidth=512.0, latency=latency)
        usage = memory.trace(schedule, simulate(schedule, mesh))
        assert usage.peak == pytest.approx(cost.peak(ranks) * schedule.nbytes_total)
        assert usage.peak_redundant == pytest.approx(cost.redundant(ranks) * schedule.nbytes_total)


@every_algorithm
def test_an_algorithm_takes_the_ranks_and_servers_that_it_declares(name: str) -> None:
    schedule = build(name, 5)
    assert schedule.workers == 5
    assert schedule.ranks == 5 + algorithms()[name].servers


def test_an_algorithm_is_refused_for_ranks_for_which_it_is_not_defined() -> None:
    exchange = replace(find("recursive_doubling"), defined=is_power_of_two)
    assert exchange.build(8, 1.0).workers == 8
    assert refusal(exchange.build, 7, 1.0) == (
        "recursive_doubling does not exist for 7 ranks: take 4, or another algorithm"
    )
    rings = replace(find("rings"), defined=lambda ranks: ranks > 8)
    assert refusal(rings.on, SHAPES["ring"](8, bandwidth=1e9), 8, 1.0) == (
        "rings does not exist for 8 ranks: take 9, or another algorithm"
    )
