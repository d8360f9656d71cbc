"""Advice under a library names what it can run; notes say for which sizes a file is not made."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from experiments.algorithm_files.msccl_lowering import algorithm_of
from experiments.algorithm_files.msccl_program import read_program
from experiments.calibration.libraries import GLOO, MPI, NCCL, choices, runs
from experiments.calibration.library import Library
from experiments.calibration.population.library_profile import profile_for
from experiments.simulations.algorithm_remarks import unmeant_sizes
from experiments.simulations.recommendation import Question
from experiments.simulations.winners import FROM_LINKS, Line, write_tuner
from msccl_texts import SHAPES
from refusals import refusal
from simctl_process import Simctl
from simulator.collectives import find
from topologies.catalogue import find as machine
from tuner_files import read_tuner


def answers(text: str, ranks: int, *names: str, collective: str = "all_reduce") -> Question:
    """Advice for NCCL on a machine."""
    blueprint = machine(text)
    library = NCCL.on(blueprint)
    profile = profile_for("nccl", blueprint.build(ranks)).profile
    profile = replace(profile, choices=partial(choices, library, "nccl"))
    return Question(
        *(collective, ranks, blueprint.build),
        profile=profile,
        runs=partial(runs, library),
        algorithms=tuple(map(find, names)),
    )


@pytest.mark.parametrize(
    ("text", "ranks", "can", "cannot"),
    [
        ("hgx_h100", 8, {"rings", "double_tree", "nvls"}, {"nvls_tree", "ring", "naive"}),
        ("hgx_h100:nodes=2", 16, {"rings", "double_tree", "nvls_tree"}, {"nvls", "blue_connect"}),
        ("hgx_h100:nodes=2,sharp=yes", 16, {"nvls", "sharp"}, {"sharded_parameter_server"}),
        ("nodes:per_node=4", 8, {"ring", "rings"}, {"pat_all_gather"}),
        ("nodes:per_node=1", 8, {"ring", "pat_all_gather"}, {"naive"}),
    ],
)
def test_what_nccl_can_run(text: str, ranks: int, can: set[str], cannot: set[str]) -> None:
    blueprint = machine(text)
    topology = blueprint.build(ranks)
    usable = {name for name in can | cannot if runs(NCCL.on(blueprint), name, topology)}
    assert usable == can


@pytest.mark.parametrize(
    ("library", "name", "can"),
    [
        (MPI, "halving_doubling", True),
        (MPI, "binary_tree", True),
        (MPI, "nvls", False),
        (MPI, "blue_connect", False),
        (GLOO, "gloo_ring", True),
        (GLOO, "ring", False),
    ],
)
def test_what_others_can_run(library: Library, name: str, can: bool) -> None:
    for text in ("nodes:per_node=1", "hgx_h100:nodes=2,sharp=yes"):
        assert runs(library, name, machine(text).build(16)) == can


def test_the_best_is_what_the_library_can_run() -> None:
    asked = answers("mn5_acc:nodes=4", 16, "rings", "double_tree", "sharded_parameter_server")
    advice = asked.advice(65536.0)
    assert advice.algorithm == "double_tree"
    assert advice.own_software == "sharded_parameter_server"
    assert advice.own_software_time_s is not None
    assert advice.own_software_time_s < advice.seconds
    large = asked.advice(2.0**30)
    assert (large.algorithm, large.own_software, large.own_software_time_s) == ("rings", "", None)
    kinds = {row["algorithm"]: row["own_software"] for row in asked.explained(65536.0)}
    assert list(kinds.items())[-1] == ("sharded_parameter_server", True)
    assert not kinds["rings"]


def test_the_pieces_are_those_of_the_library() -> None:
    asked = answers("mn5_acc:nodes=4", 16, "double_tree", "rings")
    assert [case.algorithm.name for case in asked.usable] == ["double_tree", "rings"]


def test_a_default_outside_the_asked_algorithms_is_compared_all_the_same() -> None:
    asked = answers("mn5_acc:nodes=4", 16, "double_tree")
    advice = asked.advice(2.0**30)
    assert advice.algorithm == "double_tree"
    assert advice.default == "rings"
    assert advice.gain < 1


def test_an_algorithm_with_options_stays_as_it_is() -> None:
    chosen = (find("chain_broadcast:segments=4"), find("tree_broadcast"))
    asked = Question("broadcast", 4, machine("star").build, algorithms=chosen)
    assert [case.algorithm.name for case in asked.cases] == [each.name for each in chosen]


def test_without_anything_to_run_there_is_no_advice() -> None:
    message = refusal(answers("hgx_h100", 8, "naive").advice, 65536.0)
    assert message.startswith("--algo: the library does not run naive on 8 ranks of this machine, ")
    assert "it runs " in message
    assert "rings" in message


def test_a_collective_that_the_library_lacks_has_all_algorithms() -> None:
    asked = answers("mn5_acc", 4, collective="gather")
    assert len(asked.usable) == len(asked.cases) > 1
    assert asked.advice(65536.0).own_software == ""


@pytest.mark.parametrize("known", [False, True])
def test_a_tuner_file_from_links_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], known: bool
) -> None:
    path = tmp_path / "t.csv"
    profile = profile_for("nccl", machine("hgx_h100").build(8)).profile if known else None
    line = Line("allreduce", 0, 65535, "tree", "ll")
    write_tuner(path, [line], "all_reduce", profile)
    assert read_tuner(path) == [line]
    assert path.read_text().startswith(f"# {FROM_LINKS}\n") != known
    assert (FROM_LINKS in capsys.readouterr().err) != known


def test_the_command_takes_algorithms_and_a_tuner(simctl: Simctl, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    words = ("recommend", "--topology", "hgx_h100", "--size", "1GiB", "--nccl-tuner", str(path))
    done = simctl(*words, "--algo", "rings,one_shot", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "do not use it unmeasured" in done.stderr
    (advice,) = json.loads(done.stdout)["advice"]
    assert advice["algorithm"].startswith("rings")
    assert [line.algorithm for line in read_tuner(path)] == ["ring"]


def notes(least: int, most: int, *sizes: float) -> list[str]:
    """Those for a file of these bytes."""
    text = SHAPES["ring"].replace("<algo", f'<algo minBytes="{least}" maxBytes="{most}"', 1)
    ring = replace(algorithm_of(read_program(text, "a.xml")), origin="a.xml")
    return [*unmeant_sizes([find("ring"), ring], sizes)]


def test_sizes_outside_of_the_range_of_a_file_are_named() -> None:
    assert notes(0, 4096, 1.0, 4096.0) == []
    assert notes(1024, 4096, 1.0, 2048.0) == ["a.xml: small is made for 1024 to 4096 B, not for 1B"]
    assert notes(1024, 0, 1024.0, 1.0) == ["a.xml: small is made for 1024 B or more, not for 1B"]
    assert notes(0, 10, 8192.0, 16384.0, 32768.0)[0].endswith("not for 8KiB, ..., 32KiB")
