"""What the slots hold at the end of an animation is what the collective promises."""

from collections.abc import Callable

import numpy as np
import pytest

from experiments.animation.film import Film, film_of
from experiments.animation.stage import stages
from simulator.collectives import Algorithm, algorithms, find
from simulator.collectives.collective import ALL_REDUCE
from simulator.engines import simulate
from simulator.schedules.routed import route
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.catalogue import find as find_machine
from topologies.errors import InputError
from topologies.shapes import star

RANKS = 4
MACHINES = {
    "nvls": "hgx_h100",
    "nvls_tree": "hgx_h100",
    "multimem_one_shot": "hgx_h100",
    "sharp": "hgx_h100:nodes=2,sharp=yes",
}
"""Machines of the algorithms that need switches that reduce."""


def film(algorithm: Algorithm, ranks: int = RANKS) -> Film:
    machine = find_machine(MACHINES.get(algorithm.name, "star")).build(ranks, algorithm.servers)
    fitted = algorithm.on(machine, ranks, 2.0**20)
    return film_of(simulate(fitted.schedule, fitted.topology), algorithm.collective)


@pytest.mark.parametrize(
    "ranks", [RANKS, *(pytest.param(p, marks=pytest.mark.exhaustive) for p in (2, 3, 6, 8))]
)
def test_every_algorithm_ends_with_what_is_promised(ranks: int) -> None:
    for name, algorithm in algorithms().items():
        if not algorithm.defined(ranks) or (name == "sharp" and ranks % 2):
            continue
        result = film(algorithm, ranks)
        assert result.wrong == "", name
        for act in result.acts.values():
            still = act.still(act.end)
            values = dict(zip(act.cells.tolist(), still.values, strict=True))
            sets = act.run.values.sets
            assert not still.messages
            for cell, contributions in act.run.promise.cells.items():
                assert sets[values[cell]] == contributions, (name, cell)
            assert len(act.titles) == len(act.sentences) == result.steps + 1
            assert np.all(np.diff(act.written_at) >= 0), name


@pytest.mark.parametrize("ranks", [2, 4, 9])
def test_cards_do_not_overlap(ranks: int) -> None:
    for name in ("ring", "star", "line", "bus", "full_mesh", "grid", "tree", "nodes", "hgx_h100"):
        if name == "hgx_h100" and ranks > 8:
            continue
        machine = find_machine(name).build(ranks, 0)
        ring = simulate(find("ring").build(ranks, 1.0), machine)
        for stage in stages(route(ring.schedule, machine), ranks):
            size = np.array([stage.card.width, stage.card.height])
            assert (stage.ranks >= size / 2).all(), name
            assert (stage.ranks + size / 2 <= [stage.width, stage.height]).all(), name
            away = np.abs(stage.ranks[:, None] - stage.ranks) >= size
            assert (away.any(axis=2) | np.eye(ranks, dtype=np.bool_)).all(), name


def test_a_ring_is_told_step_by_step() -> None:
    act = film(find("ring")).acts["simulated time"]
    assert act.titles[2] == "reduce-scatter, step 2 of 3"
    assert act.sentences[2] == (
        "Rank 0 sends slot 2 to rank 1, which adds it: 3 of 4 contributions. "
        "3 more transfers do the same."
    )
    assert act.titles[-1] == "all-gather, step 3 of 3"
    assert act.sentences[-1].startswith("Rank 0 sends slot 2 to rank 1, which stores it: 4 of 4")
    middle = act.still(0.25 * act.end)
    assert middle.step == 2
    assert len(middle.messages) == RANKS
    assert all(0 < message.share < 1 for message in middle.messages)


def test_a_barrier_tells_who_has_been_heard_of() -> None:
    act = film(find("dissemination_barrier")).acts["equal steps"]
    assert act.sentences[-1].startswith("Rank 0 signals rank 2: 4 of 4 ranks, complete.")


def broken(change: Callable[[ScheduleBuilder], object]) -> Film:
    """A tree of three ranks with a change after its reduction."""
    builder = ScheduleBuilder(3, 1.0, slots=1, phase="reduce")
    builder.reduce(1, 0, slot=0)
    change(builder)
    builder.phase("broadcast")
    builder.copy(0, np.array([1, 2]), slot=0)
    return filmed(builder.build())


def filmed(schedule: Schedule) -> Film:
    return film_of(simulate(schedule, star(3, bandwidth=1e9)), ALL_REDUCE)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda tree: None, "rank 0, slot 0: the contribution of rank 2, slot 0 is missing"),
        (
            lambda tree: tree.reduce(np.array([1, 2]), 0, slot=0),
            "rank 0, slot 0: the contribution of rank 1, slot 0 is added twice",
        ),
        (
            lambda tree: tree.copy(2, 0, slot=0),
            "rank 0, slot 0: the contribution of rank 0, slot 0 (and 1 more) is overwritten",
        ),
    ],
)
def test_a_wrong_algorithm_stops_at_the_first_wrong_value(
    change: Callable[[ScheduleBuilder], object], reason: str
) -> None:
    result = broken(change)
    assert reason in result.wrong
    for act in result.acts.values():
        assert act.wrong is not None
        assert act.end < act.clock.marks[-1]
        assert act.run.writes[act.writes - 1].cell == act.cells[act.wrong.place]


def test_foreign_data_are_the_first_wrong_value() -> None:
    builder = ScheduleBuilder(3, 1.0, slots=2)
    builder.reduce(1, 0, slot=0, target=1)
    result = filmed(builder.build())
    assert "rank 0, slot 1: the contribution of rank 1, slot 0 does not belong" in result.wrong


def test_what_is_never_sent_is_missing_at_the_end() -> None:
    builder = ScheduleBuilder(3, 1.0, slots=1)
    builder.signal(0, 1)
    result = filmed(builder.build())
    assert "No operation is wrong, one is missing" in result.wrong


def test_too_many_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="--p 33: an animation shows 2 to 32 ranks"):
        film(find("ring"), 33)
