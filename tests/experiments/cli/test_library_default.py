"""Without --algo, a library takes its own algorithm at each size; without --p, a command takes all
ranks of a machine."""

import pickle

import pytest

from experiments.options.machine_options import MachineOptions
from experiments.options.options import LibraryName
from experiments.options.profile_options import ProfileOptions
from experiments.options.values import named, parse_algorithm, parse_algorithms, usual_ranks
from experiments.simulations.case import Case
from experiments.simulations.grid import Grid, sweep
from simulator.collectives import Algorithm, find
from simulator.profile import Profile
from topologies.catalogue import find as find_machine

SIZES = (1024.0, 2.0**30)


def default(library: str, text: str) -> tuple[MachineOptions, Profile, Algorithm]:
    """A machine, a library on it, and the algorithm of a command without --algo."""
    options = ProfileOptions(library=LibraryName(library))
    machine, profile = options.calibrated(MachineOptions(text))
    assert profile is not None
    return machine, profile, parse_algorithm(None, usual=options.usual_algorithms(machine))


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
    options = ProfileOptions(profile="mn5_acc")
    machine, profile = options.calibrated(MachineOptions())
    algorithm = parse_algorithm(None, usual=options.usual_algorithms(machine))
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
    assert named(None, None, [find("ring")]) == {"algo": "ring"}
    assert named(None, None, [parse_algorithm(None, usual=usual)]) == {}


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
