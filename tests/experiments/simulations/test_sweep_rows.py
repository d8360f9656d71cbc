"""Rows of a sweep, and how much work is taken on."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from experiments.execution.process_pool import Processes
from experiments.simulations import grid as module
from experiments.simulations import workload
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
from topologies.resources import Need
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


WHOLE = Rules(symmetry="off")


def grid(algorithms: str, ranks: int, machine: str = "star", rules: Rules = DEFAULT) -> Grid:
    chosen = [find(name) for name in algorithms.split(",")]
    return Grid(chosen, [ranks], [1e6], find_machine(machine).build, rules)


def seconds(algorithm: str, ranks: int, machine: str = "star", rules: Rules = DEFAULT) -> float:
    [point] = grid(algorithm, ranks, machine, rules).points
    return point.need.seconds


def test_time_and_memory_grow_with_what_a_schedule_has() -> None:
    small, large = (workload.need(find("ring"), ranks, DEFAULT) for ranks in (512, 2048))
    assert 14 < large.seconds / small.seconds < 17
    assert 14 < large.nbytes / small.nbytes < 17
    exchange = workload.need(find("naive"), 2048, DEFAULT)
    assert exchange.nbytes > 30 * large.nbytes  # it waits for all that it has sent


def test_a_folded_schedule_takes_as_long_as_its_ranks() -> None:
    assert seconds("ring", 4096) < seconds("ring", 4096, rules=WHOLE) / 100
    assert seconds("ring", 4096, "line") == seconds("ring", 4096, rules=WHOLE)
    assert seconds("ring", 4096, "nodes") < seconds("ring", 4096, rules=WHOLE) / 50
    assert seconds("tree", 4096) == seconds("tree", 4096, rules=WHOLE)


def test_a_machine_with_several_rings_takes_longer() -> None:
    assert seconds("rings", 512, "dgx1", WHOLE) > 3 * seconds("ring", 512, rules=WHOLE)


def test_a_machine_whose_nodes_are_larger_than_few_ranks_is_judged_by_two_of_them() -> None:
    """On one node of 72 GPUs there is one ring, on several with four NICs each there are four."""
    rings = seconds("rings", 1440, "nvl72:nodes=20,nics=4", WHOLE)
    assert rings > 3 * seconds("ring", 1440, rules=WHOLE)


@pytest.mark.parametrize("name", ["recursive_doubling", "gossip_exponential"])
def test_a_million_ranks_are_announced(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    workload.announce(grid(name, 2**20).points, 1, jobs=1)
    assert f"{name} of 1048576 ranks: this takes about" in capsys.readouterr().err


def test_a_machine_that_few_ranks_do_not_have_is_taken_to_be_folded() -> None:
    assert seconds("ring", 4096, "torus:dims=64x64") < seconds("ring", 4096, rules=WHOLE) / 100


def test_what_does_not_exist_takes_nothing() -> None:
    algorithm, servers = find("halving_doubling"), find("ring")
    if not algorithm.defined(1000):
        assert workload.need(algorithm, 1000, DEFAULT) == Need()
    assert workload.need(servers, 100_000, DEFAULT) == Need(inf, inf)


def test_points_that_run_together_need_memory_together() -> None:
    points = [
        workload.PointEstimate(find("ring"), 8, Need(60.0, nbytes))
        for nbytes in (1e9, 3e9, 2e9, inf)
    ]
    one, two = workload.total(points[:3], 1), workload.total(points[:3], 2)
    assert one.seconds == pytest.approx(180, abs=1)
    assert two.seconds == pytest.approx(90, abs=1)
    assert one.nbytes == pytest.approx(3e9, rel=0.1)
    assert two.nbytes == pytest.approx(5e9, rel=0.1)


def test_points_without_enough_memory_are_refused(free: Callable[[float], None]) -> None:
    free(1e9)
    points = grid("ring,tree", 4096, rules=WHOLE).points
    message = refusal(workload.check_points, points, 2, 1)
    assert message.startswith("2 points with ring of 4096 ranks: this takes about 2")
    assert message.endswith(
        "GB of memory, and 1GB are free: take fewer ranks or sizes, like --p 2..1024:x2, or go on "
        "with --force"
    )
    workload.check_points(grid("ring,tree", 4096).points, 2, 1)


def test_many_points_are_refused_by_a_sample() -> None:
    ring, machine = [find("ring")], find_machine("star").build
    many = Grid(ring, range(2, 3000), [1e6] * 40, machine, WHOLE)
    message = refusal(many.check, 2)
    assert message.startswith("119920 points with ring of 2999 ranks: this takes about 20 h and ")
    assert "points" not in vars(many)
    Grid(ring, range(2, 3000), [1e6], machine).check(2)


def test_points_that_cannot_be_do_not_hide_those_that_can() -> None:
    large = range(90_000, 93_000)
    Grid([find("ring")], [2, *large], [1e6], find_machine("line").build).check(1)


@pytest.mark.usefixtures("free")
def test_a_schedule_that_cannot_be_is_refused_before_it_is_built() -> None:
    machine = find_machine("line").build(100_000)
    message = refusal(Case, find("ring"), 100_000, machine, WHOLE._replace(force=True))
    assert message == (
        "ring of 100000 ranks has about 20 billion operations, more than 1.1 billion, and takes "
        "about 4 h and 3.1TB of memory: take fewer ranks, or an algorithm with fewer transfers"
    )


def test_ranks_that_stand_for_all_are_not_looked_for_at_any_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workload, "TRIAL_SECONDS", 0.01)
    message = refusal(Case, find("ring"), 65_536, find_machine("line").build(65_536))
    assert message.startswith("ring of 65536 ranks has about 8.6 billion operations")


def test_a_case_without_enough_memory_is_refused_unless_forced(
    free: Callable[[float], None],
) -> None:
    free(1e5)
    machine = star(256, bandwidth=1e9)
    message = refusal(Case, find("tree"), 256, machine, WHOLE)
    assert message.startswith("tree of 256 ranks: this takes about 0.00")
    assert message.endswith(
        "99kB are free: take fewer ranks, or an algorithm with fewer transfers, "
        "or go on with --force"
    )
    assert Case(find("tree"), 256, machine, WHOLE._replace(force=True)).wrong == ""


def test_a_machine_without_enough_memory_is_refused_unless_forced(
    free: Callable[[float], None],
) -> None:
    free(2e8)
    mesh = find_machine("full_mesh")
    assert mesh.build(1000).links == 999_000
    assert refusal(mesh.build, 1200) == (
        "full_mesh of 1200 ranks: this takes about 0.5 s and 240MB of memory, and 200MB are free: "
        "take fewer, or go on with --force"
    )
    assert replace(mesh, force=True).build(1200).links == 1200 * 1199
