"""What a simulation takes, before it starts."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from experiments.simulations import workload
from experiments.simulations.case import Case
from experiments.simulations.grid import Grid
from experiments.simulations.rules import DEFAULT, Rules
from refusals import refusal
from simulator.collectives import find
from topologies.catalogue import find as find_machine
from topologies.resources import Need
from topologies.shapes import star

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
