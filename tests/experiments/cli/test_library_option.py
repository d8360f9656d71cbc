"""`--library`: its intervals, its choices, and what it takes by default."""

import json
import pickle
from typing import cast

import pytest

from csv_texts import rows_of
from experiments.options.machine_options import MachineOptions
from experiments.options.options import LibraryName
from experiments.options.profile_options import SimulationOptions
from experiments.options.values import names_of, parse_algorithm, parse_algorithms, usual_ranks
from experiments.simulations.case import Case
from experiments.simulations.grid import Grid, sweep
from simctl_process import Simctl
from simulator.collectives import Algorithm, find
from simulator.profile import Profile
from topologies.catalogue import find as find_machine

NOTE = "note: nccl on machines like this: population of "


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--algo", "rings", "--p", "8"),
        ("sweep", "--algo", "rings", "--p", "8", "--size", "1MiB"),
        pytest.param(("recommend", "--p", "8", "--size", "1MiB"), marks=pytest.mark.exhaustive),
    ],
)
def test_a_note_says_where_figures_are_from(simctl: Simctl, words: tuple[str, ...]) -> None:
    done = simctl(*words, "--library", "nccl", "--topology", "dgx_a100")
    assert done.returncode == 0
    assert done.stderr.startswith(NOTE)
    assert done.stderr.count("note:") == 1


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_note_names_what_the_library_cannot_run(simctl: Simctl, command: str) -> None:
    for name, notes in (("blue_connect", 1), ("rings", 0)):
        words = (command, "--algo", name, "--size", "1MiB", "--topology", "hgx_h100:nodes=2")
        done = simctl(*words, "--library", "nccl")
        text = f"note: {name}: the library does not run it on 16 ranks of this machine"
        assert done.stderr.count(text) == notes
        assert text not in simctl(*words).stderr


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_times_have_intervals(simctl: Simctl, command: str) -> None:
    words = (command, "--algo", "ring", "--p", "8", "--size", "1MiB", "--topology", "dgx_a100")
    factors = []
    for level in ((), ("--level", "0.95")):
        done = simctl(*words, "--library", "nccl", *level, "--format", "csv")
        (row,) = rows_of(done.stdout)
        assert float(row["expected_s"]) == pytest.approx(float(row["time_s"]))
        factors.append(float(row["high_s"]) / float(row["low_s"]))
    usual, wide = factors
    assert 1.5 < usual < wide
    assert "80% of runs" in simctl(*words, "--library", "nccl").stdout


def test_advice_has_intervals(simctl: Simctl) -> None:
    """What both algorithms share does not blur which is faster."""
    words = ("recommend", "--p", "8", "--explain", "1MiB", "--topology", "dgx_a100")
    rows = json.loads(simctl(*words, "--library", "nccl", "--format", "json").stdout)
    assert all(row["low_s"] < row["expected_s"] < row["high_s"] for row in rows)
    assert any(row["low_s"] < rows[0]["high_s"] and not row["rival"] for row in rows[1:])


def test_more_ranks_than_one_node_have_links_between_nodes(simctl: Simctl) -> None:
    """The user does not say how many nodes there are."""
    words = "sweep", "--algo", "ring", "--p", "8,16", "--size", "1KiB", "--format", "csv"
    for machine in ("hgx_h100", "nodes:per_node=8"):
        done = simctl(*words, "--library", "nccl", "--topology", machine)
        inside, between = rows_of(done.stdout)
        assert float(inside["time_s"]) < float(between["time_s"])


def test_software_takes_longer_than_links(simctl: Simctl) -> None:
    words = "sweep", "--algo", "ring", "--p", "8", "--size", "1KiB", "--topology", "dgx_a100"
    bare, nccl = (
        rows_of(simctl(*words, *more, "--format", "csv").stdout)[0]
        for more in ((), ("--library", "nccl"))
    )
    assert float(nccl["time_s"]) > 1.5 * float(bare["time_s"])


def test_nodes_of_any_size_have_links_between_them(simctl: Simctl) -> None:
    words = "sweep", "--algo", "ring", "--p", "32", "--size", "1MiB", "--format", "csv"
    for per_node in (8, 16):
        machine = f"nodes:per_node={per_node}"
        done = simctl(*words, "--library", "openmpi", "--topology", machine)
        assert done.returncode == 0, done.stderr


SIZES = (1024.0, 2.0**30)


def default(library: str, text: str) -> tuple[MachineOptions, Profile, Algorithm]:
    """A machine, a library on it, and the algorithm of a command without --algo."""
    options = SimulationOptions(topology=text, library=cast(LibraryName, library))
    machine, profile = options.chosen
    assert profile is not None
    return machine, profile, parse_algorithm(None, usual=options.library_choices)


@pytest.mark.parametrize(
    ("library", "text", "ranks", "expected"),
    [
        ("nccl", "mn5_acc:nodes=4", 16, ("double_tree", "rings")),
        ("nccl", "hgx_h100", 8, ("double_tree", "nvls")),
        ("openmpi", "nodes:per_node=4", 8, ("recursive_doubling", "halving_doubling")),
        ("gloo", "nodes:per_node=1", 4, ("gloo_ring", "gloo_ring")),
    ],
)
def test_each_size_has_what_the_library_takes(
    library: str, text: str, ranks: int, expected: tuple[str, str]
) -> None:
    machine, profile, algorithm = default(library, text)
    grid = Grid([algorithm], [ranks], SIZES, machine.blueprint.build, profile=profile)
    rows = list(sweep(grid))
    assert tuple(row.algorithm.partition(":")[0] for row in rows) == expected
    assert {row.curve for row in rows} == {profile.name}


def test_of_several_it_is_the_fastest() -> None:
    machine, profile, algorithm = default("nccl", "dgx_a100:nodes=2")
    topology, nbytes = machine.blueprint.build(16), 2.0**26
    cases = [Case(find(name), 16, topology, profile=profile) for name in algorithm.by_library[:2]]
    taken = Case(algorithm, 16, topology, profile=profile).tuned(nbytes)
    times = [case.tuned(nbytes).expected(nbytes) for case in cases]
    assert taken.expected(nbytes) == pytest.approx(min(times))


def test_a_calibrated_profile_has_the_default_of_its_library() -> None:
    options = SimulationOptions(profile="mn5_acc")
    machine, profile = options.chosen
    algorithm = parse_algorithm(None, usual=options.library_choices)
    case = Case(algorithm, 4, machine.blueprint.build(4), profile=profile)
    assert case.tuned(2.0**30).algorithm.listed_name in algorithm.by_library


def test_another_process_has_the_same_default() -> None:
    *_, algorithm = default("nccl", "hgx_h100")
    copy = pickle.loads(pickle.dumps(algorithm))
    assert copy.by_library == algorithm.by_library == ("rings", "double_tree", "nvls")


def test_a_name_or_no_library_is_taken_as_it_stands() -> None:
    usual = ("rings", "double_tree")
    assert parse_algorithms("ring", usual=usual) == [find("ring")]
    assert parse_algorithms(None) == [find("ring")]
    assert parse_algorithms(None, "broadcast", usual=usual)[0].collective.name == "broadcast"
    assert names_of(find("ring"), find("tree")) == "ring,tree"
    assert names_of(parse_algorithm(None, usual=usual)) == ""


@pytest.mark.parametrize(
    ("machine", "ranks"),
    [
        ("hgx_h100", "8"),
        ("leonardo", "4"),
        ("nvl72", "72"),
        ("nvl72:nodes=2", "144"),
        ("torus:dims=4x4", "16"),
        ("star", "2..64"),
    ],
)
def test_all_ranks_of_a_machine_take_part(machine: str, ranks: str) -> None:
    assert usual_ranks(find_machine(machine), [find("ring")], "2..64") == ranks
