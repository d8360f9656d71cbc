"""What the slots hold at the end of an animation is what the collective promises."""

from collections.abc import Callable

import numpy as np
import pytest

from experiments.animation.collective_film import collective_film
from experiments.animation.film import INK, Film
from experiments.animation.slot_contents import equal_steps, follow
from experiments.animation.stage import stages
from refusals import refusal
from simulator.collectives import Algorithm, algorithms, find
from simulator.collectives.collective import ALL_REDUCE
from simulator.engines import simulate
from simulator.schedules.routed import route
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.catalogue import find as find_machine
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
    return collective_film(simulate(fitted.schedule, fitted.topology), algorithm.collective)


@pytest.mark.parametrize(
    "ranks", [RANKS, *(pytest.param(p, marks=pytest.mark.exhaustive) for p in (2, 3, 6, 8))]
)
def test_every_algorithm_ends_with_what_is_promised(ranks: int) -> None:
    for name, algorithm in algorithms().items():
        if not algorithm.defined(ranks) or (name == "sharp" and ranks % 2):
            continue
        result = film(algorithm, ranks)
        machine = find_machine(MACHINES.get(name, "star")).build(ranks, algorithm.servers)
        schedule = algorithm.on(machine, ranks, 2.0**20).schedule
        run = follow(schedule, algorithm.collective, equal_steps(schedule, schedule.depth()).order)
        assert {cell: run.last[cell] for cell in run.promise} == run.promise, name
        for act in result.acts:
            assert act.wrong == "", name
            complete = [shape for shape in act.visible(act.end) if shape.look.edge == INK]
            assert len(complete) == len(run.promise), name
            assert not [shape for shape in act.visible(act.end) if shape.look.style == "arrow"]
            assert len(act.titles) == len(act.sentences) == len(act.marks) == len(act.details)


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


def test_ranks_stand_on_their_machine_with_its_links() -> None:
    nvls = film(find("nvls"), 8)
    lines = [shape for shape in nvls.acts[0].shapes if shape.look.style == "line"]
    assert len(lines) == 8, "a link from each GPU to the switch"


def test_a_ring_is_told_step_by_step() -> None:
    act = film(find("ring")).acts[0]
    assert act.titles[2] == "reduce-scatter, step 2 of 3"
    assert act.sentences[2] == (
        "Rank 0 sends slot 2 to rank 1, which adds it: 3 of 4 contributions. "
        "3 more transfers do the same."
    )
    assert act.titles[-1] == "all-gather, step 3 of 3"
    assert act.sentences[-1].startswith("Rank 0 sends slot 2 to rank 1, which stores it: 4 of 4")
    middle = 0.25 * act.end
    assert act.step(middle) == 2
    moving = [shape for shape in act.visible(middle) if shape.look.style == "arrow"]
    assert len(moving) == RANKS
    assert all(shape.begin < middle < shape.arrival for shape in moving)


def test_a_barrier_tells_who_has_been_heard_of() -> None:
    act = film(find("dissemination_barrier")).acts[1]
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
    return collective_film(simulate(schedule, star(3, bandwidth=1e9)), ALL_REDUCE)


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
    for act in result.acts:
        assert reason in act.wrong
        assert act.end < act.marks[-1]
        (failed,) = (shape for shape in act.shapes if shape.look.after == "✗")
        assert failed.begin == act.end


def test_foreign_data_are_the_first_wrong_value() -> None:
    builder = ScheduleBuilder(3, 1.0, slots=2)
    builder.reduce(1, 0, slot=0, target=1)
    result = filmed(builder.build())
    assert (
        "rank 0, slot 1: the contribution of rank 1, slot 0 does not belong" in result.acts[0].wrong
    )


def test_what_is_never_sent_is_missing_at_the_end() -> None:
    builder = ScheduleBuilder(3, 1.0, slots=1)
    builder.signal(0, 1)
    result = filmed(builder.build())
    assert "No operation is wrong, one is missing" in result.acts[0].wrong


def test_too_many_ranks_are_refused() -> None:
    assert "--p 33: an animation shows 2 to 32 ranks" in refusal(film, find("ring"), 33)
