"""Folded schedules: routes that look the same from all ranks, and slots that stand for others."""

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from folded import groups
from law_cases import tries
from simulator.collectives import Algorithm, algorithms, find
from simulator.collectives.collective import ALL_TO_ALL
from simulator.schedules import semantics
from simulator.schedules.folded_routes import NotSymmetric, Orbits
from simulator.schedules.followed import follow_slots
from simulator.schedules.routed import Routed, route
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, fold, rotations
from topologies.columns import Words
from topologies.link import Link
from topologies.shapes import bus, full_mesh, ring
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

RANKS = 4
LINK = {"bandwidth": 2.0, "latency": 0.5, "gap": 0.25}


def pairs() -> Schedule:
    """Every second rank stands for two: each rank sends to both of its neighbours."""
    builder = ScheduleBuilder(fold(RANKS, rotations(RANKS, 2)), 1.0)
    rank = builder.each()
    for step in (1, 3):
        builder.signal(rank, (rank + step) % RANKS, nbytes=1.0)
    return builder.build()


def on(topology: Topology) -> Routed:
    """Every rank sends to all others, and one rank stands for all."""
    return route(find("pairwise").schedule(RANKS, 4.0, rotations(RANKS)), topology)


def mesh(crossed: dict[tuple[int, int], str]) -> Topology:
    """A wire between every two ranks, some of which also cross shared media of these names."""
    builder = TopologyBuilder("mesh")
    names = [f"gpu{rank}" for rank in range(RANKS)]
    gpus = builder.devices(names, "gpu")
    number = {name: builder.medium(name, 1.0) for name in sorted({*crossed.values()})}
    for source, target in permutations(range(RANKS), 2):
        media = [number[crossed[source, target]]] if (source, target) in crossed else []
        builder.link(names[source], names[target], Link(2.0), kind="link", media=media)
    return builder.build(gpus)


def changed(column: str, place: int) -> Topology:
    """A full mesh of which a link, medium or rank has another cost."""
    topology = full_mesh(RANKS, **LINK)
    values = np.array(getattr(topology, column))
    values[place] += 0.25
    return replace(topology, **{column: values})  # type: ignore[arg-type]


def another_kind() -> Topology:
    """A full mesh of which a link has another kind."""
    topology = full_mesh(RANKS, **LINK)
    codes = np.zeros_like(topology.link_kinds.codes)
    codes[-1] = 1
    return replace(topology, link_kinds=Words(codes, ("link", "other")))


def test_alike_machines_are_no_mistake() -> None:
    for topology in (full_mesh(RANKS, **LINK), mesh({(0, 1): "x", (2, 3): "y"})):
        assert route(pairs(), topology).schedule.members == 2
    assert on(full_mesh(RANKS, **LINK)).schedule.members == RANKS


LINKS = "links have different latencies, kinds or numbers of media"
RATES = "ranks take different times to reduce or to copy"


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (lambda: changed("latency", -1), LINKS),
        (another_kind, LINKS),
        (lambda: changed("medium_bandwidth", -1), "media differ"),
        (lambda: changed("medium_gap", -1), "media differ"),
        (lambda: changed("reduction", 2), RATES),
        (lambda: changed("copy", 2), RATES),
        (lambda: bus(RANKS, bandwidth=1.0), "a shift leaves a medium in place"),
        (lambda: full_mesh(RANKS, **LINK, ports="one"), "media of a link are shifted apart"),
    ],
    ids=["latency", "kind", "bandwidth", "gap", "reduction", "copy", "bus", "ports"],
)
def test_what_differs_is_named(machine: Callable[[], Topology], words: str) -> None:
    with pytest.raises(NotSymmetric, match=words):
        on(machine())


@pytest.mark.parametrize(
    ("crossed", "words"),
    [
        ({(0, 1): "x"}, LINKS),
        ({(0, 1): "x", (2, 3): "x"}, "a shift leaves a medium in place"),
        ({(0, 1): "x", (2, 3): "z", (0, 3): "y", (2, 1): "z"}, "takes it to another one's"),
        ({(0, 1): "x", (2, 3): "z", (0, 3): "x", (2, 1): "y"}, "takes it to another one's"),
        ({(0, 1): "x", (2, 3): "z", (0, 3): "z", (2, 1): "x"}, "media of a link are shifted apart"),
    ],
    ids=["number", "in place", "two to one", "one to two", "apart"],
)
def test_shared_media_are_shifted_along(crossed: dict[tuple[int, int], str], words: str) -> None:
    with pytest.raises(NotSymmetric, match=words):
        route(pairs(), mesh(crossed))


def test_a_route_with_another_number_of_links_is_refused() -> None:
    with pytest.raises(NotSymmetric, match="routes have different numbers of links"):
        on(ring(RANKS + 1, **LINK))


@pytest.mark.parametrize(
    ("crossed", "later"),
    [({}, (2, 1)), ({(0, 1): "x", (2, 3): "z", (0, 3): "y", (2, 1): "z"}, (2, 3))],
    ids=["a wire", "a shared one"],
)
def test_a_medium_of_an_earlier_orbit_is_refused(
    crossed: dict[tuple[int, int], str], later: tuple[int, int]
) -> None:
    """Links are compared in several parts."""
    topology = mesh(crossed)
    _, links = topology.routes(np.array([0, 2, 0, 2]), np.array([1, 3, 3, 1]))
    orbits, hops = Orbits(rotations(RANKS, 2), topology), np.ones(1, dtype=np.int32)
    for _ in range(2):
        assert orbits.crossed(links[:2], hops).kind[0] == 0
    with pytest.raises(NotSymmetric, match="that of another orbit"):
        orbits.crossed(links[list(later)], hops)


FOLDING = [a for a in algorithms().values() if a.shifts(8) and a.fit is None]
COLUMNS = (
    "kind rank peer source target count reduces nbytes seconds lane phase".split()  # noqa: SIM905
)


def without(schedule: Schedule, operation: int) -> Schedule:
    """The schedule without an operation, and so without all for which it stands."""
    kept = np.arange(len(schedule)) != operation
    columns = {name: getattr(schedule, name)[kept] for name in COLUMNS}
    nobody = np.zeros(len(schedule), np.int32)
    return replace(schedule, **columns, indptr=nobody, indices=nobody[:0])


@pytest.mark.parametrize("algorithm", FOLDING, ids=[a.name for a in FOLDING])
@given(data=st.data())
@tries(3, many=100)
def test_what_is_right_is_proven_and_what_is_wrong_is_caught(
    algorithm: Algorithm, data: st.DataObject
) -> None:
    ranks = data.draw(st.integers(2, 16).filter(lambda p: any(groups(algorithm.shifts(p)))))
    group = data.draw(st.sampled_from([*groups(algorithm.shifts(ranks))]))
    schedule = algorithm.schedule(ranks, 4.0 * ranks, group)
    semantics.check(schedule, algorithm.collective)
    moving = np.flatnonzero(schedule.source >= 0)
    operation = data.draw(st.sampled_from(moving.tolist()))
    with pytest.raises(semantics.WrongResult):
        semantics.check(without(schedule, operation), algorithm.collective)


def test_one_slot_of_a_ring_stands_for_all() -> None:
    followed = follow_slots(find("ring").schedule(8, 8.0, rotations(8)))
    assert followed.slots.tolist() == [0]
    assert followed.weight.tolist() == [8]
    assert len(followed.operation) == 2 * 7


def test_slots_that_mix_are_all_followed() -> None:
    schedule = find("pairwise").schedule(4, 4.0, rotations(4))
    followed = follow_slots(schedule)
    assert followed.slots.tolist() == [*range(8)]
    assert len(followed.operation) == len(schedule) * 4


def test_bits_leave_one_slot() -> None:
    followed = follow_slots(find("halving_doubling").schedule(8, 8.0, Shifts((2,) * 3, (1,) * 3)))
    assert followed.slots.tolist() == [0]


def test_an_all_to_all_is_not_proven_on_some_slots() -> None:
    before = np.zeros((2, 2), np.uint64)
    with pytest.raises(ValueError, match="2 of 4 slots"):
        ALL_TO_ALL.postcondition(before, semantics.SlotSelection(np.arange(2, dtype=np.int32), 4))
