"""Runs that show little of a machine: a fit keeps what measured machines have for the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from experiments.calibration.calibrated_profile import at_population, points, sends_alone
from experiments.calibration.fit import explore
from experiments.calibration.known_paths import machine_for
from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.prediction import times
from experiments.diagnosis.library_expectation import LibraryExpectation
from experiments.measurements import Curve, Point
from simulator.collectives import find as find_algorithm
from topologies.catalogue import find

MACHINE = find("hgx_h100")
SIZES = np.array([2.0**power for power in range(16, 33, 4)])


def curve(collective: str, ranks: int, nodes: int, slower: float = 1.0) -> Curve:
    """What NCCL should give on the machine, in so many times the time."""
    blank = Curve(collective, ranks, nodes, (), (), f"{collective}.csv", library="NCCL 2.24")
    expected = LibraryExpectation(MACHINE, "nccl")(blank, SIZES)
    assert expected is not None
    pairs = zip(SIZES.tolist(), (expected.seconds * slower).tolist(), strict=True)
    return replace(blank, points=tuple(Point(int(size), seconds) for size, seconds in pairs))


def test_slow_sends_do_not_slow_other_collectives_between_nodes() -> None:
    library, machine = NCCL.on(MACHINE), machine_for(MACHINE)
    runs = [curve("all_gather", 8, 1), curve("send_recv", 2, 2, slower=3.0)]
    measured, skipped = points(runs, library, machine)
    assert not skipped
    assert sends_alone(measured, library)
    fitted = explore(at_population(Model(measured, library, machine), MACHINE.build(16)))
    profile = fitted.model.profile(fitted.inner, "lopsided")
    known = curve("all_gather", 32, 4)
    algorithm, topology = find_algorithm("rings_all_gather"), find("hgx_h100:nodes=4").build(32)
    simulated = times(profile, algorithm, topology, 32, SIZES[-2:].tolist())
    off = [np.log(simulated[point.size].seconds / point.time_s) for point in known.points[-2:]]
    assert np.abs(off).max() < 0.3


def test_a_reducing_run_between_nodes_shows_their_links() -> None:
    library, machine = NCCL.on(MACHINE), machine_for(MACHINE)
    sends, inside = curve("send_recv", 2, 2), curve("all_gather", 8, 1)
    shown = points([sends, inside, curve("all_gather", 16, 2)], library, machine)[0]
    assert not sends_alone(shown, library)
    assert not sends_alone(points([sends], library, machine, least=1)[0], library)
    assert not sends_alone(points([inside], library, machine, least=1)[0], library)
    assert not sends_alone(points([sends, inside], library, machine)[0], MPI)
