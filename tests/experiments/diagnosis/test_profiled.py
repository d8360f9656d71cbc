"""What a calibrated machine should give: the profile's own prediction, never below its bound."""

import numpy as np
import pytest

from experiments.calibration.libraries import library
from experiments.diagnosis.expectation import Expected, profiled
from experiments.measurements import Curve, Point
from experiments.profiles import find, names
from experiments.simulations.grid import MachineBuilder
from law_cases import a_third
from simulator.profile import Profile, Protocol
from topologies.catalogue import find as find_machine
from topologies.link import Link
from topologies.shapes import nodes
from topologies.topology import Topology

SIZES = np.geomspace(4.0, 2.0**28, 8)


def expected(name: str, collective: str, algorithm: str, ranks: int, nodes: int) -> Expected | None:
    profile = find(name)

    def machine(curve: Curve) -> MachineBuilder:
        return find_machine(profile.machine).for_job(curve.ranks or 0, curve.nodes or 0).build

    points = tuple(Point(int(size), 1.0) for size in SIZES)
    kind = library(profile.library).on(find_machine(profile.machine))
    return profiled(profile.simulated(), kind, machine, name)(
        Curve(collective, ranks, nodes, points, (), "x", algorithm=algorithm), SIZES
    )


@pytest.mark.parametrize("name", a_third(names(), 0))
def test_no_expectation_beats_its_bound(name: str) -> None:
    answer = expected(name, "all_reduce", "ring", 8, 8)
    assert answer is not None
    assert (answer.seconds >= answer.bound * (1 - 1e-9)).all()
    assert isinstance(answer.topology, Topology)


def test_the_bound_is_that_of_the_whole_machine_where_few_ranks_stand_for_all() -> None:
    """A ring of 64 ranks is simulated by one of them."""
    answer = expected("mn5_acc", "all_reduce", "ring", 64, 16)
    assert answer is not None
    assert (answer.seconds >= answer.bound * (1 - 1e-9)).all()
    assert isinstance(answer.topology, Topology)
    assert answer.topology.links > 64


def test_few_elements_run_what_the_library_takes_instead() -> None:
    answer = expected("leonardo_cpu", "all_reduce", "ring", 64, 64)
    assert answer is not None
    assert answer.algorithm[0].startswith("recursive_doubling")
    assert answer.algorithm[-1].startswith("ring")


def test_what_no_machine_here_can_run_is_not_expected() -> None:
    assert expected("abci_v100", "all_reduce", "nvls", 16, 4) is None
    assert expected("mn5_acc", "barrier", "", 16, 4) is None


def test_a_label_that_is_known_to_have_no_effect_expects_what_ran_instead() -> None:
    """On MareNostrum 5 NCCL leaves NVLSTree for a ring, and NVLS for the faster of ring and
    tree."""
    ring, tree, nvls, fallen = (
        expected("mn5_acc", "all_reduce", name, 16, 4)
        for name in ("ring", "tree", "nvls", "NVLSTree")
    )
    assert ring is not None
    assert tree is not None
    assert nvls is not None
    assert fallen is not None
    assert fallen.seconds.tolist() == ring.seconds.tolist()
    assert nvls.seconds.tolist() == np.minimum(ring.seconds, tree.seconds).tolist()


def test_what_one_algorithm_pays_is_in_no_bound() -> None:
    """Long exchanges take longer; a ring has none, and may be faster than an exchange at the
    machine's own rate."""
    ring, exchange = (
        expected("mn5_cpu", "all_gather", name, 16, 16)
        for name in ("ring_all_gather", "recursive_doubling_all_gather")
    )
    assert ring is not None
    assert exchange is not None
    assert ring.seconds[-1] < exchange.seconds[-1]
    assert exchange.bound[-1] < ring.seconds[-1]


def test_pairs_that_ping_pong_share_the_port_of_their_node() -> None:
    """Four pairs put two messages on each direction of it."""
    curve = Curve("send_recv", 8, 2, (), (), "x", kind="multi-pair latency", pairs=True)
    profile = find("mn5_acc")

    def calibrated(curve: Curve) -> MachineBuilder:
        return find_machine(profile.machine).for_job(curve.ranks or 0, curve.nodes or 0).build

    def on_shape(curve: Curve) -> MachineBuilder:
        return lambda ranks, servers: nodes(ranks, per_node=(curve.ranks or 0) // 2, bandwidth=1e9)

    kind = library(profile.library)
    links = dict.fromkeys(("node", "network"), Link(1e9))
    plain = Profile("plain", "nodes", 0.0, (Protocol("one", links),))
    on_plain_links = profiled(plain, kind, on_shape, "plain")(curve, SIZES)
    measured = profiled(profile.simulated(), kind, calibrated, "mn5_acc")(curve, SIZES)
    assert on_plain_links is not None
    assert on_plain_links.seconds == pytest.approx(2 * SIZES / 1e9)
    assert on_plain_links.bound == pytest.approx(2 * SIZES / 1e9)
    assert {*on_plain_links.algorithm} == {"ping_pong, one"}
    assert measured is not None
    assert all(name.startswith("ping_pong, ") for name in measured.algorithm)
