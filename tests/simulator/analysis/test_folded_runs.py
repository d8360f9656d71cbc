"""What is read of a folded run is what is read of the run of all ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from folded import groups, machines
from law_cases import a_sixth, tries
from simulator.analysis import memory
from simulator.analysis.contention import waited
from simulator.analysis.critical_path import critical_path, parts, waits, worth
from simulator.collectives import Algorithm, algorithms, find
from simulator.cost_models.fabric import observe
from simulator.engines import simulate
from simulator.schedules.shifts import rotations
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.shapes import ring

FOLDING = [algorithm for algorithm in algorithms().values() if algorithm.shifts(8)]
by_name = pytest.mark.parametrize("algorithm", a_sixth(FOLDING, 3))


def two_runs(algorithm: Algorithm, data: st.DataObject) -> tuple[Timeline, Timeline] | None:
    """A run of all ranks and a folded one, if the machine allows it."""
    ranks = data.draw(st.integers(2, 12).filter(lambda p: any(groups(algorithm.shifts(p)))))
    group = data.draw(st.sampled_from([*groups(algorithm.shifts(ranks))]))
    topology = data.draw(st.sampled_from([*machines(ranks)]))
    nbytes, fair = 4.0 * ranks, data.draw(st.booleans())
    try:
        whole = algorithm.on(topology, ranks, nbytes)
        fitted = algorithm.on(topology, ranks, nbytes, group)
        folded = simulate(fitted.schedule, fitted.topology, sharing="fair" if fair else "fifo")
    except InputError:
        return None
    run = simulate(whole.schedule, whole.topology, sharing="fair" if fair else "fifo")
    return run, folded


@by_name
@given(data=st.data())
@tries(2, 25)
def test_memory(algorithm: Algorithm, data: st.DataObject) -> None:
    if runs := two_runs(algorithm, data):
        whole, folded = (memory.trace(run.schedule, run) for run in runs)
        for name in ("times", "resident", "redundant", "peaks"):
            expected, traced = getattr(whole, name), getattr(folded, name)
            np.testing.assert_allclose(traced, expected, 1e-12, 1e-9, err_msg=name)
        rank = data.draw(st.integers(0, len(whole.peaks) - 1))
        for expected, traced in zip(whole.of(rank), folded.of(rank), strict=True):
            np.testing.assert_allclose(traced, expected, 1e-12, 1e-9)


@by_name
@given(data=st.data())
@tries(2, 25)
def test_the_fabric(algorithm: Algorithm, data: st.DataObject) -> None:
    if runs := two_runs(algorithm, data):
        assert observe(runs[1].routed) == observe(runs[0].routed)


@by_name
@given(data=st.data())
@tries(2, 25)
def test_the_critical_path(algorithm: Algorithm, data: st.DataObject) -> None:
    if runs := two_runs(algorithm, data):
        whole, folded = runs
        path = critical_path(folded)
        assert sum(segment.seconds for segment in path) == pytest.approx(whole.makespan)
        same_path(whole, folded)
        for wait in waits(folded, path):
            assert wait.waiter not in wait.behind


def same_path(whole: Timeline, folded: Timeline) -> None:
    """Equally late predecessors are chosen alike."""
    near = 1e-9 * whole.makespan
    for shares in (parts, worth):
        expected, by_few = (shares(critical_path(timeline)) for timeline in (whole, folded))
        assert by_few == pytest.approx(expected, abs=near)


def test_two_links_of_an_orbit_are_not_a_link_that_is_crossed_twice() -> None:
    """Of a message over several links of a ring, each link serves messages of other ranks too."""
    algorithm, topology = find("pairwise_sync"), ring(7, bandwidth=1.0, latency=0.5)
    whole, folded = (
        simulate(algorithm.schedule(7, 7.0, shifts), topology, sharing="fair")
        for shifts in (None, rotations(7))
    )
    assert parts(critical_path(whole))["contention"] > 0.3 * whole.makespan
    same_path(whole, folded)
    expected, waited_by_one = (np.sum(waited(timeline), axis=1) for timeline in (whole, folded))
    np.testing.assert_allclose(7 * waited_by_one, expected)
    waiting = [waits(timeline, critical_path(timeline)) for timeline in (whole, folded)]
    for each in waiting:
        assert sum(wait.seconds for wait in each) == pytest.approx(
            parts(critical_path(whole))["contention"]
        )


@by_name
@given(data=st.data())
@tries(2, 25)
def test_bytes_on_media(algorithm: Algorithm, data: st.DataObject) -> None:
    """A medium that stands for an orbit carries what each medium of the orbit does."""
    if runs := two_runs(algorithm, data):
        whole, folded = runs
        names = {name: k for k, name in enumerate(whole.routed.topology.medium_names)}
        same = [names[name] for name in folded.routed.topology.medium_names]
        np.testing.assert_allclose(folded.medium_bytes(), whole.medium_bytes()[same])
        np.testing.assert_allclose(folded.utilisation(), whole.utilisation()[same])
