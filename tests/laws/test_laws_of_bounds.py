"""No algorithm beats a bound, on shapes and on machines of the catalogue."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from itertools import cycle, islice, permutations, product
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import ANY_NUMBER, NAMES, every_algorithm, tries
from simulator.analysis.bounds import best_bound, bounds
from simulator.analysis.critical_path import critical_path, parts
from simulator.collectives import algorithms, find
from simulator.collectives.collective import ALL_REDUCE, REDUCE
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from topologies.catalogue import find as machine
from topologies.errors import InputError
from topologies.link import Link
from topologies.shapes import SHAPES, bus, full_mesh, full_mesh_one_port, ring, star
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder
from topologies.variants import ORDERS, Order

V = 5040 * 2.0**20
"""Bytes: every p up to 10 divides it."""


@cache
def build(name: str, ranks: int) -> Schedule:
    return algorithms()[name].build(ranks, V)


# Bounds.


def check_bounds(
    name: str, shape: str, ranks: int, nbytes: float, numbers: tuple[float, float]
) -> None:
    algorithm = algorithms()[name]
    topology = SHAPES[shape](
        ranks + algorithm.servers, bandwidth=1e9, latency=numbers[0], gap=numbers[1]
    )
    makespan = simulate(build(name, ranks).scaled(nbytes), topology, "compiled").makespan
    for bound in bounds(algorithm.collective, topology, ranks, nbytes):
        assert makespan >= bound.seconds * (1 - 1e-9), bound


some_bytes, two_numbers = st.floats(1.0, 1e10), st.tuples(*[st.floats(0, 1e-2)] * 2)


@every_algorithm
@given(
    shape=st.sampled_from(ANY_NUMBER),
    ranks=st.integers(2, 9),
    nbytes=some_bytes,
    numbers=two_numbers,
)
@tries(2, many=50)
def test_nothing_beats_a_bound(
    name: str, shape: str, ranks: int, nbytes: float, numbers: tuple[float, float]
) -> None:
    check_bounds(name, shape, ranks, nbytes, numbers)


@st.composite
def machines(draw: st.DrawFn, devices: int) -> Topology:
    """Any connected machine: links of several speeds, switches, shared media."""
    builder = TopologyBuilder("random")
    gpus = [builder.device(f"gpu{k}") for k in range(devices)]
    nodes = gpus + [builder.device(f"switch{k}", "switch") for k in range(draw(st.integers(0, 3)))]
    speed = st.sampled_from((1e9, 2e9, 5e9, 1e12))
    media = [builder.medium(f"medium{k}", draw(speed)) for k in range(draw(st.integers(0, 3)))]
    ends: dict[tuple[str, str], None] = {}
    for k in range(1, len(nodes)):
        target = nodes[draw(st.integers(0, k - 1))]
        ends |= {(nodes[k], target): None, (target, nodes[k]): None}
    ends |= dict.fromkeys(
        draw(st.lists(st.sampled_from(tuple(permutations(nodes, 2))), max_size=10))
    )
    for source, target in ends:
        crossed = draw(st.lists(st.sampled_from(media), unique=True, max_size=2)) if media else []
        latency = draw(st.sampled_from((0.0, 1e-3, 1.0)))
        builder.link(source, target, Link(draw(speed), latency), media=crossed)
    return builder.build(gpus)


@given(st.sampled_from(NAMES), st.integers(2, 6), st.floats(1.0, 1e10), st.data())
def test_nothing_beats_a_bound_on_any_machine(
    name: str, ranks: int, nbytes: float, data: st.DataObject
) -> None:
    algorithm = algorithms()[name]
    topology = data.draw(machines(ranks + algorithm.servers))
    makespan = simulate(build(name, ranks).scaled(nbytes), topology, "compiled").makespan
    for bound in bounds(algorithm.collective, topology, ranks, nbytes):
        assert makespan >= bound.seconds * (1 - 1e-9), bound


P, GB = 4, 1e9
SIZE, BANDWIDTH, ALPHA = 8 * GB, 2 * GB, 0.5
Shape = Callable[..., Topology]


# Bounds by hand.


@pytest.mark.parametrize(
    ("shape", "seconds"),
    [
        pytest.param(star, 6.0, id="star: B = β"),
        pytest.param(full_mesh_one_port, 6.0, id="mesh with one port: B = β"),
        pytest.param(ring, 3.0, id="two-way ring: B = 2β"),
        pytest.param(full_mesh, 2.0, id="mesh with a port a peer: B = 3β"),
        pytest.param(bus, 24.0, id="bus: all bytes through one medium"),
    ],
)
def test_no_all_reduce_beats_twice_p_minus_1_over_p(shape: Shape, seconds: float) -> None:
    assert best_bound(ALL_REDUCE, shape(P, bandwidth=BANDWIDTH), P, SIZE).seconds == pytest.approx(
        seconds
    )


def test_an_all_reduce_moves_twice_p_minus_1_buffers_and_a_reduce_half_of_that() -> None:
    assert (ALL_REDUCE.volume(P), REDUCE.volume(P)) == (6.0, 3.0)


@each_case(("shape", "seconds"), [(star, 1.0), (ring, 1.5), (full_mesh, 0.5), (bus, 0.5)])
def test_no_all_reduce_beats_the_longest_route(shape: Shape, seconds: float) -> None:
    by_name = {
        bound.name: bound
        for bound in bounds(ALL_REDUCE, shape(6, bandwidth=BANDWIDTH, latency=ALPHA), 6, SIZE)
    }
    assert by_name["latency"].seconds == pytest.approx(seconds)


SPECS = (
    *("pcie_box", "dgx1", "dgx1:nodes=2", "dgx_a100:nodes=2,nics=3", "hgx_h100"),
    *("hgx_h100:nodes=3,spines=0", "hgx_h100:nodes=2,sharp=yes"),
    *("b200:nodes=2,network=leaf_spine,oversubscription=4", "mi300x", "leonardo:nodes=4"),
    *("mn5_acc:nodes=5,network=fat_tree", "alps:nodes=3,paths=hash"),
    *("torus:dims=3x3", "leaf_spine:ports_per_leaf=3"),
)
Sharing = Literal["fifo", "fair"]
RULES: tuple[dict[str, Any], ...] = ({}, {"store_and_forward": True}, {"sharing": "fair"})


@cache
def laid(
    name: str, spec: str, ranks: int, placement: Order = "node"
) -> tuple[Schedule, Topology] | None:
    """A schedule and its machine; None where the machine is none for it."""
    algorithm = find(name)
    try:
        topology = replace(machine(spec), placement=placement).build(ranks, algorithm.servers)
        if algorithm.fit is None:
            return algorithm.build(ranks, 1.0), topology
        fitted = algorithm.fit(topology, ranks, 1.0)
    except InputError:
        return None
    return fitted.schedule, fitted.topology


@given(
    name=st.sampled_from(sorted(algorithms())),
    spec=st.sampled_from(SPECS),
    ranks=st.integers(2, 12),
    size=st.sampled_from([1.0, 2.0**16, 2.0**30]),
    placement=st.sampled_from(ORDERS),
    sharing=st.sampled_from(["fifo", "fair"]),
)
def test_no_setting_beats_a_bound(
    name: str, spec: str, ranks: int, size: float, placement: Order, sharing: Sharing
) -> None:
    setting = laid(name, spec, ranks, placement)
    if setting is None:
        return
    schedule, topology = setting
    timeline = simulate(schedule.scaled(size), topology, sharing=sharing)
    bound = best_bound(find(name).collective, topology, ranks, size)
    assert timeline.makespan >= bound.seconds * (1 - 1e-9), bound


SLOWLY_PLANNED = [name for name in algorithms() if name.startswith("optimal")]
"""Algorithms that pack trees for each machine and number of ranks."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("name", sorted(algorithms()))
def test_no_setting_at_all_beats_a_bound(name: str, spec: str) -> None:
    """Each number of ranks with a placement, and with all rules and a size of three, by turns."""
    cases = cycle(product((1.0, 2.0**20, 2.0**30), RULES))
    placements: Iterable[Order] = cycle(("node", "round-robin"))
    several = (2, 5, 8, 13) if name in SLOWLY_PLANNED else range(2, 17)
    for ranks, placement in zip(several, placements, strict=False):
        setting = laid(name, spec, ranks, placement)
        for size, rules in islice(cases, 3) if setting else ():
            assert setting is not None
            time = simulate(setting[0].scaled(size), setting[1], **rules).makespan
            bound = best_bound(find(name).collective, setting[1], ranks, size)
            assert time >= bound.seconds * (1 - 1e-9), (ranks, placement, size, rules, bound)


@given(
    st.sampled_from(sorted(algorithms())), st.sampled_from(SPECS), st.integers(2, 10), st.booleans()
)
@tries(6, many=100)
def test_engines_agree_and_the_path_adds_up(name: str, spec: str, ranks: int, store: bool) -> None:
    setting = laid(name, spec, ranks)
    if setting is None:
        return
    schedule, topology = setting[0].scaled(2.0**20), setting[1]
    reference = simulate(schedule, topology, "reference", store_and_forward=store)
    compiled = simulate(schedule, topology, "compiled", store_and_forward=store)
    assert np.array_equal(reference.finish, compiled.finish)
    assert np.array_equal(reference.node_cause, compiled.node_cause)
    assert sum(parts(critical_path(compiled)).values()) == pytest.approx(
        compiled.makespan, rel=1e-9
    )


@given(st.sampled_from(sorted(algorithms())), st.sampled_from(SPECS), st.integers(2, 10))
def test_engines_agree_under_fair_sharing(name: str, spec: str, ranks: int) -> None:
    setting = laid(name, spec, ranks)
    if setting is None:
        return
    schedule, topology = setting[0].scaled(2.0**20), setting[1]
    reference = simulate(schedule, topology, "reference", sharing="fair")
    compiled = simulate(schedule, topology, "compiled", sharing="fair")
    assert np.allclose(reference.finish, compiled.finish, rtol=1e-9, atol=0)
    assert sum(parts(critical_path(compiled)).values()) == pytest.approx(
        compiled.makespan, rel=1e-9
    )
