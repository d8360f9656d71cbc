"""Messages between two ranks that follow each other."""

import pickle

import numpy as np
import pytest

from simulator.collectives import find
from simulator.collectives.proof import prove
from simulator.engines import simulate
from simulator.parallel.connections import in_turn, takes_turns
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
    assert takes_turns(turns)
    assert not takes_turns(algorithm)
    assert (turns.name, turns.options) == (algorithm.name, algorithm.options)
