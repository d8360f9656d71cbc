"""Switches that reduce and multicast."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refusal
from simulator.analysis import memory
from simulator.analysis.bounds import best_bound
from simulator.collectives import find
from simulator.collectives.collective import ALL_REDUCE, Fitted
from simulator.collectives.in_network import (
    multimem_one_shot_all_reduce,
    nvls_all_reduce,
    nvls_tree_all_reduce,
    sharp_all_reduce,
)
from simulator.cost_models import machine_formulas
from simulator.cost_models.fabric import Fabric
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.clusters import cluster
from topologies.errors import InputError
from topologies.link import Link
from topologies.shapes import star
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder


def fit(name: str, topology: Topology, ranks: int, nbytes: float) -> Fitted:
    return find(name).on(topology, ranks, nbytes)


def reducing_star(
    ranks: int, latency: float = 0.0, gap: float = 0.0, *, node: int = -1
) -> Topology:
    builder = TopologyBuilder("reducing star")
    switch = builder.device("switch", "switch", in_network=True, node=node)
    gpus = [builder.device(f"gpu{rank}", node=node) for rank in range(ranks)]
    for gpu in gpus:
        builder.connect(gpu, switch, Link(1.0, latency, gap))
    return builder.build(gpus)


LEAVES = cluster("pcie_box", 40, network="leaf_spine", sharp=True)


@given(st.integers(2, 9), st.integers(1, 5), st.integers(0, 1000))
def test_sharp_on_one_switch_is_an_all_reduce(ranks: int, pieces: int, seed: int) -> None:
    schedule = sharp_all_reduce(ranks, 64.0, segments=pieces)
    semantics.check(schedule, ALL_REDUCE, seed)
    assert schedule.volume == pytest.approx(2 * ranks * 64.0)
    assert schedule.steps == 2


@given(st.lists(st.integers(0, 2), min_size=3, max_size=9), st.integers(1, 4))
def test_sharp_on_two_levels_is_an_all_reduce(leaves: list[int], pieces: int) -> None:
    leaf = np.unique(leaves, return_inverse=True)[1]
    semantics.check(sharp_all_reduce(len(leaves), 64.0, leaf, segments=pieces), ALL_REDUCE)


@given(st.integers(1, 4), st.integers(2, 5), st.booleans(), st.integers(1, 3), st.integers(0, 1000))
def test_nvls_is_an_all_reduce_and_counts_as_it_says(
    number: int, size: int, above: bool, pieces: int, seed: int
) -> None:
    above = above and number > 1
    groups = np.random.default_rng(seed).permutation(number * size).reshape(number, size)
    schedule = nvls_all_reduce(number * size, 64.0, groups, above=above, segments=pieces)
    semantics.check(schedule, ALL_REDUCE, seed)
    across = 2 * number if above else 2 * (number - 1)
    assert schedule.volume == pytest.approx((2 * number * size + number + across) * 64.0)
    assert schedule.steps == machine_formulas.nvls(pieces, number, in_network=above).steps(
        number * size
    )


def test_sharp_uses_every_rail() -> None:
    # V/48 GB/s through each NIC, 16 pieces up and the last one down through three switches.
    fitted = fit("sharp", cluster("hgx_h100", 2, sharp=True), 16, 2.0**30)
    time = simulate(fitted.schedule, fitted.topology).makespan
    assert fitted.schedule.switches == 9
    assert time == pytest.approx(2.0**30 / 48e9 * 19 / 16, rel=0.01)


@pytest.mark.parametrize("drop", [0, 3, -1])
def test_a_missing_or_doubled_contribution_is_caught(drop: int) -> None:
    for schedule in (sharp_all_reduce(3, 3.0, segments=2), nvls_all_reduce(3, 3.0, segments=2)):
        every = np.arange(len(schedule))
        doubled = int(np.flatnonzero(schedule.reduces)[drop])
        for order in (np.delete(every, drop), np.insert(every, doubled, doubled)):
            with pytest.raises(semantics.WrongResult):
                semantics.check(schedule, ALL_REDUCE, order=order.astype(np.int32))


@pytest.mark.parametrize("sharp", [False, True])
def test_nvls_between_nodes(sharp: bool) -> None:
    topology = cluster("hgx_h100", 2, sharp=sharp)
    fitted = fit("nvls", topology, 16, 2.0**30)
    semantics.check(fitted.schedule, ALL_REDUCE)
    assert fitted.schedule.switches == (10 if sharp else 2)
    assert (
        simulate(fitted.schedule, fitted.topology).makespan
        > best_bound(ALL_REDUCE, fitted.topology, 16, 2.0**30).seconds
    )


def test_leaves_are_joined_by_the_switch_whose_farthest_leaf_is_nearest() -> None:
    """One candidate is 1 s from a leaf and 10 s from the other; one is 3 s from both."""
    builder = TopologyBuilder("two leaves")
    leaves, spines = (
        [builder.device(name, "switch", in_network=True) for name in names]
        for names in (("leaf0", "leaf1"), ("beside", "between"))
    )
    gpus = [builder.device(f"gpu{rank}") for rank in range(4)]
    for rank, gpu in enumerate(gpus):
        builder.connect(gpu, leaves[rank // 2], Link(1.0))
    for spine, latencies in zip(spines, ((1.0, 10.0), (3.0, 3.0)), strict=True):
        for leaf, latency in zip(leaves, latencies, strict=True):
            builder.connect(leaf, spine, Link(1.0, latency))
    fitted = fit("sharp", builder.build(gpus), 4, 64.0)
    assert fitted.chosen == ("switches that reduce: leaf0, leaf1, between (3)",)


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        pytest.param("sharp", reducing_star(4), id="sharp on a switch"),
        pytest.param("sharp", LEAVES, id="sharp on two levels"),
        pytest.param("nvls", reducing_star(4, node=0), id="nvls in a node"),
        pytest.param("nvls", cluster("hgx_h100", 2), id="nvls between nodes"),
        pytest.param("nvls", cluster("hgx_h100", 2, sharp=True), id="nvls and sharp"),
    ],
)
def test_each_moves_and_holds_what_its_closed_form_says(name: str, machine: Topology) -> None:
    ranks, nbytes = machine.ranks, 2.0**20
    fitted = fit(name, machine, ranks, nbytes)
    usage = memory.trace(fitted.schedule, simulate(fitted.schedule, fitted.topology))
    assert fitted.schedule.volume == pytest.approx(fitted.cost.volume(ranks) * nbytes)
    assert fitted.schedule.steps == fitted.cost.steps(ranks)
    assert usage.peak >= fitted.cost.peak(ranks) * nbytes == nbytes
    assert usage.redundant[-1] == pytest.approx(fitted.cost.redundant(ranks) * nbytes)


@given(st.integers(2, 6), st.integers(1, 4), st.floats(0, 2), st.floats(0, 2))
def test_sharp_on_a_switch_takes_its_closed_form(
    ranks: int, pieces: int, latency: float, gap: float
) -> None:
    # Switches are the last ranks of the schedule.
    machine = reducing_star(ranks, latency, gap)
    switch = np.int32(machine.device_names.index("switch"))
    machine = replace(machine, placement=np.append(machine.placement, switch))
    timeline = simulate(sharp_all_reduce(ranks, 24.0, segments=pieces), machine)
    cost = machine_formulas.sharp(pieces)
    fabric = Fabric(1.0, latency, gap, reduction=0.0, ports="peer", uniform=True)
    assert cost.holds(fabric) == ""
    assert timeline.makespan == pytest.approx(cost.time(fabric, ranks, 24.0))


def test_closed_forms_by_hand() -> None:
    # 0.5 s of latency, 2 B/s and 8 bytes among four ranks: a rank sends 8 bytes and its share.
    fabric = Fabric(2.0, 0.5, reduction=0.0, ports="switch", uniform=True)
    assert machine_formulas.nvls(8).time(fabric, 4, 8.0) == 3 + 5
    assert machine_formulas.nvls(8, 2).time(fabric, 4, 8.0) == 3 + 6
    assert machine_formulas.sharp(4, 3).holds(fabric) == "two levels of switches"
    assert machine_formulas.sharp(4).holds(fabric) == "switch ports"
    assert machine_formulas.sharp(4, 2).volume(6) == 2 * (6 + 2)
    assert machine_formulas.sharp(4, 1).volume(6) == 2 * 6


def test_the_switches_that_take_part_are_named() -> None:
    assert fit("sharp", reducing_star(4), 4, 64.0).chosen == ("switches that reduce: switch (1)",)
    (words,) = fit("nvls", cluster("hgx_h100", 2, sharp=True), 16, 2.0**20).chosen
    assert words.startswith("switches that reduce: node0.nvswitch")
    assert words.endswith(" ... (10)")
    assert words.count(",") == 7


def test_machines_without_such_switches_are_refused() -> None:
    for name in ("sharp", "nvls"):
        with pytest.raises(InputError, match=r"that reduce, and topology .* has none"):
            fit(name, star(4, bandwidth=1.0), 4, 1.0)


def test_unequal_groups_are_refused() -> None:
    with pytest.raises(InputError, match="nvls: 8 ranks on one switch and 4 on another"):
        fit("nvls", cluster("hgx_h100", 2), 12, 1.0)


def test_a_schedule_cannot_reduce_in_a_plain_switch() -> None:
    plain = star(3, bandwidth=1.0)
    switch = np.int32(plain.device_names.index("switch"))
    with pytest.raises(InputError, match="rank 3 reduces in switch: no switch that can"):
        simulate(
            sharp_all_reduce(3, 3.0), replace(plain, placement=np.append(plain.placement, switch))
        )


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_nvls_in_many_pieces_takes_its_closed_form(ranks: int) -> None:
    """A worker has room for two pieces, so its port never idles: (1 + 1/p) V / β."""
    machine, nbytes = reducing_star(ranks, node=0), 2.0**20
    fitted = fit("nvls:segments=64", machine, ranks, nbytes)
    fabric = Fabric(1.0, 0.0, 0.0, reduction=0.0, ports="peer", uniform=True)
    best = fitted.cost.time(fabric, ranks, nbytes)
    assert best <= simulate(fitted.schedule, fitted.topology).makespan <= 1.03 * best


@pytest.mark.parametrize(("number", "size"), [(1, 4), (2, 3), (3, 2), (5, 4), (8, 2)])
def test_trees_across_nodes_add_up_all(number: int, size: int) -> None:
    groups = np.random.default_rng(size).permutation(number * size).reshape(number, size)
    schedule = nvls_tree_all_reduce(number * size, 64.0, groups, segments=3)
    semantics.check(schedule, ALL_REDUCE)
    cost = machine_formulas.nvls_tree(3, number)
    assert schedule.volume == pytest.approx(cost.volume(number * size) * 64.0)


def test_trees_have_fewer_latencies_than_rings_on_many_nodes() -> None:
    topology = cluster("hgx_h100", 8)

    def seconds(name: str) -> float:
        fitted = find(name).on(topology, 64, 1024.0)
        semantics.check(fitted.schedule, ALL_REDUCE)
        return simulate(fitted.schedule, fitted.topology).makespan

    assert seconds("nvls_tree:segments=1") < seconds("nvls:segments=1")


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_one_shot_reads_every_buffer_for_every_reader(ranks: int) -> None:
    schedule = multimem_one_shot_all_reduce(ranks, 1.0)
    semantics.check(schedule, ALL_REDUCE)
    cost = machine_formulas.MULTIMEM
    assert (schedule.volume, schedule.steps) == (cost.volume(ranks), cost.steps(ranks))


def test_one_shot_takes_one_node() -> None:
    message = refusal(find("multimem_one_shot").on, cluster("hgx_h100", 2), 16, 1.0)
    assert message.startswith("multimem_one_shot: 2 switches have ranks")
