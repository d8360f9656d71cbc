"""Media and lanes where first come is first served, each alone."""

from __future__ import annotations

import numpy as np

from simulator.kernels import first_come
from simulator.kernels.events import Runs
from simulator.kernels.records import Times, Turns, Work
from simulator.kernels.repeats import Parts, Steps
from simulator.schedules.routed import route
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.shapes import line


def work() -> Work:
    """A computation of 3 s, and a transfer of 8 B that is merged, over a link of 2 B/s."""
    builder = ScheduleBuilder(2, 8.0)
    builder.compute(0, 3.0)
    builder.reduce(0, 1, slot=0)
    machine = line(2, bandwidth=2.0, gap=1.0, reduction=0.5)
    return route(builder.build(), machine).work


def test_a_link_is_taken_when_all_its_media_are_free() -> None:
    times, media = Times.blank(work()), Turns.of(2)
    link = int(work().routes.links[0])
    medium = int(work().network.media[work().network.indptr[link]])
    assert first_come.cross(work(), times, media, 1, 1, link, 2.0) == (2.0, 7.0)
    assert first_come.cross(work(), times, media, 1, 2, link, 3.0) == (7.0, 12.0)
    assert times.cause[1:].tolist() == [-1, 1], "it waited for node 1"
    assert (media.free[medium], media.holder[medium]) == (12.0, 2)
    assert (media.first[medium], media.last[medium]) == (2.0, 3.0)


def test_computations_and_merging_have_lanes_of_their_own() -> None:
    times, lanes = Times.blank(work()), Turns.of(work().ranks.serials)
    first_come.occupy(work(), times, lanes, 0, 0, 1.0)
    first_come.occupy(work(), times, lanes, 1, 2, 1.0)
    assert times.finish.tolist() == [4.0, 5.0]
    assert lanes.holder.tolist() == [0, -1, -1, 2]
    assert lanes.first.tolist() == [1.0, np.inf, np.inf, 1.0]
    first_come.occupy(work(), times, lanes, 1, 2, 2.0)
    assert (times.start[2], times.cause[2]) == (5.0, 2)


def test_everything_is_done_in_order() -> None:
    times, lanes, media = Times.blank(work()), Turns.of(work().ranks.serials), Turns.of(2)
    no_predecessors = work().predecessors._replace(indptr=np.zeros(3, np.int32))
    runs, steps = Runs.empty(), Steps.of(Parts.none(), 2, 2, fills=True)
    done = first_come.simulate(work(), no_predecessors, times, media, lanes, runs, steps, False)
    assert done == 2
    assert times.finish.tolist() == [3.0, 9.0]
