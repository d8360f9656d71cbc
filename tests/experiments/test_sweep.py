"""A sweep's rows and verdicts, and that each check can fail."""

from dataclasses import replace

import pytest

from experiments.sweep import Case, Row, judge, sweep
from simulator.builder import ScheduleBuilder
from simulator.collectives import Algorithm, algorithms, find
from simulator.engines import simulate
from simulator.schedule import Schedule
from topologies.shapes import ring, star
from topologies.topology import Topology

V = 2.0**20


def machine(devices: int) -> Topology:
    return star(devices, bandwidth=1e9, latency=1e-6)


def one(algorithm: Algorithm, topology: Topology, ranks: int = 4) -> Row:
    case = Case(algorithm, ranks, topology)
    return judge(case, simulate(case.schedule.scaled(V), topology))


def test_every_algorithm_passes_on_a_switch() -> None:
    rows = list(sweep(list(algorithms().values()), [2, 3, 8], [V, 2.0**30], machine))
    assert {row.verdict for row in rows} == {"ok"}
    assert len(rows) == len(algorithms()) * 3 * 2


def test_a_broken_assumption_is_reported_and_not_hidden() -> None:
    row = one(find("tree"), ring(8, bandwidth=1e9, latency=1e-6), 8)
    assert row.verdict == "not claimed: routes differ"
    assert not row.failed
    assert row.time_s > row.formula_s > 0


def broken(build_seen: str) -> Algorithm:
    """A ring whose formula or schedule is wrong in one way."""
    good = find("ring")
    wrong = {
        "time": {"time": lambda fabric, p, nbytes: 1.0},
        "steps": {"steps": lambda p: 1},
        "bytes": {"volume": lambda p, nbytes: nbytes},
        "peak memory": {"peak": lambda p, nbytes: nbytes},
        "redundant memory": {"redundant": lambda p, nbytes: nbytes},
    }
    return replace(good, cost=replace(good.cost, **wrong[build_seen]))  # type: ignore[arg-type]


@pytest.mark.parametrize("check", ["time", "steps", "bytes", "peak memory", "redundant memory"])
def test_each_formula_is_checked(check: str) -> None:
    row = one(broken(check), machine(4))
    assert row.failed
    assert check in row.verdict


def test_a_schedule_that_computes_something_else_fails() -> None:
    def lazy(ranks: int, nbytes: float) -> Schedule:
        builder = ScheduleBuilder(ranks, nbytes)
        builder.copy(0, 1, slot=0)
        return builder.build()

    row = one(replace(find("ring"), build=lazy), machine(4))
    assert "wrong result" in row.verdict
    assert "beats the bound" in row.verdict


def test_servers_get_devices_of_their_own() -> None:
    row = next(sweep([find("parameter_server_apart")], [4], [V], machine))
    assert row.time_s == pytest.approx(2 * (4 * V / 1e9 + 2e-6), rel=1e-9)
