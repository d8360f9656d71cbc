"""Grids: their numbers, and what their points share."""

import pickle

import pytest

from experiments.execution.process_pool import Processes
from experiments.simulations import grid as module
from experiments.simulations.grid import Grid, sweep
from refusals import refusal
from simulator.collectives import algorithms, find
from topologies.catalogue import find as find_machine
from topologies.topology import Topology

NAMES = ("ring", "nvls", "tree")
STAR = find_machine("star").build
GRID = Grid([find(name) for name in NAMES], [3, 2], [1.0, 2.0**20], STAR)


def test_points_are_numbered_by_algorithm_ranks_and_size() -> None:
    points = [*GRID.run(range(len(GRID.costs)))]
    assert len(points) == len(GRID.costs) == 12
    assert [(point.algorithm, point.ranks) for point in points] == [
        (name, p) for name in NAMES for p in (3, 2) for _ in range(2)
    ]
    for numbers in ([11, 0], [5], [3, 4, 9]):
        assert [*GRID.run(numbers)] == [points[number] for number in numbers]


def test_a_point_is_the_same_after_json() -> None:
    for point in GRID.run(range(12)):
        assert GRID.decode(GRID.encode(point)) == point


def test_without_someone_to_tell_a_missing_point_is_an_error() -> None:
    assert "star" in refusal(lambda: list(sweep(GRID)))


def test_rows_do_not_depend_on_who_runs_them() -> None:
    missing: list[object] = []
    serial = list(sweep(GRID, missing=missing.append))
    assert list(sweep(GRID, Processes(2), missing=missing.append)) == serial
    assert len(missing) == 2 * 4


def test_small_machines_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []

    def machine(ranks: int, servers: int) -> Topology:
        built.append(ranks)
        return STAR(ranks, servers)

    monkeypatch.setattr(module, "KEPT_RANKS", 4)
    grid = Grid([find("ring"), find("tree")], [3, 4, 5], [1.0], machine)
    assert len(list(sweep(grid))) == 6
    assert built == [3, 4, 5, 5]


def test_a_grid_is_pickled_without_what_was_computed() -> None:
    size = len(pickle.dumps(GRID))
    list(GRID.run([0]))
    assert len(pickle.dumps(GRID)) == size
    copy = pickle.loads(pickle.dumps(GRID))
    assert copy.algorithms == GRID.algorithms
    assert list(copy.run([8])) == list(GRID.run([8]))


def test_an_algorithm_is_pickled_as_its_name() -> None:
    for name in algorithms():
        assert pickle.loads(pickle.dumps(find(name))) is find(name)
