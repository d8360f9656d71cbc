"""Simulated time and memory against the closed forms, wherever those claim to hold, and that they
claim enough."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache, lru_cache
from itertools import cycle, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import (
    ANY_NUMBER,
    NAMES,
    PLAIN,
    a_sixth,
    counts,
    every_algorithm,
    every_plain_algorithm,
    tries,
)
from shape_forms import apart
from simulator.analysis import memory
from simulator.analysis.bounds import Bound, best_bound, bounds
from simulator.collectives import algorithms
from simulator.collectives.collective import ALL_REDUCE, Collective
from simulator.cost_models.cost_model import ONE_PORT, POSTED
from simulator.cost_models.fabric import Fabric, Ports, observe
from simulator.engines import Engine, simulate
from simulator.schedules import semantics
from simulator.schedules.routed import route
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.link import Link
from topologies.shapes import SHAPES, star
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

V = 5040 * 2.0**20
"""Bytes: every p up to 10 divides it."""

SOME = (2, 3, 4, 6, 8, 9)
"""Ranks that stand for 2..9 where not every number is tried."""
FEW = (2, 3, 6, 8)
"""Ranks of which most of the others are tried with `-m exhaustive`."""
TURNS = ("both", "slow merging") * 2
"""One of the parameters for each of FEW: `-m exhaustive` tries all for each."""
PARAMETERS = {
    "free": (0.0, 0.0, 0.0),
    "postal": (1e-3, 0.0, 0.0),
    "gap": (0.0, 1e-3, 0.0),
    "both": (3e-4, 2e-3, 1e-11),
    "slow merging": (3e-4, 2e-3, 3e-9),
}
"""Latency, gap and reduction; a gigabyte a second."""

CLAIMING = ("ring", "star", "full_mesh", "full_mesh_one_port", "bus")


@cache
def build(name: str, ranks: int) -> Schedule:
    return algorithms()[name].build(ranks, V)


@lru_cache(maxsize=1024)
def fabric_of(devices: int, shape: str, parameters: str) -> Topology:
    latency, gap, reduction = PARAMETERS[parameters]
    return SHAPES[shape](devices, bandwidth=1e9, latency=latency, gap=gap, reduction=reduction)


def machine(name: str, ranks: int, shape: str, parameters: str) -> Topology:
    return fabric_of(ranks + algorithms()[name].servers, shape, parameters)


@lru_cache(maxsize=8192)
def observed(name: str, ranks: int, shape: str, parameters: str) -> Fabric:
    return observe(route(build(name, ranks), machine(name, ranks, shape, parameters)))


@lru_cache(maxsize=8192)
def least(collective: Collective, topology: Topology, ranks: int) -> Bound:
    """Found once for all algorithms of a collective."""
    return best_bound(collective, topology, ranks, V)


def check_claims_on(fabric: Fabric, name: str, timeline: Timeline, nbytes: float) -> None:
    """Where the model says that it holds, it must: time to 1e-9, and memory where that is claimed
    too."""
    cost = algorithms()[name].cost
    ranks = timeline.schedule.workers
    if cost.holds(fabric):
        return
    assert timeline.makespan == pytest.approx(cost.time(fabric, ranks, nbytes), rel=1e-9)
    if fabric.ports in cost.memory_ports:
        traced = memory.trace(timeline.schedule, timeline)
        assert traced.peak == pytest.approx(cost.peak(ranks) * nbytes, rel=1e-9)
        assert traced.peak_redundant == pytest.approx(cost.redundant(ranks) * nbytes, rel=1e-9)


def check_claims(name: str, timeline: Timeline, nbytes: float) -> None:
    check_claims_on(observe(timeline.routed), name, timeline, nbytes)


def check_runs(name: str, several: Iterable[int], parameters: Iterable[str]) -> None:
    for shape, ranks, numbers in product(CLAIMING, several, parameters):
        topology = machine(name, ranks, shape, numbers)
        engine: Engine = "reference" if ranks < 6 else "compiled"
        timeline = simulate(build(name, ranks), topology, engine)
        check_claims_on(observed(name, ranks, shape, numbers), name, timeline, V)
        bound = least(algorithms()[name].collective, topology, ranks)
        assert timeline.makespan >= bound.seconds * (1 - 1e-9), (bound, shape, ranks, numbers)


@every_plain_algorithm
def test_simulation_equals_the_closed_form_wherever_it_is_claimed(name: str) -> None:
    for ranks, parameters in zip(counts(name, FEW), TURNS, strict=False):
        check_runs(name, (ranks,), (parameters,))


@pytest.mark.exhaustive
@every_plain_algorithm
def test_simulation_equals_the_closed_form_at_every_count(name: str) -> None:
    """Above 9 ranks each count has one of the parameters by turns."""
    check_runs(name, counts(name, range(2, 10)), PARAMETERS)
    large = counts(name, (*range(10, 34), 64))
    for ranks, parameters in zip(large, cycle(PARAMETERS), strict=False):
        check_runs(name, (ranks,), (parameters,))


@every_algorithm
@given(
    shape=st.sampled_from(ANY_NUMBER),
    ranks=st.integers(2, 9),
    nbytes=st.floats(1.0, 1e10),
    numbers=st.tuples(*[st.just(0.0) | st.floats(1e-7, 1e-1)] * 2),
    merging=st.just(0.0) | st.floats(1e-13, 1e-6),
)
@tries(3, many=40)
def test_claims_hold_whatever_the_parameters(
    name: str, shape: str, ranks: int, nbytes: float, numbers: tuple[float, float], merging: float
) -> None:
    devices = ranks + algorithms()[name].servers
    topology = SHAPES[shape](
        devices, bandwidth=1e9, latency=numbers[0], gap=numbers[1], reduction=merging
    )
    check_claims(name, simulate(build(name, ranks).scaled(nbytes), topology, "compiled"), nbytes)


# What is claimed where, so that a model which claims nothing cannot pass by silence.

PORTS = {"star": "switch", "full_mesh": "peer", "full_mesh_one_port": "one", "bus": "bus"}
"""How messages at the same time share the ports of a shape."""
ON_A_BUS = {
    *("naive", "naive_serial", "parameter_server", "parameter_server_apart"),
    *("linear_broadcast", "linear_reduce"),
}
"""Algorithms that send all that they can at once, for which the time on a bus is claimed."""
NOWHERE = """bruck_all_gather bruck_all_to_all pat_all_gather pat_reduce_scatter rail_all_to_all
forwarded_all_to_all chain_reduce chains_reduce chain_scan
chain_exscan map_reduce ring_reduce_scatterv"""
WHERE_POSTED = "naive_serial parameter_server parameter_server_apart"
PEERS = "linear_reduce pairwise linear_all_to_all two_shot sharded_parameter_server"
MEMORY: dict[str, tuple[Ports, ...]] = {
    **dict.fromkeys(NOWHERE.split(), ()),
    **dict.fromkeys(WHERE_POSTED.split(), POSTED),
    **dict.fromkeys(PEERS.split(), ("peer",)),
}
"""Ports on which memory is claimed, where that is not all: inboxes depend on who comes first."""


def ports_of(name: str, shape: str, ranks: int) -> str:
    """The ports that a schedule meets on a shape, by who sends to whom; empty where its messages
    are not alike, or share media in another way."""
    schedule, devices = build(name, ranks), ranks + algorithms()[name].servers
    pairs = set(zip(schedule.rank.tolist(), schedule.peer.tolist(), strict=True))
    pairs = {(a, b) for a, b in pairs if a != b}
    senders, receivers = ([pair[end] for pair in pairs] for end in (0, 1))
    several = len(set(senders)) < len(pairs) or len(set(receivers)) < len(pairs)
    if shape == "ring":
        return "peer" if apart(pairs, devices) else ""
    if shape == "bus" and (len(set(senders)) == 1 or len(set(receivers)) == 1):
        return "switch" if several else "peer"
    return PORTS[shape] if several or shape == "bus" else "peer"


def is_claimed(name: str, shape: str, ranks: int) -> bool:
    cost = algorithms()[name].cost
    return not cost.unclaimed and ports_of(name, shape, ranks) in cost.ports


def is_memory_claimed(name: str, shape: str, ranks: int) -> bool:
    ports = ports_of(name, shape, ranks)
    return is_claimed(name, shape, ranks) and ports in MEMORY.get(name, ONE_PORT)


def test_a_formula_claims_all_shapes_unless_it_says_why_not() -> None:
    for name in PLAIN:
        cost = algorithms()[name].cost
        assert cost.unclaimed or {*ONE_PORT} <= {*cost.ports}, name
        assert cost.unclaimed or cost.memory_ports == MEMORY.get(name, ONE_PORT), name
        assert name not in ON_A_BUS or "bus" in cost.ports, name


def check_table(name: str, several: tuple[int, ...]) -> None:
    cost = algorithms()[name].cost
    for shape, ranks, parameters in product(CLAIMING, several, ("both", "slow merging")):
        fabric = observed(name, ranks, shape, parameters)
        holds = not cost.holds(fabric)
        assert holds == is_claimed(name, shape, ranks), (ranks, fabric)
        assert (holds and fabric.ports in cost.memory_ports) == is_memory_claimed(
            name, shape, ranks
        ), (ranks, fabric)


@every_algorithm
def test_the_claims_are_these(name: str) -> None:
    check_table(name, FEW)


@pytest.mark.exhaustive
@every_algorithm
def test_the_claims_are_these_at_other_counts(name: str) -> None:
    check_table(name, (4, 5, 7, 9, 16))
    for shape, ranks in product(CLAIMING, (*SOME, 16)):
        holds = not algorithms()[name].cost.holds(observed(name, ranks, shape, "postal"))
        assert holds == is_claimed(name, shape, ranks), (shape, ranks)


@pytest.mark.parametrize("name", a_sixth(NAMES, 0))
def test_without_latency_no_less_is_claimed(name: str) -> None:
    for shape, ranks, parameters in product(CLAIMING, range(2, 8), ("free", "gap")):
        fabric = observed(name, ranks, shape, parameters)
        if is_claimed(name, shape, ranks):
            assert algorithms()[name].cost.holds(fabric) == ""


def test_a_claim_that_does_not_hold_says_which_assumption_fails() -> None:
    cost = algorithms()["ring"].cost
    fabric = observe(route(build("ring", 4), machine("ring", 4, "bus", "postal")))
    assert cost.holds(fabric) == "bus ports"
    unequal = Fabric(1e9, 1e-6, reduction=0.0, ports="peer", uniform=False)
    assert cost.holds(unequal) == "routes differ"


def test_no_claim_is_made_where_nothing_is_sent() -> None:
    machine = star(2, bandwidth=1e9)
    together = replace(machine, placement=machine.placement[[0, 0]])
    assert not observe(route(build("ring", 2), together)).uniform


# Machines that are not quite a shape: a claim must still be true, or not be made.


def uneven_star(ranks: int, fast: int, bandwidth: float, gap: float = 0.0) -> Topology:
    """A star in which one rank has a port of another bandwidth: the routes are alike, the ports are
    not."""
    builder = TopologyBuilder("uneven star")
    gpus = [builder.device(f"gpu{rank}") for rank in range(ranks)]
    hub = builder.device("switch", "switch")
    for rank, gpu in enumerate(gpus):
        builder.connect(gpu, hub, Link(bandwidth if rank == fast else 1e9, 1e-6, gap))
    return builder.build(gpus)


@pytest.mark.parametrize("name", a_sixth(NAMES, 1))
def test_a_claim_is_true_where_one_port_is_faster_or_slower(name: str) -> None:
    """A parameter server behind a port of 4β takes 1/4 of the time, or until its clients' ports are
    the limit."""
    for ranks, bandwidth in product((2, 3, 4, 6), (4e9, 2.5e8)):
        devices = ranks + algorithms()[name].servers
        for fast in range(devices):
            topology = uneven_star(devices, fast, bandwidth)
            check_claims(name, simulate(build(name, ranks), topology, "compiled"), V)


def half_duplex_star(ranks: int, latency: float) -> Topology:
    """A star in which both directions of a rank's wire are one medium."""
    builder = TopologyBuilder("half-duplex star")
    gpus = [builder.device(f"gpu{rank}") for rank in range(ranks)]
    hub = builder.device("switch", "switch")
    for gpu in gpus:
        wire = builder.medium(f"{gpu} wire", 1e9)
        builder.link(gpu, hub, Link(1e9, latency), media=(wire,))
        builder.link(hub, gpu, Link(1e9, latency), media=(wire,))
    return builder.build(gpus)


@pytest.mark.parametrize("name", a_sixth(NAMES, 2))
def test_a_claim_is_true_on_half_duplex_wires(name: str) -> None:
    for ranks, latency in product((2, 3, 4, 6), (0.0, 1.0)):
        topology = half_duplex_star(ranks + algorithms()[name].servers, latency)
        check_claims(name, simulate(build(name, ranks), topology, "compiled"), V)


def hub(ranks: int) -> Topology:
    """A star with one medium for a middle: a route crosses it on its way in and on its way out."""
    builder = TopologyBuilder("hub")
    gpus = [builder.device(f"gpu{rank}") for rank in range(ranks)]
    middle, backplane = builder.device("hub", "switch"), builder.medium("backplane", 1e9)
    for gpu in gpus:
        builder.link(gpu, middle, Link(1e9), media=(backplane,))
        builder.link(middle, gpu, Link(1e9), media=(backplane,))
    return builder.build(gpus)


@pytest.mark.parametrize("name", a_sixth(NAMES, 3))
def test_a_claim_is_true_where_a_route_crosses_a_medium_twice(name: str) -> None:
    """The second crossing waits for the first: 2V/β a message, not V/β."""
    for ranks in (2, 3, 4, 6):
        topology = hub(ranks + algorithms()[name].servers)
        check_claims(name, simulate(build(name, ranks), topology, "compiled"), V)


def trunk(ranks: int, bandwidth: float) -> Topology:
    """Two switches, half of the ranks on each, and one link between them."""
    builder = TopologyBuilder("trunk")
    gpus = [builder.device(f"gpu{rank}") for rank in range(ranks)]
    hubs = [builder.device(f"switch{k}", "switch") for k in range(2)]
    for rank, gpu in enumerate(gpus):
        builder.connect(gpu, hubs[2 * rank // ranks], Link(1e9))
    builder.connect(hubs[0], hubs[1], Link(bandwidth))
    return builder.build(gpus)


@pytest.mark.parametrize("name", a_sixth(NAMES, 4))
def test_a_claim_is_true_across_a_trunk(name: str) -> None:
    for ranks, bandwidth in product((2, 3, 4, 6, 8), (2.5e8, 1e9, 4e9, 1e12)):
        topology = trunk(ranks + algorithms()[name].servers, bandwidth)
        check_claims(name, simulate(build(name, ranks), topology, "compiled"), V)


def crowded() -> Topology:
    """Ranks 0 and 1 on one device, rank 2 on another: a wire of 1 GB/s and 1 ms."""
    builder = TopologyBuilder("crowded")
    builder.device("a")
    builder.device("b")
    builder.connect("a", "b", Link(1e9, 1e-3))
    return builder.build(["a", "a", "b"])


def test_ranks_that_share_a_device_are_no_uniform_fabric_and_no_crash() -> None:
    for name in NAMES:
        if algorithms()[name].servers == 0:
            check_claims(name, simulate(build(name, 3), crowded(), "reference"), V)


def test_a_schedule_that_sends_nothing_is_claimed_by_no_form_and_no_crash() -> None:
    builder = ScheduleBuilder(3, V)
    builder.compute(0, 1.0)
    timeline = simulate(builder.build(), star(3, bandwidth=1e9), "reference")
    assert algorithms()["ring"].cost.holds(observe(timeline.routed))


def test_nothing_beats_a_bound_where_ranks_share_a_device() -> None:
    """Ranks 0 and 1 merge for nothing, exchange with rank 2, and share what comes: V/β + α."""
    builder = ScheduleBuilder(3, 3e6, scratch=1)
    builder.reduce(1, 0, slot=0)
    builder.copy([0, 2], [2, 0], slot=0, target=1)
    builder.reduce([0, 2], [0, 2], slot=1, target=0)
    builder.copy(0, 1, slot=0)
    schedule = builder.build()
    semantics.check(schedule, ALL_REDUCE)
    makespan = simulate(schedule, crowded(), "reference").makespan
    assert makespan == pytest.approx(4e-3)
    for bound in bounds(ALL_REDUCE, crowded(), 3, 3e6):
        assert makespan >= bound.seconds * (1 - 1e-9), bound


def test_a_rank_that_nobody_can_reach_has_no_finite_bound() -> None:
    builder = TopologyBuilder("lonely")
    names = [builder.device(name) for name in "abc"]
    builder.connect("a", "b", Link(1e9))
    topology = builder.build(names)
    try:
        seconds = best_bound(ALL_REDUCE, topology, 3, V).seconds
    except InputError:
        return
    assert seconds == float("inf")


@given(st.integers(2, 12), st.sampled_from([n for n in NAMES if build(n, 2).volume]))
def test_more_bandwidth_through_a_star_is_faster(ranks: int, name: str) -> None:
    servers = algorithms()[name].servers
    slow, fast = (
        star(ranks + servers, bandwidth=bandwidth, latency=1e-6) for bandwidth in (1e9, 2e9)
    )
    times = [
        simulate(build(name, ranks), topology, "compiled").makespan for topology in (slow, fast)
    ]
    assert times[1] < times[0]
