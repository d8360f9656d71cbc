"""Points of a sweep: rows that check themselves, and the grid that numbers them."""

import pickle
from dataclasses import replace

import pytest

from experiments.execution.process_pool import Processes
from experiments.simulations import grid as module
from experiments.simulations.case import Case
from experiments.simulations.grid import Grid, sweep
from experiments.simulations.rules import DEFAULT, Rules
from experiments.simulations.sweep_rows import PointVerdict, SweepRow, SweepTable, judge, to_frame
from grouped_cases import each_case
from law_cases import EVERYWHERE, NAMES
from parsed_html import Parsed
from refusals import refusal
from simulator.collectives import Algorithm, algorithms, find
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.catalogue import find as find_machine
from topologies.catalogue import find as find_topology
from topologies.shapes import ring, star
from topologies.topology import Topology

V = 2.0**20


def machine(ranks: int, servers: int = 0) -> Topology:
    return star(ranks + servers, bandwidth=1e9, latency=1e-6)


def row_of(
    algorithm: Algorithm, topology: Topology, ranks: int = 4, rules: Rules = DEFAULT
) -> SweepRow:
    case = Case(algorithm, ranks, topology, rules)
    return judge(case, case.run(V))


def test_every_algorithm_passes_on_a_switch() -> None:
    plain = [find(name) for name in NAMES if not find(name).cost.unclaimed]
    rows = list(sweep(Grid(plain, [2, 3, 8], [V, 2.0**30], machine)))
    assert {str(row.verdict) for row in rows} == {"ok"}
    assert len(rows) == len(plain) * 3 * 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["hgx_h100", "dgx1", "mi300x"])
def test_every_algorithm_passes_on_a_machine(name: str) -> None:
    """Trees that are packed for a machine have tests of their own."""
    several = [each for each in EVERYWHERE if each != "multimem_one_shot"]
    names = several if name == "hgx_h100" else NAMES
    for algorithm in map(find, (each for each in names if not each.startswith("optimal"))):
        topology = find_topology(f"{name}:nodes=2,sharp=yes").build(16, algorithm.servers)
        assert not row_of(algorithm, topology, 16).verdict.failed, algorithm.name


@pytest.mark.parametrize(
    "rules",
    [
        Rules(sharing="fair"),
        pytest.param(Rules(store_and_forward=True), marks=pytest.mark.exhaustive),
    ],
)
def test_other_rules_of_time_claim_no_closed_form_and_beat_no_bound(rules: Rules) -> None:
    for algorithm in map(find, NAMES):
        row = row_of(algorithm, machine(6, algorithm.servers), 6, rules)
        assert str(row.verdict) == f"not claimed: {rules.unassumed}"
        assert row.over_bound >= 1


def test_a_fitted_algorithm_chooses_for_the_machine() -> None:
    case = Case(find("rings"), 8, find_topology("dgx1").build(8))
    assert len(case.chosen) == 6
    assert str(judge(case, case.run(V)).verdict) == "not claimed: 6 rings"


def test_a_broken_assumption_is_reported_and_not_hidden() -> None:
    row = row_of(find("tree"), ring(8, bandwidth=1e9, latency=1e-6), 8)
    assert row.verdict == PointVerdict(assumption="routes differ")
    assert not row.verdict.failed
    assert row.time_s > row.formula_s > 0


def broken(build_seen: str) -> Algorithm:
    """A ring whose formula or schedule is wrong in one way."""
    good = find("ring")
    wrong = {
        "time": {"time": lambda fabric, p, nbytes: 1.0},
        "steps": {"steps": lambda p: 1},
        "bytes": {"volume": lambda p: 1.0},
        "peak memory": {"peak": lambda p: 1.0},
        "redundant memory": {"redundant": lambda p: 1.0},
    }
    return replace(good, formula=replace(good.cost, **wrong[build_seen]))  # type: ignore[arg-type]


@each_case("check", ["time", "steps", "bytes", "peak memory", "redundant memory"])
def test_each_formula_is_checked(check: str) -> None:
    row = row_of(broken(check), machine(4))
    assert row.verdict.failed
    assert check in row.verdict.failures


def test_a_schedule_that_computes_something_else_fails() -> None:
    def lazy(ranks: int, nbytes: float) -> Schedule:
        builder = ScheduleBuilder(ranks, nbytes)
        builder.copy(0, 1, slot=0)
        return builder.build()

    row = row_of(replace(find("ring"), schedule=lazy), machine(4))
    assert "wrong result" in str(row.verdict)
    assert "beats the bound" in row.verdict.failures


def test_servers_get_devices_of_their_own() -> None:
    row = next(sweep(Grid([find("parameter_server_apart")], [4], [V], machine)))
    assert row.time_s == pytest.approx(2 * (4 * V / 1e9 + 2e-6), rel=1e-9)


def test_rows_make_a_frame_with_the_columns_of_the_csv() -> None:
    rows = list(sweep(Grid([find("ring")], [2, 4], [V], machine)))
    table = to_frame(rows)
    assert list(table) == list(rows[0].record())
    assert table["ranks"].tolist() == [2, 4]
    assert table["verdict"].tolist() == ["ok", "ok"]
    assert table["time_s"].dtype == "float64"
    assert list(to_frame([])) == list(table)


def test_a_case_is_observed_and_routed_once_for_all_sizes() -> None:
    case = Case(find("ring"), 8, machine(8))
    small, large = case.run(1.0), case.run(V)
    assert small.timeline.routed.route is large.timeline.routed.route
    assert case.fabric(small.timeline.routed) is case.fabric(large.timeline.routed)
    case.topology = star(8, bandwidth=2e9)
    faster = case.run(V)
    assert faster.timeline.makespan < large.timeline.makespan
    assert case.fabric(faster.timeline.routed).bandwidth == 2e9


def test_a_notebook_shows_a_sweep_as_a_table() -> None:
    rows = SweepTable(sweep(Grid([find("ring")], [4], [V], machine)))
    shown = Parsed(rows._repr_html_()).rows
    assert shown[0][:4] == ["algorithm", "ranks", "size V", "time"]
    assert shown[1][:3] == ["ring", "4", "1MiB"]
    assert rows.to_frame().equals(to_frame(rows))
    hostile = SweepTable([replace(rows[0], algorithm="<script>")])
    assert "script" not in Parsed(hostile._repr_html_()).tags


GRID_NAMES = ("ring", "nvls", "tree")
STAR = find_machine("star").build
GRID = Grid([find(name) for name in GRID_NAMES], [3, 2], [1.0, 2.0**20], STAR)


def test_points_are_numbered_by_algorithm_ranks_and_size() -> None:
    points = [*GRID.run(range(len(GRID.costs)))]
    assert len(points) == len(GRID.costs) == 12
    assert [(point.algorithm, point.ranks) for point in points] == [
        (name, p) for name in GRID_NAMES for p in (3, 2) for _ in range(2)
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
