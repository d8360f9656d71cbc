"""Rings that are made for the machine, and the ranks of a node."""

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from folded import assert_alike, groups
from grouped_cases import each_case
from law_cases import a_third, tries
from simulator.collectives import Algorithm, algorithms, find
from simulator.collectives.layouts import by_place, ranks_of_a_node, ranks_of_each_node
from simulator.collectives.rings import rings_all_gather, rings_all_reduce, rings_reduce_scatter
from simulator.engines import Engine, simulate
from simulator.schedules import semantics
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, fold, rotations
from topologies.clusters import cluster
from topologies.ring_search import find_rings, shifted
from topologies.shapes import nodes, ring, star
from topologies.topology import Topology
from topologies.variants import placed, slowed

BUILDS: dict[str, Callable[..., Schedule]] = {
    "rings": rings_all_reduce,
    "rings_reduce_scatter": rings_reduce_scatter,
    "rings_all_gather": rings_all_gather,
}


@pytest.mark.parametrize("name", BUILDS)
@given(seed=st.integers(0, 2**32 - 1), ranks=st.integers(2, 9), channels=st.integers(1, 4))
def test_any_orders_compute_what_the_collective_promises(
    name: str, seed: int, ranks: int, channels: int
) -> None:
    rng = np.random.default_rng(seed)
    orders = np.array([rng.permutation(ranks) for _ in range(channels)])
    schedule = BUILDS[name](ranks, 1024.0, orders)
    semantics.check(schedule, find(name).collective, seed % 1000)
    cost = find(name).cost
    assert schedule.steps == cost.steps(ranks)
    assert schedule.volume == pytest.approx(cost.volume(ranks) * 1024.0)


def test_one_ring_in_rank_order_is_the_ring() -> None:
    single_ring, plain = rings_all_reduce(6, 600.0), find("ring").build(6, 600.0)
    for column in ("rank", "peer", "source", "target", "nbytes", "lane", "indptr", "indices"):
        assert np.array_equal(getattr(single_ring, column), getattr(plain, column)), column


def test_each_ring_has_a_channel() -> None:
    schedule = rings_all_reduce(3, 3.0, np.array([[0, 1, 2], [2, 1, 0]]))
    backwards = (schedule.peer - schedule.rank) % 3 == 2
    assert np.array_equal(schedule.lane == 1, backwards)


def test_both_ways_round_a_ring_double_the_bandwidth() -> None:
    # p = 8, V = 800 B, 1 B/s: 14 steps of 100 B in one direction, of 50 B in both.
    machine = ring(8, bandwidth=1.0, latency=0.5)
    two_rings = find("rings").on(machine, 8, 800.0)
    assert len(two_rings.chosen) == 2
    assert simulate(two_rings.schedule, two_rings.topology).makespan == 14 * 50.5
    assert simulate(find("ring").build(8, 800.0), machine).makespan == 14 * 100.5


def test_a_star_has_one_ring_and_its_closed_form() -> None:
    fitted = find("rings").on(star(5, bandwidth=1.0), 5, 10.0)
    assert fitted.cost == find("ring").cost
    assert fitted.chosen == ("channel 0: 0 1 2 3 4",)


@pytest.mark.parametrize(
    ("machine", "nodes", "rate"),
    # Bytes/s handed on by all rings: NVLinks of a GPU inside; PCIe to eight NICs, or four NICs of
    # 25 GB/s, between.
    [
        *(("dgx1", 1, 120e9), ("hgx_h100", 1, 370.8e9), ("hgx_h100", 2, 384e9)),
        *(("mn5_acc", 4, 100e9), ("dgx_a100", 2, 192e9)),
    ],
)
def test_large_all_reduces_reach_what_the_links_carry(
    machine: str, nodes: int, rate: float
) -> None:
    topology = cluster(machine, nodes)
    fitted = find("rings").on(topology, topology.ranks, 2.0**34)
    p, time = topology.ranks, simulate(fitted.schedule, fitted.topology).makespan
    ideal = 2 * (p - 1) / p * 2.0**34 / rate
    assert ideal * (1 - 1e-9) <= time <= 1.01 * ideal
    assert fitted.cost.unclaimed == (
        "" if len(fitted.chosen) == 1 else f"{len(fitted.chosen)} rings"
    )


@pytest.mark.parametrize(("ranks", "nics"), [(9, 1), (12, 4), (15, 6)])
def test_a_last_node_that_is_not_full_has_rings_over_its_nics_too(ranks: int, nics: int) -> None:
    """NICs of 48 GB/s: as many as the smaller node has ranks, or nearly."""
    assert find_rings(cluster("hgx_h100", 2), ranks).bandwidth >= 48e9 * nics * (1 - 1e-9)


def test_ranks_that_share_a_device_have_rings() -> None:
    topology = cluster("dgx1")
    shared = replace(topology, placement=np.repeat(topology.placement[:2], 2))
    assert sorted(find_rings(shared, 4).orders[0].tolist()) == [0, 1, 2, 3]
    shared_device = replace(topology, placement=np.repeat(topology.placement[:1], 2))
    assert find_rings(shared_device, 2).bandwidth == np.inf


CLUSTERS = st.builds(
    cluster,
    st.sampled_from(("dgx_a100", "hgx_h100", "mn5_acc", "mi300x", "pcie_box")),
    st.integers(2, 4),
    network=st.sampled_from(("rails", "leaf_spine")),
    nics=st.sampled_from((None, 4)),
)


@pytest.mark.parametrize("name", a_third(BUILDS, 0))
@settings(max_examples=12)
@given(topology=CLUSTERS, data=st.data())
def test_folded_rings_are_the_whole_ones(
    name: str, topology: Topology, data: st.DataObject
) -> None:
    """Shifts of nodes, and of places with their channels; with and without a slow GPU."""
    segments = data.draw(st.sampled_from(["", ":segments=4"]))
    algorithm, ranks = find(name + segments), topology.ranks
    assert algorithm.shifts_on is not None
    if data.draw(st.booleans()):
        topology = slowed(topology, data.draw(st.integers(0, ranks - 1)), 2.0)
    group = data.draw(st.sampled_from([*groups(algorithm.shifts_on(topology, ranks))]))
    try:
        fitted = algorithm.on(topology, ranks, 64.0 * ranks, group)
        folded = simulate(fitted.schedule, fitted.topology, "compiled")
    except NotSymmetric:
        return
    semantics.check(fitted.schedule, algorithm.collective)
    whole = simulate(*algorithm.on(topology, ranks, 64.0 * ranks)[:2], "compiled")
    assert_alike(whole, folded)


def test_segments_of_rings_save_latency_and_keep_the_promise() -> None:
    topology = cluster("hgx_h100", 2)
    times = []
    for name in ("rings", "rings:segments=4"):
        algorithm = find(name)
        fitted = algorithm.on(topology, 16, 1e6)
        semantics.check(fitted.schedule, algorithm.collective)
        times.append(simulate(*fitted[:2], "compiled").makespan)
    assert times[1] < times[0]
    assert len(fitted.schedule) == 4 * 8 * 2 * 16 * 15


def test_a_rank_stands_for_those_that_a_shift_of_places_reaches() -> None:
    topology, algorithm = cluster("hgx_h100", 3), find("rings")
    group = Shifts((3, 4, 2), (1, 1, 1))
    schedule = algorithm.on(topology, 24, 24.0, group).schedule
    assert (schedule.members, {*schedule.rank.tolist()}) == (24, {0})
    assert sorted({*schedule.lane.tolist()}) == [*range(8)]
    whole = algorithm.on(topology, 24, 24.0).schedule
    assert (schedule.volume, schedule.steps) == (whole.volume, whole.steps)


def test_rings_that_are_not_alike_refuse_shifts_of_places() -> None:
    orders = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    with pytest.raises(NotSymmetric, match="rings are laid in another way"):
        rings_all_reduce(4, 8.0, orders, Shifts((2, 2), (1, 1)), box=(2,))


def test_a_ring_that_is_cut_elsewhere_refuses_several_ranks() -> None:
    """Of ranks 0 and 1 the first goes first, of ranks 2 and 3 the last: numbers go back round the
    ring."""
    back = np.array([[0, 3, 2, 1]])
    with pytest.raises(NotSymmetric, match="another order round a ring"):
        rings_all_reduce(4, 4.0, back, rotations(4, 2))
    assert rings_all_reduce(4, 4.0, back, rotations(4)).members == 4


@pytest.mark.parametrize("name", BUILDS)
@tries(7, 30)
@given(data=st.data())
def test_any_alike_rings_fold_or_are_refused(name: str, data: st.DataObject) -> None:
    """Rings of any first order, shifted, over nodes whose GPUs share a port."""
    box = data.draw(st.sampled_from([(2,), (4,), (2, 2)]))
    size, count = prod(box), data.draw(st.integers(2, 3))
    pattern = np.array(data.draw(st.permutations(range(size))))
    first = (np.arange(count)[:, None] * size + pattern).ravel()
    orders = first - first % size + shifted(box)[:, first % size]
    shape, ranks = (count, *box), count * size
    group = data.draw(st.sampled_from([*groups(Shifts(shape, (1,) * len(shape)))]))
    latency = data.draw(st.sampled_from((0.0, 0.5)))
    topology = nodes(ranks, bandwidth=2.0, latency=latency, per_node=size)
    try:
        schedule = BUILDS[name](ranks, 4.0 * ranks, orders, group, box=box)
        folded = simulate(schedule, topology, "compiled")
    except NotSymmetric:
        event("refused")
        return
    event("folded")
    semantics.check(schedule, find(name).collective)
    whole = BUILDS[name](ranks, 4.0 * ranks, orders, box=box)
    assert_alike(simulate(whole, topology, "compiled"), folded)


BY_PLACE = [algorithm for algorithm in algorithms().values() if algorithm.by_place]


def test_ranks_of_a_node() -> None:
    assert ranks_of_a_node(star(4, bandwidth=1e9), 4) == 1
    assert ranks_of_a_node(cluster("hgx_h100", 2), 16) == 8
    assert ranks_of_a_node(cluster("hgx_h100", 2), 4) == 4


def test_ranks_of_each_node() -> None:
    machine = cluster("hgx_h100", 3)
    assert [ranks_of_each_node(machine, ranks) for ranks in (4, 8, 12, 16, 24)] == [4, 8, 1, 8, 8]
    assert ranks_of_each_node(placed(machine, "round-robin"), 24) == 1
    assert ranks_of_each_node(star(4, bandwidth=1e9), 4) == 1


def test_all_ranks_are_there_once() -> None:
    builder = ScheduleBuilder(12, 1.0)
    assert by_place(builder, 4).tolist() == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    assert by_place(builder, 1).tolist() == [[*range(12)]]
    folded = ScheduleBuilder(fold(12, rotations(12, 4)), 1.0)
    assert by_place(folded, 4).tolist() == [[0], [1], [2], [3]]
    for stride in (1, 2, 6):
        with pytest.raises(NotSymmetric, match="other places"):
            by_place(ScheduleBuilder(fold(12, rotations(12, stride)), 1.0), 4)


def waits(schedule: Schedule) -> dict[tuple[int, ...], set[tuple[int, ...]]]:
    """What each operation waits for. Here operations are told by what they do."""
    names = "rank", "peer", "source", "target", "count", "phase"
    rows = np.stack([getattr(schedule, name) for name in names], axis=1).tolist()
    keys = [tuple(row) for row in rows]
    assert len({*keys}) == len(keys)
    return {
        key: {keys[other] for other in schedule.predecessors(number).tolist()}
        for number, key in enumerate(keys)
    }


@each_case("algorithm", BY_PLACE)
@each_case(("ranks", "per_node"), [(4, 2), (8, 4), (12, 2), (12, 4)])
def test_places_change_the_numbers_alone(algorithm: Algorithm, ranks: int, per_node: int) -> None:
    topology = nodes(ranks, bandwidth=1.0, per_node=per_node)
    on_machine = algorithm.on(topology, ranks, 4.0 * ranks).schedule
    assert waits(on_machine) == waits(algorithm.build(ranks, 4.0 * ranks))


@given(algorithm=st.sampled_from(BY_PLACE), data=st.data())
def test_ranks_of_a_node_stand_for_those_of_all(algorithm: Algorithm, data: st.DataObject) -> None:
    """They share a port, and meet there."""
    per_node = data.draw(st.sampled_from((1, 2, 3, 4)))
    ranks = per_node * data.draw(st.integers(2, 6))
    topology = nodes(
        ranks,
        bandwidth=2.0,
        latency=data.draw(st.sampled_from((0.0, 0.5))),
        per_node=per_node,
        reduction=data.draw(st.sampled_from((0.0, 0.25))),
    )
    engine: Engine = data.draw(st.sampled_from(("reference", "compiled")))
    group = data.draw(st.sampled_from([None, *groups(algorithm.shifts(ranks))]))
    if group is None:
        return
    try:
        fitted = algorithm.on(topology, ranks, 4.0 * ranks, group)
        folded = simulate(fitted.schedule, topology, engine)
    except NotSymmetric:
        event("refused")
        return
    event("folded")
    whole = simulate(algorithm.on(topology, ranks, 4.0 * ranks).schedule, topology, engine)
    assert_alike(whole, folded)
