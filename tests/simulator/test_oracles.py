"""What others say: simulators that were run, formulas and figures that were published.

Figures were obtained by running the simulators on the platforms described at each test.
"""

from math import log2

import numpy as np
import numpy.typing as npt
import pytest

from grouped_cases import each_case
from simulator.collectives import find
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies import shapes
from topologies.topology import Topology

GIB, MIB = 2.0**30, 2.0**20


def seconds(name: str, ranks: int, nbytes: float, topology: Topology) -> float:
    return simulate(find(name).build(ranks, nbytes), topology).makespan


def printed(milliseconds: float, digits: int) -> str:
    """As the other simulator prints it."""
    return f"{milliseconds:.{digits}f}"


# ASTRA-sim, analytical backends. Its "50 GB/s" are GiB/s; a byte is merged with two reads and a
# write at 1e5 B/ns; it rounds to whole nanoseconds.

ASTRA = {"bandwidth": 50 * GIB, "latency": 500e-9, "reduction": 3e-14}


@pytest.mark.parametrize(
    ("ranks", "milliseconds"), [(8, 35.035197), (64, 39.469690), (256, 40.130626)]
)
def test_ring_all_reduce_takes_what_astra_sim_says(ranks: int, milliseconds: float) -> None:
    time = seconds("ring", ranks, GIB, shapes.ring(ranks, **ASTRA))
    assert time * 1e3 == pytest.approx(milliseconds, rel=1e-5)


def test_through_a_switch_it_takes_what_its_congestion_unaware_backend_says() -> None:
    # Two latencies a step and one transmission. Its congestion-aware backend says 70.042197 ms: it
    # stores and forwards whole chunks at the switch, which a non-blocking switch does not.
    time = seconds("ring", 8, GIB, shapes.star(8, **ASTRA))
    assert time * 1e3 == pytest.approx(35.042197, rel=1e-5)
    assert time * 1e3 < 70.042197 / 1.99


# SimGrid, S4U and SMPI, on a full-duplex crossbar: a transfer crosses two links of 100 GB/s and 0.5
# us.


def crossbar(ranks: int) -> Topology:
    return shapes.star(ranks, bandwidth=100e9, latency=0.5e-6)


@pytest.mark.parametrize(
    ("ranks", "milliseconds"),
    [(8, "1.188405"), (64, "1.447206"), (256, "1.846934"), (1024, "3.386867")],
)
def test_ring_all_reduce_takes_what_simgrid_says_to_every_digit(
    ranks: int, milliseconds: str
) -> None:
    assert printed(seconds("ring", ranks, 64 * MIB, crossbar(ranks)) * 1e3, 6) == milliseconds


def test_recursive_doubling_takes_what_smpi_says_to_every_digit() -> None:
    # 6 rounds of 1 us and the whole vector: SMPI and we agree.
    assert printed(seconds("recursive_doubling", 64, 64 * MIB, crossbar(64)) * 1e3, 4) == "4.0325"


def test_rabenseifner_takes_half_a_percent_more_than_smpi_says() -> None:
    # Ours is the closed form, 12 latencies and 2 * 63/64 of the vector: 12 us + 1321.206 us. SMPI
    # prints 1.328 ms, 5 us less: the same bytes, but about seven latencies instead of twelve. That
    # fits exchanges that are no strict rendezvous, in which some latencies hide behind the bytes of
    # the round before; we did not read its trace.
    time = seconds("halving_doubling", 64, 64 * MIB, crossbar(64)) * 1e3
    assert time == pytest.approx(12e-3 + 2 * 63 / 64 * 64 * MIB / 100e9 * 1e3, rel=1e-12)
    assert time == pytest.approx(1.328, rel=5e-3)
    assert 2 * 63 / 64 * 64 * MIB / 100e9 * 1e3 < 1.328, "SMPI too needs the time of the bytes"


def test_a_flat_reduce_and_broadcast_are_of_the_order_that_smpi_says() -> None:
    # Flat both ways are 2 * 63 vectors through the root's port, 84.6 ms, and that is what our
    # server takes. SMPI prints 46.3 ms, which fits 63 vectors up and the six rounds of a binomial
    # tree down: only its reduce would be flat.
    vector = 64 * MIB / 100e9 * 1e3
    flat = seconds("parameter_server", 64, 64 * MIB, crossbar(64)) * 1e3
    tree = seconds("tree_broadcast", 64, 64 * MIB, crossbar(64)) * 1e3
    assert flat == pytest.approx(2 * 63 * vector + 2e-3, rel=1e-12)
    assert flat / 2 + tree == pytest.approx(46.3, rel=1e-2)


# BytePS: n workers, k servers, M bytes, B bytes/s a machine and direction.


def byteps_optimum(n: int, k: int, nbytes: float, bandwidth: float) -> float:
    return 2 * n * (n - 1) * nbytes / ((n * n + k * n - 2 * k) * bandwidth)


@each_case("n", [2, 4, 8, 33])
def test_without_servers_the_optimum_of_byteps_is_the_ring(n: int) -> None:
    time = seconds("ring", n, 1e6, shapes.star(n, bandwidth=1e9))
    assert time == pytest.approx(byteps_optimum(n, 0, 1e6, 1e9), rel=1e-12)
    assert time == pytest.approx(2 * (n - 1) * 1e6 / (n * 1e9), rel=1e-12)


def sharded_server(n: int, nbytes: float) -> Schedule:
    """A server for 1/n of the parameters on every worker: what BytePS calls a colocated parameter
    server."""
    server = ScheduleBuilder(n, nbytes, slots=n, phase="push")
    rank = np.arange(n)
    for turn in range(1, n):
        server.reduce(rank, (rank + turn) % n, slot=(rank + turn) % n)
    server.phase("pull")
    for turn in range(1, n):
        server.copy(rank, (rank + turn) % n, slot=rank)
    return server.build()


@pytest.mark.parametrize("n", [2, 4, 8])
def test_a_server_on_every_worker_takes_what_byteps_says(n: int) -> None:
    makespan = simulate(sharded_server(n, 1e6), shapes.star(n, bandwidth=1e9)).makespan
    assert makespan == pytest.approx(2 * (n - 1) * 1e6 / (n * 1e9), rel=1e-12)


@each_case("n", [2, 4, 8, 33])
def test_one_server_for_all_sends_and_receives_n_minus_1_vectors(n: int) -> None:
    # BytePS has no name for one server among the workers: everything goes through its port, in and
    # then out.
    time = seconds("parameter_server", n, 1e6, shapes.star(n, bandwidth=1e9))
    assert time == pytest.approx(2 * (n - 1) * 1e6 / 1e9, rel=1e-12)
    assert time >= byteps_optimum(n, 0, 1e6, 1e9)


@each_case("n", [2, 4, 8, 33])
def test_a_server_apart_takes_twice_what_byteps_says_for_it_as_nothing_overlaps(n: int) -> None:
    # max(M/B, nM/(kB)) with k = 1 counts one direction: with small tensors, pulls overlap pushes.
    # Ours is one tensor.
    byteps = max(1e6 / 1e9, n * 1e6 / (1 * 1e9))
    time = seconds("parameter_server_apart", n, 1e6, shapes.star(n + 1, bandwidth=1e9))
    assert time == pytest.approx(2 * byteps, rel=1e-12)
    assert time >= byteps_optimum(n, 1, 1e6, 1e9)


def server_of_tensors(n: int, nbytes: float, tensors: int) -> Schedule:
    """A server apart that gives back each tensor as soon as it is complete."""
    server = ScheduleBuilder(n, nbytes, slots=tensors, servers=1)
    workers = np.arange(n)
    for tensor in range(tensors):
        server.reduce(workers, n, slot=tensor)
        server.copy(n, workers, slot=tensor)
    return server.build()


@pytest.mark.parametrize("n", [2, 4, 8])
def test_with_many_tensors_a_server_apart_takes_what_byteps_says(n: int) -> None:
    # The pull of the last of t tensors is all that does not overlap: nM/B (1 + 1/t).
    for tensors in (1, 4, 64):
        makespan = simulate(
            server_of_tensors(n, 1e6, tensors), shapes.star(n + 1, bandwidth=1e9)
        ).makespan
        assert makespan == pytest.approx(n * 1e6 / 1e9 * (1 + 1 / tensors), rel=1e-9)


# MPICH's table, in the one-port gap model: α is what a sender is busy for, so g = α and no latency.

ALPHA, BETA, GAMMA = 7e-6, 1e-9, 3e-10
"""Seconds a message, seconds a byte, seconds a byte merged; merging is slower than nothing and
faster than a wire."""


def one_port(ranks: int) -> Topology:
    return shapes.star(ranks, bandwidth=1 / BETA, gap=ALPHA, reduction=GAMMA)


def mpich(a: float, b: float, c: float, nbytes: float) -> float:
    """a messages, b and c times n bytes sent and merged."""
    return a * ALPHA + b * nbytes * BETA + c * nbytes * GAMMA


@pytest.mark.parametrize("p", [2, 4, 8, 16, 64])
@pytest.mark.parametrize("n", [64.0, 1e6])
def test_for_powers_of_two_everything_takes_what_mpich_says(p: int, n: float) -> None:
    lg, rest = log2(p), (p - 1) / p
    rows = {
        "ring_all_gather": (p - 1, rest, 0),
        "tree_broadcast": (lg, lg, 0),
        "tree_reduce": (lg, lg, lg),
        "recursive_doubling": (lg, lg, lg),
        "halving_doubling": (2 * lg, 2 * rest, rest),
        "ring_reduce_scatter": (p - 1, rest, rest),  # As its pairwise exchange: it has no ring.
        "ring": (2 * (p - 1), 2 * rest, rest),
        "tree": (2 * lg, 2 * lg, lg),  # Its reduce, then its broadcast.
    }
    for name, row in rows.items():
        assert seconds(name, p, n, one_port(p)) == pytest.approx(mpich(*row, n), rel=1e-12), name


@each_case("p", [2, 4, 8, 16])
def test_an_all_to_all_takes_what_mpich_says_for_the_blocks_that_travel(p: int) -> None:
    # (p - 1) α + n β counts the block that a rank keeps, too: n (p-1)/p are sent.
    assert seconds("pairwise", p, 1e6, one_port(p)) == pytest.approx(
        mpich(p - 1, (p - 1) / p, 0, 1e6), rel=1e-12
    )


@pytest.mark.parametrize("p", [3, 5, 6, 7, 9, 12, 24, 33])
def test_off_powers_of_two_rings_take_the_same_and_trees_a_round_more(p: int) -> None:
    n, rest, rounds = 1e6, (p - 1) / p, (p - 1).bit_length()
    rows = {
        "ring_all_gather": (p - 1, rest, 0),
        "ring_reduce_scatter": (p - 1, rest, rest),
        "ring": (2 * (p - 1), 2 * rest, rest),
        "tree_broadcast": (rounds, rounds, 0),
        "tree_reduce": (rounds, rounds, rounds),
    }
    for name, row in rows.items():
        assert seconds(name, p, n, one_port(p)) == pytest.approx(mpich(*row, n), rel=1e-12), name


@each_case("p", [3, 5, 6, 7, 9, 12, 24, 33])
def test_off_powers_of_two_ranks_are_folded_in_and_out(p: int) -> None:
    # q = 2^floor(lg p). MPICH prints 2 (p-1)/p + 2 for Rabenseifner's bytes; it is 2 (q-1)/q + 2,
    # as its code does it.
    n, lg = 1e6, p.bit_length() - 1
    q = 1 << lg
    rows = {
        "recursive_doubling": (lg + 2, lg + 2, lg + 1),
        "halving_doubling": (2 * lg + 2, 2 * (q - 1) / q + 2, 1 + (q - 1) / q),
    }
    for name, row in rows.items():
        assert seconds(name, p, n, one_port(p)) == pytest.approx(mpich(*row, n), rel=1e-12), name


def test_the_folded_bytes_are_those_of_the_facts() -> None:
    # p = 3: 3.00 vectors, p = 6: 3.50.
    free = {p: shapes.star(p, bandwidth=1.0) for p in (3, 6)}
    assert {p: seconds("halving_doubling", p, 1.0, free[p]) for p in free} == pytest.approx(
        {3: 3.0, 6: 3.5}
    )


# SimGrid, SMPI, on a torus of 4 x 4 x 4 with 100 GB/s and 1 us a link; links are shared fairly.


def cube() -> Topology:
    return shapes.torus(64, dims=(4, 4, 4), bandwidth=100e9, latency=1e-6)


def test_recursive_doubling_on_a_torus_takes_what_smpi_says_to_every_digit() -> None:
    makespan = simulate(
        find("recursive_doubling").build(64, 64 * MIB), cube(), sharing="fair"
    ).makespan
    assert printed(makespan * 1e3, 3) == "6.049"


def test_a_ring_of_blocking_exchanges_on_a_torus_takes_what_smpi_says_to_every_digit() -> None:
    # In rank order the longest route has three links; every rank takes that long a step once all
    # wait for each other.
    ring, rank = ScheduleBuilder(64, 64 * MIB, slots=64), np.arange(64)
    sent: npt.NDArray[np.integer] = np.zeros((64, 0), dtype=np.int64)
    for step in range(126):
        send = ring.reduce if step < 63 else ring.copy
        slot = (rank - step - 1 if step < 63 else rank - step + 63) % 64
        sent = send(rank, (rank + 1) % 64, slot=slot, after=sent).reshape(-1, 1)
    blocking = simulate(ring.build(), cube(), sharing="fair").makespan
    assert printed(blocking * 1e3, 3) == "1.699"
    assert blocking == pytest.approx(126 * (3e-6 + MIB / 100e9), rel=1e-9)
    assert simulate(find("ring").build(64, 64 * MIB), cube(), sharing="fair").makespan < blocking
