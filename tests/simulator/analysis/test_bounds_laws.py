"""Laws of bounds: no schedule beats them, and no search is left out that finds a higher one."""

from functools import cache
from itertools import product
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulator.analysis.bounds as module
from best_bounds import COLLECTIVES
from law_cases import EVERYWHERE, NAMES, a_sixth
from simulator.analysis.bound_needs import flow_between_halves, routes_between_halves
from simulator.analysis.bounds import bounds, limits, needs
from simulator.collectives import find
from simulator.collectives.collective import ALL_REDUCE, Collective
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from small_machines import irregular
from topologies import shapes
from topologies.capacity import congestion
from topologies.clusters import MACHINES, cluster
from topologies.errors import InputError
from topologies.link import Link
from topologies.shapes import nodes, ring
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder


@given(st.sampled_from(COLLECTIVES), st.integers(2, 6), st.integers(0, 2**32))
def test_nothing_is_missed_by_not_looking_further(
    collective: Collective, ranks: int, seed: int
) -> None:
    topology = random_machine(Random(seed), ranks, 0)
    shortly = max(limit.per_byte for limit in limits(collective, topology, ranks))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_is_met", lambda *_: False)
        known, _ = module._limits(collective, topology, ranks)
        at_length = max(limit.per_byte for limit in known)
    assert shortly == pytest.approx(at_length, rel=1e-9)
    task = module.PlacedCollective(collective, topology, ranks)
    for share, pairs in module._plain_schedules(task):
        assert share * congestion(topology, *pairs) >= at_length * (1 - 1e-9), (
            "no schedule is faster"
        )


@given(st.sampled_from(COLLECTIVES), st.integers(2, 6), st.integers(0, 2**32))
def test_no_set_of_devices_needs_longer(collective: Collective, ranks: int, seed: int) -> None:
    """All cuts of a small machine without shared media, each by what crosses it."""
    topology = random_machine(Random(seed), ranks, 0, media=False)
    highest = max(limit.per_byte for limit in limits(collective, topology, ranks))
    devices = len(topology.device_names)
    for subset in range(1, 2**devices - 1):
        outside = np.array([subset >> device & 1 for device in range(devices)], dtype=np.int32)
        leaving = (outside[topology.source] == 0) & (outside[topology.target] == 1)
        needed = needs(collective, outside[topology.placement[:ranks]], 2).leave[0]
        width = float(topology.bandwidth[leaving].sum())
        if needed > 0 and width < np.inf:
            assert highest * width >= needed * (1 - 1e-7)


# The law: nothing beats a bound.


@cache
def built(name: str, ranks: int) -> Schedule:
    return find(name).build(ranks, 12.0)


def check(name: str, ranks: int, topology: Topology) -> None:
    algorithm = find(name)
    seconds = simulate(built(name, ranks), topology).makespan
    for bound in bounds(algorithm.collective, topology, ranks, 12.0):
        assert bound.seconds <= seconds * (1 + 1e-9), bound


def check_shape(name: str, shape: str, ranks: int, latency: float) -> None:
    """Regular and irregular, unless there is no such shape of so many ranks."""
    try:
        regular = shapes.SHAPES[shape](ranks + find(name).servers, bandwidth=2.0, latency=latency)
    except InputError:
        return
    check(name, ranks, regular)
    check(name, ranks, irregular(regular, np.random.default_rng(ranks), 0.2, 5.0))


COUNTS = ((3, 0.0), (4, 1.0), (8, 0.0))


@pytest.mark.parametrize("name", a_sixth(NAMES, 0))
def test_no_algorithm_beats_a_bound_on_some_shapes(name: str) -> None:
    """Ranks and shapes by turns: with another algorithm a shape has other ranks."""
    for turn, shape in enumerate(shapes.SHAPES, NAMES.index(name)):
        if turn % 2:
            check_shape(name, shape, *COUNTS[turn % 3])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_no_algorithm_beats_a_bound_on_any_shape(name: str) -> None:
    for shape, (ranks, latency) in product(shapes.SHAPES, COUNTS):
        check_shape(name, shape, ranks, latency)


@given(
    st.sampled_from(NAMES),
    st.sampled_from(list(shapes.SHAPES)),
    st.integers(2, 9),
    st.integers(0, 2**32),
)
def test_no_algorithm_beats_a_bound_with_any_parameters(
    name: str, shape: str, ranks: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    latency, gap, reduction = rng.exponential(size=3) * rng.integers(0, 2, 3)
    devices = ranks + find(name).servers
    if shape != "hypercube" or devices & (devices - 1) == 0:
        regular = shapes.SHAPES[shape](
            devices, bandwidth=1.0, latency=latency, gap=gap, reduction=reduction
        )
        check(name, ranks, irregular(regular, rng, 0.2, 5.0))


def random_machine(random: Random, ranks: int, switches: int, *, media: bool = True) -> Topology:
    """Links of several speeds, with shared media; ranks on devices of their own or together, more
    than are asked for; the last `switches` on devices that reduce."""
    builder = TopologyBuilder("random")
    names = [
        builder.device(f"d{k}", node=random.randint(-1, 1))
        for k in range(ranks + random.randint(0, 3))
    ]
    reducing = [builder.device(f"s{k}", "switch", in_network=True) for k in range(switches)]
    devices = names + reducing
    shared = [builder.medium(f"m{k}", random.uniform(0.3, 3)) for k in range(3 * media)]
    ends = {(random.randrange(k), k) for k in range(1, len(devices))}
    ends |= {
        (start, end) for end in range(len(devices)) for start in range(end) if random.random() < 0.2
    }
    for end, start in sorted(ends):
        for source, target in ((end, start), (start, end)):
            builder.link(
                devices[source],
                devices[target],
                Link(
                    random.choice((1.0, random.uniform(0.3, 3), float("inf"))),
                    random.choice((0.0, random.random())),
                ),
                media=random.sample(shared, random.choice((0, 0, 1, 2))) if media else (),
            )
    shuffled = random.sample(names, len(names))
    together = random.choices(names, k=ranks)
    chosen = (
        random.choice((shuffled[:ranks], shuffled, together))
        if not switches
        else random.choice((shuffled[:ranks], together))
    )
    return builder.build([*chosen, *reducing])


@given(st.sampled_from(EVERYWHERE), st.integers(2, 6), st.integers(0, 2**32))
def test_no_algorithm_beats_a_bound_on_a_random_machine(name: str, ranks: int, seed: int) -> None:
    """With shared media, uneven bandwidths, ranks that help, several ranks on a device and switches
    that reduce."""
    schedule = find(name).build(ranks, 12.0)
    check(
        name,
        ranks,
        random_machine(Random(seed), schedule.ranks - schedule.switches, schedule.switches),
    )


SMALL = [name for name in MACHINES if name not in ("nvl72", "gb300")]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("back", [False, True])
def test_routes_carry_no_more_than_the_flow(name: str, back: bool) -> None:
    topology = cluster(name, 2)
    for ranks in (2, topology.ranks - 1, topology.ranks):
        flow = flow_between_halves(topology, ranks, back)
        assert 0 < routes_between_halves(topology, ranks, back) <= flow * (1 + 1e-12)


def test_machines_without_nodes_are_not_routed() -> None:
    assert routes_between_halves(ring(8, bandwidth=1e9), 8, back=False) == 0


def test_no_flow_is_sought_where_routes_carry_enough() -> None:
    """A node of 8 must pass all data through its port, half of the nodes only as much."""
    topology = nodes(1024, bandwidth=1e9, per_node=8)
    with patch("simulator.analysis.bound_needs.max_flow") as flow:
        highest = max(limit.per_byte for limit in limits(ALL_REDUCE, topology, 1024))
    assert not flow.called
    assert 1 / flow_between_halves(topology, 1024, back=False) <= highest
