"""Times of one node, computed by hand."""

import numpy as np
import pytest

from grouped_cases import each_case
from simulator.collectives import find
from simulator.engines import simulate
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.clusters import MACHINES, cluster
from topologies.topology import Topology

US = 1e-6

# Times of one node, computed by hand. T in seconds; s and f are the times of a chunk over a slow
# and a fast link.


def sent(machine: Topology, pairs: list[tuple[int, int]], nbytes: float) -> float:
    """The time of a message of `nbytes` for each pair, all ready at once and none waiting for a
    place to go."""
    sender, receiver = np.array(pairs).T
    schedule = ScheduleBuilder(machine.ranks, nbytes, scratch=len(pairs))
    schedule.copy(sender, receiver, slot=0, target=1 + np.arange(len(pairs)))
    return simulate(schedule.build(), machine).makespan


def collective(machine: Topology, name: str, ranks: int, nbytes: float) -> float:
    return simulate(find(name).build(ranks, nbytes), machine).makespan


@each_case(
    ("name", "pair", "bandwidth", "latency"),
    [
        ("pcie_box", (0, 1), 24e9, 0.5 + 0.5),  # up to the switch and down
        # between the sockets: UPI is the narrowest
        ("pcie_box", (0, 4), 10e9, 0.5 + 0.5 + 0.1 + 0.5 + 0.5),
        ("dgx1", (0, 1), 20e9, 0.6),  # one NVLink
        ("dgx1", (0, 3), 40e9, 0.6),  # two
        # by GPU 1 or 4: one of the two steps is single either way
        ("dgx1", (0, 5), 20e9, 0.6 + 0.6),
        ("dgx1", (0, 7), 40e9, 0.6 + 0.6),  # by GPU 4, two and two; to 6, which is even, by GPU 2
        ("dgx1", (0, 6), 20e9, 0.6 + 0.6),
        # through the NVSwitch, which adds its α and no second n/β
        ("dgx_a100", (0, 7), 240e9, 0.3 + 0.3),
        ("hgx_h100", (0, 7), 370.8e9, 0.3 + 0.3),
        ("hgx_h200", (3, 4), 370.8e9, 0.3 + 0.3),
        ("b200", (0, 7), 721.8e9, 0.3 + 0.3),
        ("nvl72", (0, 71), 721.8e9, 0.3 + 0.3),
        ("hgx_h800", (0, 7), 164.8e9, 0.3 + 0.3),
        ("hgx_b300", (0, 7), 721.8e9, 0.3 + 0.3),
        ("gb300", (0, 71), 721.8e9, 0.3 + 0.3),
        ("mi300x", (0, 7), 48e9, 0.6),
        ("mi355x", (0, 7), 48e9, 0.6),
        ("leonardo", (0, 3), 80e9, 0.6),
        ("mn5_acc", (0, 3), 123.6e9, 0.6),
        ("alps", (0, 3), 123.6e9, 0.6),
    ],
)
def test_a_message_takes_the_latencies_of_its_links_and_once_the_slowest(
    name: str, pair: tuple[int, int], bandwidth: float, latency: float
) -> None:
    machine, nbytes = MACHINES[name].node(), 1e6
    assert sent(machine, [pair], nbytes) == pytest.approx(
        latency * US + nbytes / bandwidth, rel=1e-12
    )


def test_an_nvswitch_does_not_block_but_a_gpu_has_one_port() -> None:
    """Eight pairs at once are as one; seven senders to one GPU queue at its port."""
    machine, nbytes = cluster("hgx_h100"), 1e6
    around = [(gpu, (gpu + 3) % 8) for gpu in range(8)]
    assert sent(machine, around, nbytes) == pytest.approx(0.6 * US + nbytes / 370.8e9, rel=1e-12)
    incast = [(gpu, 0) for gpu in range(1, 8)]
    assert sent(machine, incast, nbytes) == pytest.approx(
        0.6 * US + 7 * nbytes / 370.8e9, rel=1e-12
    )


def test_a_ring_in_a_pcie_box_is_as_fast_as_the_link_between_its_sockets() -> None:
    """V = 8 MB, a chunk of 1 MB: s = 100 us over UPI (10 GB/s), f = 41.7 us over PCIe (24 GB/s).
    Steps 3 -> 4 and 7 -> 0 cross UPI, one each way, and take s each time; the three steps between
    take 3 (f + 1 us) < 4 s, so that UPI never waits for them: 14 chunks one after the other, and
    the α of 0.5 + 0.5 + 0.1 + 0.5 + 0.5 us once."""
    assert collective(cluster("pcie_box"), "ring", 8, 8e6) == pytest.approx(
        (14 * 100 + 2.1) * US, rel=1e-12
    )


def test_a_ring_in_rank_order_in_a_dgx1() -> None:
    """V = 1.6 MB, a chunk of 200 kB: s = 10 us over one NVLink, f = 5 us over two. 3 -> 4 and 7 ->
    0 have no NVLink: they go 3 -> 0 -> 4 and 7 -> 3 -> 0, where s = 2 f, so that both fit on 3 ->
    0. The slow steps are 0 -> 1, 4 -> 5 and 7 -> 0, of which the last two in a row are 7 -> 0 and 0
    -> 1: 13 chunks over 7 -> 3, 2α for the last of them to arrive at 0, and from there s + α."""
    assert collective(cluster("dgx1"), "ring", 8, 1.6e6) == pytest.approx(
        (13 * 10 + 2 * 0.6 + 10 + 0.6) * US, rel=1e-12
    )


def test_two_nodes_of_leonardo_by_hand() -> None:
    """4 -> 0 of the other node: GPU, CPU, NIC, router, NIC, CPU, GPU: 0.5 * 4 + 0.35 * 2 us and
    n/12.5 GB/s; the ring crosses twice, in opposite directions, 14 times n = V/8 each: 14 s + α."""
    machine, nbytes = cluster("leonardo", 2), 8e6
    assert sent(machine, [(3, 4)], nbytes) == pytest.approx(2.7 * US + nbytes / 12.5e9, rel=1e-12)
    assert collective(machine, "ring", 8, nbytes) == pytest.approx(
        2.7 * US + 14 * 1e6 / 12.5e9, rel=1e-12
    )


def test_leonardo_shares_its_only_cpu_but_not_its_links() -> None:
    """All four GPUs to the other node at once, each by its own NIC: as one alone."""
    machine, nbytes = cluster("leonardo", 2), 8e6
    alike = [(gpu, gpu + 4) for gpu in range(4)]
    assert sent(machine, alike, nbytes) == pytest.approx(2.7 * US + nbytes / 12.5e9, rel=1e-12)
    one_nic = cluster("leonardo", 2, nics=1)
    assert sent(one_nic, alike, nbytes) == pytest.approx(2.7 * US + 4 * nbytes / 12.5e9, rel=1e-12)
    assert cluster("leonardo").ranks == 4
