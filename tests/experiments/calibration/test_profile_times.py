"""A large schedule is simulated at a few sizes, and takes as long at the others as simulations
say."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from experiments.calibration.known_paths import as_nodes
from experiments.calibration.libraries import MPI
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.prediction import times
from experiments.profiles import parse
from simulator.collectives import find
from simulator.engines import run as simulate
from simulator.profile import Profile
from simulator.schedules.routed import Routed
from simulator.schedules.timeline import Timeline
from sure_profile import SURE
from topologies import catalogue
from topologies.topology import Topology

SIZES = [float(4**k) for k in range(2, 15)]


def machine() -> Profile:
    """MPI where its priors say, with some crowding."""
    blank = FitCurve(
        "", "all_reduce", ("halving_doubling",), 8, 2, np.array(SIZES), np.ones(len(SIZES))
    )
    model = Model(FitPoints([blank]), MPI)
    return model.profile(model.start, "made up", "nodes")


@pytest.mark.parametrize("most", [inf, 192.0])
@pytest.mark.parametrize(
    "name",
    [
        "ring",
        "halving_doubling",
        "recursive_doubling",
        "binary_tree",
        "neighbor_exchange",
        "pairwise",
    ],
)
def test_few_simulations_say_what_all_say(
    name: str, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the messages of the first protocol have a limit."""
    profile, algorithm, topology = machine(), find(name), as_nodes(8, 4)
    first, *others = profile.protocols
    profile = replace(profile, protocols=(replace(first, most=most), *others))
    every = times(profile, algorithm, topology, 8, SIZES)
    runs: list[Routed] = []

    def counted(routed: Routed) -> Timeline:
        runs.append(routed)
        return simulate(routed)

    monkeypatch.setattr("experiments.calibration.prediction.run", counted)
    monkeypatch.setattr("experiments.calibration.prediction.LARGE_SCHEDULE", 0)
    time_of = times(profile, algorithm, topology, 8, SIZES)
    assert time_of.keys() == every.keys()
    for size in SIZES:
        assert time_of[size][0] == pytest.approx(every[size][0], rel=1e-4)
    assert len(runs) < len(SIZES) * len(profile.protocols)


def test_a_ring_needs_three_simulations_a_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    """All its ranks do the same, so that one path is critical at every size."""
    runs: list[Routed] = []

    def counted(routed: Routed) -> Timeline:
        runs.append(routed)
        return simulate(routed)

    monkeypatch.setattr("experiments.calibration.prediction.run", counted)
    monkeypatch.setattr("experiments.calibration.prediction.LARGE_SCHEDULE", 0)
    time_of = times(machine(), find("ring"), as_nodes(16, 1), 16, SIZES)
    assert list(time_of) == SIZES
    assert len(runs) <= 2 + 3 * len(machine().protocols)


def test_large_schedules_have_the_intervals_of_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    profile, algorithm, topology = parse(SURE, "mine.yaml").simulated(), find("ring"), nodes(8)
    every = times(profile, algorithm, topology, 8, SIZES)
    monkeypatch.setattr("experiments.calibration.prediction.LARGE_SCHEDULE", 0)
    for size, timed in times(profile, algorithm, topology, 8, SIZES).items():
        sure, known = timed.interval, every[size].interval
        assert sure is not None
        assert known is not None
        assert sure[:3] == pytest.approx(known[:3])
        assert sure.unsure == known.unsure


def test_large_schedules_keep_the_effects_of_an_algorithm_with_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile, algorithm, topology = machine(), find("chain_broadcast:segments=8"), as_nodes(8, 4)
    slowed = (protocol.slowed(["chain_broadcast"], 20.0) for protocol in profile.protocols)
    profile = replace(profile, protocols=tuple(slowed))
    every = times(profile, algorithm, topology, 8, SIZES)
    monkeypatch.setattr("experiments.calibration.prediction.LARGE_SCHEDULE", 0)
    time_of = times(profile, algorithm, topology, 8, SIZES)
    assert [time_of[size].seconds for size in SIZES] == pytest.approx(
        [every[size].seconds for size in SIZES], rel=1e-4
    )


def test_without_uncertainty_there_is_no_interval() -> None:
    (timed,) = times(machine(), find("ring"), as_nodes(8, 4), 8, [1024.0]).values()
    assert timed.interval is None


def nodes(ranks: int) -> Topology:
    return catalogue.find("nodes:per_node=1").build(ranks)


def test_without_sizes_there_is_nothing() -> None:
    assert times(machine(), find("ring"), as_nodes(4, 1), 4, []) == {}


def test_a_scaled_schedule_keeps_what_is_known_of_its_order() -> None:
    schedule = find("ring").build(8, 1.0)
    steps, successors = schedule.steps, schedule.successors
    scaled = schedule.scaled(64.0)
    assert scaled.successors is successors
    assert scaled.remote is schedule.remote
    assert (scaled.steps, scaled.volume) == (steps, 64 * schedule.volume)
