"""Messages between two ranks that follow each other."""

import pickle
from functools import partial

import numpy as np
import pytest

from simulator.collectives import find
from simulator.collectives.proof import prove
from simulator.engines import run, simulate
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_algorithms import in_turn
from simulator.parallel.group_times import GroupTimes
from simulator.schedules.timeline import Timeline
from topologies.catalogue import find as find_machine

NAMES = "ring", "rings", "double_tree", "rings_all_gather", "pairwise"


def fair(name: str, machine: str, *, turns: bool) -> Timeline:
    algorithm = in_turn(find(name)) if turns else find(name)
    schedule, topology, *_ = algorithm.on(find_machine(machine).build(8), 8, 1e6)
    prove(algorithm, schedule)
    return simulate(schedule, topology, sharing="fair")


def gaps(timeline: Timeline) -> list[float]:
    """The seconds between the end of each message and the start of the next one on its connection,
    below 0 if both are on their way at once."""
    schedule, between = timeline.schedule, list[float]()
    every = np.flatnonzero(schedule.remote)
    connection = np.stack((schedule.rank, schedule.peer, schedule.lane))[:, every]
    for each in np.unique(connection, axis=1).T:
        same = every[(connection == each[:, None]).all(axis=0)]
        between += (timeline.ready[same[1:]] - timeline.finish[same[:-1]]).tolist()
    return between


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("machine", ["star", "nodes:per_node=4", "nodes:per_node=2"])
def test_messages_of_a_connection_are_never_on_their_way_at_once(name: str, machine: str) -> None:
    assert min(gaps(fair(name, machine, turns=True)), default=0.0) >= -1e-12


def test_rings_that_lost_step_have_messages_of_a_connection_on_their_way_at_once() -> None:
    assert min(gaps(fair("ring", "alps:nodes=2", turns=False))) < -1e-6


@pytest.mark.parametrize("name", ["ring", "rings_all_gather", "pairwise"])
def test_what_keeps_step_takes_as_long(name: str) -> None:
    times = [fair(name, "star", turns=turns).makespan for turns in (False, True)]
    assert times[1] == pytest.approx(times[0], rel=1e-12)


def test_an_algorithm_has_its_turns_once_and_keeps_its_name_and_options() -> None:
    algorithm = find("ring:segments=2")
    turns = in_turn(algorithm)
    assert turns is in_turn(algorithm) is pickle.loads(pickle.dumps(turns))
    assert (turns.name, turns.options) == (algorithm.name, algorithm.options)


def times_on(machine: str) -> GroupTimes:
    """The times of eight ranks in data parallel under fair sharing."""
    built, fairly = find_machine(machine).build(8), partial(run, sharing="fair")
    return GroupTimes(built, Degrees(dp=8), run=fairly, takes_turns=True)


def test_a_call_has_turns_unless_latency_makes_it_longer() -> None:
    times, gather = times_on("alps:nodes=2"), find("rings_all_gather")
    assert times.fastest("data", "all_gather", 1e9) is in_turn(gather)
    assert times.fastest("data", "all_gather", 1e5) is gather


def test_the_fastest_algorithm_counts_whether_it_has_turns_or_not() -> None:
    times = times_on("hgx_h100:nodes=2,nics=2")
    for nbytes in (1e4, 1e6, 1e8):
        chosen = times.timed("data", "all_reduce", nbytes)
        alone = [times._time(nbytes, laid) for laid in times._every("data", "all_reduce")]
        assert chosen.longest <= 1.05 * min(timed.longest for timed in alone)
