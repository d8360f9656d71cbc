"""Simulated time, memory and bounds against the closed forms, and the facts of the design as numbers by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import memory, semantics
from simulator.bounds import Bound, best_bound, bounds
from simulator.builder import ScheduleBuilder
from simulator.collectives import algorithms
from simulator.collectives.collective import ALL_REDUCE, REDUCE, Collective
from simulator.collectives.naive import naive_all_reduce
from simulator.engines import Engine, simulate
from simulator.fabric import Fabric, observe
from simulator.routed import route
from simulator.schedule import Schedule
from simulator.timeline import Timeline
from topologies.builder import TopologyBuilder
from topologies.errors import InputError
from topologies.shapes import SHAPES, bus, full_mesh, full_mesh_one_port, ring, star
from topologies.topology import Topology

NAMES = tuple(name for name, algorithm in algorithms().items() if not algorithm.build(2, 1.0).switches)
ANY_NUMBER = tuple(shape for shape in SHAPES if shape != "hypercube")
"""Shapes for any number of ranks."""
V = 5040 * 2.0**20
"""Bytes: every p up to 10 divides it."""

SOME = (2, 3, 4, 6, 8, 9)
"""Ranks that stand for 2..9 where not every number is tried."""
PARAMETERS = {
    "free": (0.0, 0.0, 0.0),
    "postal": (1e-3, 0.0, 0.0),
    "gap": (0.0, 1e-3, 0.0),
    "both": (3e-4, 2e-3, 1e-11),
    "slow merging": (3e-4, 2e-3, 3e-9),
}
"""Latency, gap and reduction; a gigabyte a second."""

CLAIMING = ("ring", "star", "full_mesh", "full_mesh_one_port", "bus")
every_algorithm = pytest.mark.parametrize("name", NAMES)
every_shape = pytest.mark.parametrize("shape", CLAIMING)
every_parameter = pytest.mark.parametrize("parameters", PARAMETERS)
some_parameters = pytest.mark.parametrize(
    "parameters",
    [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in ("postal", "gap"))) for name in PARAMETERS],
)


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
def least(collective: Collective, topology: Topology, ranks: int) -> Bound:
    """Found once for all algorithms of a collective."""
    return best_bound(collective, topology, ranks, V)


def check_claims(name: str, timeline: Timeline, nbytes: float) -> None:
    """Where the model says that it holds, it must: time to 1e-9, and memory where that is claimed too."""
    cost, fabric = algorithms()[name].cost, observe(timeline.routed)
    ranks = timeline.schedule.workers
    if cost.holds(fabric):
        return
    assert timeline.makespan == pytest.approx(cost.time(fabric, ranks, nbytes), rel=1e-9)
    if fabric.ports in cost.memory_ports:
        traced = memory.trace(timeline.schedule, timeline)
        assert traced.peak == pytest.approx(cost.peak(ranks, nbytes), rel=1e-9)
        assert traced.peak_redundant == pytest.approx(cost.redundant(ranks, nbytes), rel=1e-9)


def check_run(name: str, ranks: int, shape: str, parameters: str, engine: Engine) -> None:
    topology = machine(name, ranks, shape, parameters)
    timeline = simulate(build(name, ranks), topology, engine)
    check_claims(name, timeline, V)
    bound = least(algorithms()[name].collective, topology, ranks)
    assert timeline.makespan >= bound.seconds * (1 - 1e-9), bound


@every_algorithm
@every_shape
@some_parameters
def test_simulation_equals_the_closed_form_wherever_it_is_claimed(name: str, shape: str, parameters: str) -> None:
    for ranks in SOME:
        check_run(name, ranks, shape, parameters, "reference" if ranks < 6 else "compiled")


@pytest.mark.exhaustive
@every_algorithm
@every_shape
@every_parameter
def test_simulation_equals_the_closed_form_at_every_count(name: str, shape: str, parameters: str) -> None:
    for ranks in (5, 7, *range(10, 34)):
        check_run(name, ranks, shape, parameters, "reference" if ranks < 6 else "compiled")


@every_algorithm
@given(
    shape=st.sampled_from(ANY_NUMBER),
    ranks=st.integers(2, 9),
    nbytes=st.floats(1.0, 1e10),
    numbers=st.tuples(*[st.just(0.0) | st.floats(1e-7, 1e-1)] * 2),
    merging=st.just(0.0) | st.floats(1e-13, 1e-6),
)
@settings(deadline=None, max_examples=25)
def test_claims_hold_whatever_the_parameters(
    name: str, shape: str, ranks: int, nbytes: float, numbers: tuple[float, float], merging: float
) -> None:
    devices = ranks + algorithms()[name].servers
    topology = SHAPES[shape](devices, bandwidth=1e9, latency=numbers[0], gap=numbers[1], reduction=merging)
    check_claims(name, simulate(build(name, ranks).scaled(nbytes), topology, "compiled"), nbytes)


# What is claimed where, so that a model which claims nothing cannot pass by silence.

RINGS = ("ring", "ring_reduce_scatter", "ring_all_gather")
RING_FAMILY = (
    *RINGS,
    *(name.replace("ring", "rings", 1) for name in RINGS),
    *("shift", "neighbor_exchange", "chain_broadcast", "chain_reduce"),
)
ONE_STEP = ("naive", "naive_serial", "parameter_server", "parameter_server_apart")
TREES = (
    *("tree", "tree_reduce", "tree_broadcast", "recursive_doubling", "halving_doubling", "pairwise"),
    *("recursive_doubling_all_gather", "recursive_halving_reduce_scatter"),
)


def is_claimed(name: str, shape: str, ranks: int) -> bool:
    """On a ring what sends to neighbours, unless all are neighbours; on a bus what sends all that it can at once."""
    if algorithms()[name].cost.unclaimed:
        return False
    if shape == "ring" and name not in RING_FAMILY:
        return ranks + algorithms()[name].servers <= 3
    if shape == "bus":
        return name in ONE_STEP or (ranks == 2 and name.startswith(("tree_", "chain_")))
    return True


def is_memory_claimed(name: str, shape: str, ranks: int) -> bool:
    """Not where inboxes depend on how senders share a port; two ranks share none, except with a server."""
    if not is_claimed(name, shape, ranks):
        return False
    if name == "chain_reduce" or (name in ONE_STEP and shape == "bus"):
        return False
    if name in ("naive_serial", "parameter_server", "parameter_server_apart") and shape == "full_mesh_one_port":
        return ranks == 2 and name != "parameter_server_apart"
    if name == "pairwise" and shape in ("star", "full_mesh_one_port"):
        return ranks == 2
    return True


def test_every_algorithm_is_in_the_table() -> None:
    claimed = [name for name in NAMES if not algorithms()[name].cost.unclaimed]
    assert sorted(RING_FAMILY + ONE_STEP + TREES) == sorted(claimed)


def check_table(name: str, shape: str, parameters: str, counts: tuple[int, ...]) -> None:
    cost = algorithms()[name].cost
    for ranks in counts:
        fabric = observe(route(build(name, ranks), machine(name, ranks, shape, parameters)))
        holds = not cost.holds(fabric)
        assert holds == is_claimed(name, shape, ranks), (ranks, fabric)
        assert (holds and fabric.ports in cost.memory_ports) == is_memory_claimed(name, shape, ranks), (ranks, fabric)


@every_algorithm
@every_shape
@pytest.mark.parametrize("parameters", ["postal", "both", "slow merging"])
def test_the_claims_are_these(name: str, shape: str, parameters: str) -> None:
    check_table(name, shape, parameters, (*SOME, 16))


@pytest.mark.exhaustive
@every_algorithm
@every_shape
@pytest.mark.parametrize("parameters", ["postal", "both", "slow merging"])
def test_the_claims_are_these_at_other_counts(name: str, shape: str, parameters: str) -> None:
    check_table(name, shape, parameters, (5, 7))


@every_algorithm
@every_shape
@pytest.mark.parametrize("parameters", ["free", "gap"])
def test_without_latency_no_less_is_claimed(name: str, shape: str, parameters: str) -> None:
    for ranks in range(2, 8):
        fabric = observe(route(build(name, ranks), machine(name, ranks, shape, parameters)))
        if is_claimed(name, shape, ranks):
            assert algorithms()[name].cost.holds(fabric) == ""


def test_a_claim_that_does_not_hold_says_which_assumption_fails() -> None:
    cost = algorithms()["ring"].cost
    fabric = observe(route(build("ring", 4), machine("ring", 4, "bus", "postal")))
    assert cost.holds(fabric) == "bus ports"
    unequal = Fabric(1e-6, 0.0, 1e9, 0.0, "peer", uniform=False)
    assert cost.holds(unequal) == "routes differ"


# Machines that are not quite a shape: a claim must still be true, or not be made.


def uneven_star(ranks: int, fast: int, bandwidth: float, gap: float = 0.0) -> Topology:
    """A star in which one rank has a port of another bandwidth: the routes are alike, the ports are not."""
    builder = TopologyBuilder("uneven star")
    gpus = [builder.device(f"gpu{rank}") for rank in range(ranks)]
    hub = builder.device("switch", "switch")
    for rank, gpu in enumerate(gpus):
        builder.connect(gpu, hub, bandwidth=bandwidth if rank == fast else 1e9, latency=1e-6, gap=gap)
    return builder.build(gpus)


@every_algorithm
@pytest.mark.parametrize("bandwidth", [4e9, 2.5e8])
def test_a_claim_is_true_where_one_port_is_faster_or_slower(name: str, bandwidth: float) -> None:
    """A parameter server behind a port of 4β takes 1/4 of the time, or until its clients' ports are the limit."""
    for ranks in (2, 3, 4, 6):
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
        builder.link(gpu, hub, bandwidth=1e9, latency=latency, media=(wire,))
        builder.link(hub, gpu, bandwidth=1e9, latency=latency, media=(wire,))
    return builder.build(gpus)


@every_algorithm
@pytest.mark.parametrize("latency", [0.0, 1.0])
def test_a_claim_is_true_on_half_duplex_wires(name: str, latency: float) -> None:
    for ranks in (2, 3, 4, 6):
        topology = half_duplex_star(ranks + algorithms()[name].servers, latency)
        check_claims(name, simulate(build(name, ranks), topology, "compiled"), V)


def hub(ranks: int) -> Topology:
    """A star with one medium for a middle: a route crosses it on its way in and on its way out."""
    builder = TopologyBuilder("hub")
    gpus = [builder.device(f"gpu{rank}") for rank in range(ranks)]
    middle, backplane = builder.device("hub", "switch"), builder.medium("backplane", 1e9)
    for gpu in gpus:
        builder.link(gpu, middle, bandwidth=1e9, media=(backplane,))
        builder.link(middle, gpu, bandwidth=1e9, media=(backplane,))
    return builder.build(gpus)


@every_algorithm
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
        builder.connect(gpu, hubs[2 * rank // ranks], bandwidth=1e9)
    builder.connect(*hubs, bandwidth=bandwidth)
    return builder.build(gpus)


@every_algorithm
@pytest.mark.parametrize("bandwidth", [2.5e8, 1e9, 4e9, 1e12])
def test_a_claim_is_true_across_a_trunk(name: str, bandwidth: float) -> None:
    for ranks in (2, 3, 4, 6, 8):
        topology = trunk(ranks + algorithms()[name].servers, bandwidth)
        check_claims(name, simulate(build(name, ranks), topology, "compiled"), V)


def crowded() -> Topology:
    """Ranks 0 and 1 on one device, rank 2 on another: a wire of 1 GB/s and 1 ms."""
    builder = TopologyBuilder("crowded")
    builder.device("a")
    builder.device("b")
    builder.connect("a", "b", bandwidth=1e9, latency=1e-3)
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
    builder.connect("a", "b", bandwidth=1e9)
    topology = builder.build(names)
    try:
        seconds = best_bound(ALL_REDUCE, topology, 3, V).seconds
    except InputError:
        return
    assert seconds == float("inf")


# Bounds.


def check_bounds(name: str, shape: str, ranks: int, nbytes: float, numbers: tuple[float, float]) -> None:
    algorithm = algorithms()[name]
    topology = SHAPES[shape](ranks + algorithm.servers, bandwidth=1e9, latency=numbers[0], gap=numbers[1])
    makespan = simulate(build(name, ranks).scaled(nbytes), topology, "compiled").makespan
    for bound in bounds(algorithm.collective, topology, ranks, nbytes):
        assert makespan >= bound.seconds * (1 - 1e-9), bound


some_bytes, two_numbers = st.floats(1.0, 1e10), st.tuples(*[st.floats(0, 1e-2)] * 2)


@every_algorithm
@given(shape=st.sampled_from(ANY_NUMBER), ranks=st.integers(2, 9), nbytes=some_bytes, numbers=two_numbers)
@settings(deadline=None, max_examples=15)
def test_nothing_beats_a_bound(name: str, shape: str, ranks: int, nbytes: float, numbers: tuple[float, float]) -> None:
    check_bounds(name, shape, ranks, nbytes, numbers)


@pytest.mark.exhaustive
@every_algorithm
@pytest.mark.parametrize("shape", ANY_NUMBER)
@given(ranks=st.integers(2, 9), nbytes=some_bytes, numbers=two_numbers)
@settings(deadline=None, max_examples=5)
def test_nothing_beats_a_bound_on_any_shape(
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
        other = nodes[draw(st.integers(0, k - 1))]
        ends |= {(nodes[k], other): None, (other, nodes[k]): None}
    ends |= dict.fromkeys(draw(st.lists(st.sampled_from(tuple(permutations(nodes, 2))), max_size=10)))
    for one, other in ends:
        crossed = draw(st.lists(st.sampled_from(media), unique=True, max_size=2)) if media else []
        latency = draw(st.sampled_from((0.0, 1e-3, 1.0)))
        builder.link(one, other, bandwidth=draw(speed), latency=latency, media=crossed)
    return builder.build(gpus)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(NAMES), st.integers(2, 6), st.floats(1.0, 1e10), st.data())
def test_nothing_beats_a_bound_on_any_machine(name: str, ranks: int, nbytes: float, data: st.DataObject) -> None:
    algorithm = algorithms()[name]
    topology = data.draw(machines(ranks + algorithm.servers))
    makespan = simulate(build(name, ranks).scaled(nbytes), topology, "compiled").makespan
    for bound in bounds(algorithm.collective, topology, ranks, nbytes):
        assert makespan >= bound.seconds * (1 - 1e-9), bound


# The facts of the design, p = 4, V = 8 GB, β = 2 GB/s: V/β = 4 s. Numbers by hand.

P, GB = 4, 1e9
SIZE, BANDWIDTH, ALPHA = 8 * GB, 2 * GB, 0.5
Shape = Callable[..., Topology]


def run(name: str, shape: Shape, latency: float = 0.0, ranks: int = P) -> Timeline:
    algorithm = algorithms()[name]
    topology = shape(ranks + algorithm.servers, bandwidth=BANDWIDTH, latency=latency)
    timelines = [simulate(algorithm.build(ranks, SIZE), topology, engine) for engine in ("reference", "compiled")]
    assert timelines[0].makespan == timelines[1].makespan
    return timelines[0]


@pytest.mark.parametrize(
    ("name", "shape", "seconds", "gigabytes"),
    [
        pytest.param("naive", bus, 48.0, 96.0, id="naive on a bus: p(p-1)V/β"),
        pytest.param("naive", star, 12.0, 96.0, id="naive through a star: (p-1)V/β"),
        pytest.param("naive", full_mesh_one_port, 12.0, 96.0, id="naive on a mesh with one port: (p-1)V/β"),
        pytest.param("naive", full_mesh, 4.0, 96.0, id="naive on a mesh with a port a peer: V/β"),
        pytest.param("ring_reduce_scatter", ring, 3.0, 24.0, id="ring reduce-scatter: (p-1)V/(pβ)"),
        pytest.param("ring_all_gather", ring, 3.0, 24.0, id="ring all-gather: (p-1)V/(pβ)"),
        pytest.param("ring", ring, 6.0, 48.0, id="ring all-reduce: 2(p-1)V/(pβ)"),
        pytest.param("ring", star, 6.0, 48.0, id="ring all-reduce through a star"),
        pytest.param("parameter_server", star, 24.0, 48.0, id="parameter server among the workers: 2(p-1)V/β"),
        pytest.param("parameter_server", full_mesh_one_port, 24.0, 48.0, id="the same on a mesh with one port"),
        pytest.param("parameter_server_apart", star, 32.0, 64.0, id="parameter server apart: 2pV/β"),
        pytest.param("parameter_server_apart", full_mesh_one_port, 32.0, 64.0, id="the same apart, on a mesh"),
        pytest.param("naive_serial", full_mesh, 16.0, 96.0, id="one root at a time, a port a peer: pV/β"),
    ],
)
def test_the_facts_about_time_and_bytes(name: str, shape: Shape, seconds: float, gigabytes: float) -> None:
    timeline = run(name, shape)
    assert timeline.makespan == seconds
    assert timeline.schedule.volume == gigabytes * GB


@pytest.mark.parametrize(
    ("name", "shape", "seconds"),
    [
        pytest.param("ring", ring, 9.0, id="ring on a ring: + 2(p-1)α"),
        pytest.param("ring", star, 12.0, id="ring through a star: + 4(p-1)α"),
        pytest.param("parameter_server", star, 26.0, id="parameter server: + twice the route's latency"),
        pytest.param("parameter_server", full_mesh_one_port, 25.0, id="parameter server on a mesh: + 2α"),
        pytest.param("parameter_server_apart", star, 34.0, id="parameter server apart: + twice the route's latency"),
    ],
)
def test_the_facts_about_latency(name: str, shape: Shape, seconds: float) -> None:
    assert run(name, shape, ALPHA).makespan == seconds


@pytest.mark.parametrize("shape", [star, full_mesh_one_port])
def test_the_order_of_peers_matters_to_the_naive(shape: Shape) -> None:
    """0..p-1: everyone meets at rank 0 first: (2p-3)V/β instead of (p-1)V/β, for p > 2."""
    by_hand = {2: (4.0, 4.0), 3: (8.0, 12.0), 4: (12.0, 20.0), 5: (16.0, 28.0), 8: (28.0, 52.0)}
    for ranks, wanted in by_hand.items():
        topology = shape(ranks, bandwidth=BANDWIDTH)
        schedules = (naive_all_reduce(ranks, SIZE), naive_all_reduce(ranks, SIZE, staggered=False))
        assert tuple(simulate(schedule, topology).makespan for schedule in schedules) == wanted


def test_in_a_ring_reduce_scatter_each_rank_sends_and_receives_its_part() -> None:
    schedule = run("ring_reduce_scatter", ring).schedule
    assert schedule.sent().tolist() == [6 * GB] * P
    assert np.bincount(schedule.peer, schedule.nbytes).tolist() == [6 * GB] * P


def test_a_ring_reduce_scatter_tends_to_v_over_beta() -> None:
    assert [run("ring_reduce_scatter", ring, ranks=ranks).makespan for ranks in (2, 8, 32)] == [2.0, 3.5, 3.875]


@pytest.mark.parametrize("name", ["ring_reduce_scatter", "ring_all_gather", "ring"])
@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 11])
def test_every_port_of_a_ring_is_busy_all_the_time(name: str, ranks: int) -> None:
    timeline = run(name, ring, ranks=ranks)
    topology = timeline.routed.topology
    busy = dict(zip(topology.medium_names, timeline.utilisation().tolist(), strict=True))
    clockwise = [f"gpu{rank}->gpu{(rank + 1) % ranks}" for rank in range(ranks)]
    assert [busy[port] for port in clockwise] == pytest.approx([1.0] * ranks, rel=1e-12)
    assert not any(busy[port] for port in busy if port not in clockwise)


def test_a_servers_link_carries_what_all_workers_send_and_a_workers_link_only_its_own() -> None:
    timeline = run("parameter_server", star)
    carried = dict(zip(timeline.routed.topology.medium_names, timeline.medium_bytes().tolist(), strict=True))
    assert carried["switch->gpu0"] == carried["gpu0->switch"] == 24 * GB
    assert [carried[f"gpu{k}->switch"] for k in (1, 2, 3)] == [8 * GB] * 3
    assert [carried[f"switch->gpu{k}"] for k in (1, 2, 3)] == [8 * GB] * 3


def test_all_roots_at_once_use_p_times_the_links_of_one_at_a_time() -> None:
    """Concurrency (p-1)β against p(p-1)β: time O(p), bandwidth O(p) against O(1), O(p²)."""
    serial, together = run("naive_serial", full_mesh), run("naive", full_mesh)
    assert (serial.makespan, together.makespan) == (16.0, 4.0)
    assert (serial.schedule.volume, together.schedule.volume) == (96 * GB, 96 * GB)
    assert (serial.utilisation().sum(), together.utilisation().sum()) == (3.0, 12.0)


# Memory.


def test_a_reduce_scatter_leaves_p_minus_1_buffers_redundant() -> None:
    timeline = run("ring_reduce_scatter", ring)
    traced = memory.trace(timeline.schedule, timeline)
    assert traced.redundant[-1] == 24 * GB
    assert traced.resident[-1] == 32 * GB
    assert traced.redundant[-1] / P == 6 * GB
    assert traced.peaks.tolist() == [10 * GB] * P


@pytest.mark.parametrize("name", ["ring_all_gather", "ring"])
def test_an_all_gather_leaves_p_minus_1_buffers_redundant(name: str) -> None:
    timeline = run(name, ring)
    assert memory.trace(timeline.schedule, timeline).redundant[-1] == 24 * GB


def truncated_ring(ranks: int, steps: int) -> Schedule:
    """The first steps of a ring reduce-scatter."""
    builder = ScheduleBuilder(ranks, SIZE, slots=ranks)
    rank = np.arange(ranks)
    for step in range(steps):
        builder.reduce(rank, (rank + 1) % ranks, slot=(rank - step - 1) % ranks)
    return builder.build()


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_a_ring_has_k_buffers_redundant_after_k_steps(ranks: int) -> None:
    for steps in range(1, ranks):
        schedule = truncated_ring(ranks, steps)
        timeline = simulate(schedule, ring(ranks, bandwidth=BANDWIDTH))
        assert memory.trace(schedule, timeline).redundant[-1] == pytest.approx(steps * SIZE, rel=1e-12)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_redundancy_grows_by_v_a_step_and_stays_through_the_all_gather(ranks: int) -> None:
    timeline = run("ring", ring, ranks=ranks)
    traced = memory.trace(timeline.schedule, timeline)
    step = SIZE / ranks / BANDWIDTH

    def redundant_at(time: float) -> float:
        return float(traced.redundant[np.searchsorted(traced.times, time, side="right") - 1])

    during = [redundant_at((k + 0.5) * step) / SIZE for k in range(2 * (ranks - 1))]
    assert during == pytest.approx([min(k, ranks - 1) for k in range(1, 2 * ranks - 1)], rel=1e-12)


def test_the_bytes_redundant_after_a_phase_are_the_bytes_that_it_moved() -> None:
    for name in ("ring_reduce_scatter", "ring_all_gather"):
        timeline = run(name, ring)
        assert memory.trace(timeline.schedule, timeline).redundant[-1] == timeline.schedule.volume


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
    assert best_bound(ALL_REDUCE, shape(P, bandwidth=BANDWIDTH), P, SIZE).seconds == pytest.approx(seconds)


def test_an_all_reduce_moves_twice_p_minus_1_buffers_and_a_reduce_half_of_that() -> None:
    assert (ALL_REDUCE.volume(P), REDUCE.volume(P)) == (6.0, 3.0)


@pytest.mark.parametrize(("shape", "seconds"), [(star, 1.0), (ring, 1.5), (full_mesh, 0.5), (bus, 0.5)])
def test_no_all_reduce_beats_the_longest_route(shape: Shape, seconds: float) -> None:
    by_name = {bound.name: bound for bound in bounds(ALL_REDUCE, shape(6, bandwidth=BANDWIDTH, latency=ALPHA), 6, SIZE)}
    assert by_name["latency"].seconds == pytest.approx(seconds)


def test_busbw_of_the_ring_is_the_links_bandwidth() -> None:
    """nccl-tests' factors are made for that: algbw × 2(p-1)/p = β."""
    for name in ("ring", "ring_reduce_scatter", "ring_all_gather", "shift"):
        for ranks in (2, 3, 8):
            algbw = SIZE / run(name, ring, ranks=ranks).makespan
            assert algbw * algorithms()[name].collective.busbw(ranks) == pytest.approx(BANDWIDTH)


@given(st.integers(2, 12), st.sampled_from(NAMES))
@settings(deadline=None, max_examples=40)
def test_more_bandwidth_through_a_star_is_faster(ranks: int, name: str) -> None:
    servers = algorithms()[name].servers
    slow, fast = (star(ranks + servers, bandwidth=bandwidth, latency=1e-6) for bandwidth in (1e9, 2e9))
    times = [simulate(build(name, ranks), topology, "compiled").makespan for topology in (slow, fast)]
    assert times[1] < times[0]
