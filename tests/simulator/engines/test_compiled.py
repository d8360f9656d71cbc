"""A part of a run that begins while media and lanes are still held."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.collectives import find
from simulator.engines import compiled
from simulator.engines import run as whole
from simulator.schedules.routed import Routed, in_ticks, route
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.shapes import line, star


def message() -> Routed:
    """A computation of 3 s, and 8 B that are merged, over a link of 2 B/s."""
    builder = ScheduleBuilder(2, 8.0)
    builder.compute(0, 3.0)
    builder.reduce(0, 1, slot=0)
    return route(builder.build(), line(2, bandwidth=2.0, gap=1.0, reduction=0.5))


def test_a_medium_that_is_held_delays_a_message() -> None:
    routed = message()
    media = len(routed.topology.medium_names)
    free = np.zeros(media + routed.work.ranks.serials)
    serials = routed.work.ranks.serials
    places = compiled.used(routed)
    free[places[places >= serials]] = 10.0
    part = compiled.run_part(routed, np.zeros(2), free)
    assert part.times.finish.tolist() == [3.0, 19.0]
    window = part.windows
    crossed = int(np.flatnonzero(window.place >= serials)[0])
    assert part.waits.tolist() == [window.place[crossed]]
    assert (window.first[crossed], window.last[crossed], window.free[crossed]) == (0.0, 0.0, 15.0)


def test_a_lane_that_is_held_delays_a_computation() -> None:
    routed = message()
    free = np.zeros(len(routed.topology.medium_names) + routed.work.ranks.serials)
    free[0] = 4.0
    part = compiled.run_part(routed, np.zeros(2), free)
    assert part.times.finish.tolist() == [7.0, 9.0]


def test_operations_are_not_ready_before_their_entry() -> None:
    routed = message()
    free = np.zeros(len(routed.topology.medium_names) + routed.work.ranks.serials)
    part = compiled.run_part(routed, np.array([1.0, 2.0]), free)
    assert part.times.ready.tolist() == [1.0, 2.0]
    assert part.times.finish.tolist() == [4.0, 11.0]


@given(
    algo=st.sampled_from(["ring", "tree", "naive", "halving_doubling"]),
    ranks=st.sampled_from([2, 4, 8]),
    begin=st.integers(0, 2**20),
    bandwidth=st.floats(1.0, 1e3),
)
def test_in_ticks_the_begin_moves_all_times(
    algo: str, ranks: int, begin: int, bandwidth: float
) -> None:
    topology = star(ranks, bandwidth=bandwidth, latency=0.1)
    routed = in_ticks(route(find(algo).build(ranks, 100.0), topology), 2.0**-30)
    free = np.zeros(len(topology.medium_names) + routed.work.ranks.serials)
    ready = np.full(len(routed.schedule), begin * 2.0**-20)
    expected = whole(routed).finish + begin * 2.0**-20
    assert np.array_equal(compiled.run_part(routed, ready, free).times.finish, expected)
