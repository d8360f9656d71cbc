"""Which algorithm is best at each size, and as a file of NCCL's tuner; advice under a library
names what it can run."""

import json
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import pytest

from experiments.algorithm_files.msccl_lowering import algorithm_of
from experiments.algorithm_files.msccl_program import read_program
from experiments.calibration.libraries import GLOO, MPI, NCCL, choices, runs
from experiments.calibration.library import Library
from experiments.calibration.population.library_profile import profile_for
from experiments.profiles import find as profile
from experiments.simulations import candidates
from experiments.simulations.algorithm_remarks import unmeant_sizes
from experiments.simulations.candidates import cases, library_choice, nccl_name
from experiments.simulations.recommendation import Question
from experiments.simulations.winners import FROM_LINKS, LAST, Line, ranges, write_tuner
from msccl_texts import SHAPES
from refusals import refusal
from simctl_process import Simctl
from simulator.collectives import find, of_collective
from topologies.catalogue import find as machine
from tuner_files import read_tuner

SIZES = (1024.0, 2.0**20, 2.0**28)


def answers(name: str, collective: str = "all_reduce", ranks: int = 4) -> Question:
    blueprint = machine(name)
    if blueprint.kind == "shape":
        blueprint = blueprint.with_links(50e9, 1e-6)
    return Question(collective, ranks, blueprint.build)


@cache
def on_star() -> Question:
    return answers("star")


@pytest.mark.parametrize("size", SIZES)
def test_the_advice_is_the_fastest_of_all(size: float) -> None:
    advice = on_star().advice(size)
    times = [on_star().run(case, size).seconds for case in on_star().cases]
    assert advice.time_s == pytest.approx(min(times), rel=1e-5)
    assert advice.bound_s <= advice.time_s <= advice.default_time_s * (1 + 1e-6)
    assert advice.gain == pytest.approx(advice.default_time_s / advice.time_s)
    assert "latency" in advice.why or "serialisation" in advice.why


def test_every_algorithm_that_fits_is_tried() -> None:
    tried = {case.algorithm.listed_name for case in on_star().cases}
    left = on_star().untried.keys()
    assert tried | left == {each.name for each in of_collective("all_reduce")}
    assert "optimal" in tried
    assert {"nvls", "sharp", "parameter_server_apart"} <= left


def test_best_options_are_found() -> None:
    """A segment for a short message, many for a long one."""
    names = [on_star().best(size).algorithm.name for size in SIZES]
    assert names[0] != names[-1]
    ranked = answers("star", "broadcast").ranked(2.0**28)
    place = {case.algorithm.name: number for number, (_, case) in enumerate(ranked)}
    assert place["chain_broadcast"] < place["chain_broadcast:segments=16"]
    assert place["chain_broadcast:segments=16"] < place["chain_broadcast:segments=1"]


def test_crossovers_lie_between_their_sizes() -> None:
    star = on_star()
    crossovers = star.crossovers(SIZES)
    assert crossovers
    for crossover, low, high in zip(crossovers, SIZES, SIZES[1:], strict=False):
        assert low < crossover.size_B <= high
        before, after = (
            on_star().run(
                next(c for c in on_star().cases if c.algorithm.name == name), crossover.size_B
            )
            for name in (crossover.before, crossover.after)
        )
        assert after.seconds <= before.seconds * 1.2


def test_all_algorithms_are_explained_from_the_fastest_on() -> None:
    rows = on_star().explained(65536.0)
    assert rows[0]["over_best"] == 1.0
    times = [float(row["time_s"] or 0) for row in rows]
    assert times == pytest.approx(sorted(times), rel=1e-5)
    assert len({str(row["algorithm"]).partition(":")[0] for row in rows}) == len(rows)


def test_nccl_chooses_by_its_own_model() -> None:
    topology = machine("hgx_h100:nodes=2").build(16, 0)
    small, large = (library_choice("all_reduce", topology, 16, size) for size in (1e3, 1e9))
    assert small is not None
    assert large is not None
    assert small.protocol == "LL"
    assert large.protocol == "Simple"
    assert library_choice("all_reduce", machine("mi300x").build(8, 0), 8, 1e6) is None


def test_names_of_the_tuner() -> None:
    assert nccl_name(find("rings")) == "ring"
    assert nccl_name(find("double_tree")) == "tree"
    assert nccl_name(find("nvls:segments=4")) == "nvls"
    assert nccl_name(find("swing")) == ""


def test_a_profile_has_protocols() -> None:
    calibrated = profile("mn5_acc").simulated()
    blueprint = machine(calibrated.machine)
    calibrated = replace(calibrated, choices=lambda *_: ("ring_all_gather",))
    known = Question("all_gather", 8, blueprint.build, profile=calibrated)
    advice = known.advice(2.0**26)
    assert advice.protocol == "Simple"
    assert advice.default == "ring_all_gather"


def test_the_default_goes_in_the_pieces_of_its_library() -> None:
    """Two nodes with a port each have one chain, so NCCL's broadcast is the only chain."""
    blueprint, sure = machine("nodes:per_node=4"), profile("mn5_acc").simulated()
    blueprint = blueprint.with_links(50e9, 1e-6)
    asked = Question("broadcast", 8, blueprint.build, profile=sure)
    pieces = sure.pieces["chain_broadcast"].most
    by_name = {case.algorithm.name: asked.run(case, 2.0**30) for case in asked.cases}
    assert by_name["chain_broadcast"].timeline.schedule.nbytes.max() == 2.0**30 / pieces
    assert by_name["chain_broadcast"].seconds == by_name["chains_broadcast"].seconds


def test_many_ranks_leave_slow_searches_out() -> None:
    build = machine("star").with_links(50e9, 1e-6).build
    tried, _ = cases("broadcast", 32, build)
    packed = [case.algorithm.name for case in tried if "optimal" in case.algorithm.name]
    assert packed
    assert all(name.endswith("trees=1") for name in packed)
    _, untried = cases("broadcast", 33, build)
    expected = "packing trees for more than 32 ranks takes long: run it alone"
    assert untried["optimal_broadcast"] == expected


def test_a_default_with_too_many_messages_goes_in_fewer_segments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidates, "TRIED_OPERATIONS", 255 * 6)
    default = answers("star", "broadcast", 7).default(2.0**30)
    assert default.algorithm.name == "chains_broadcast:segments=64"


def test_one_rank_needs_no_advice() -> None:
    alone = answers("star", "all_reduce", 1)
    assert refusal(alone.advice, 65536.0) == "ranks is 1: advice needs 2 or more"


def test_ranges_cover_all_sizes() -> None:
    spans = ranges([8.0, 4096.0, 2.0**33])
    assert spans == [(0, 4095), (4096, LAST)]


def library_answers(text: str, ranks: int, *names: str, collective: str = "all_reduce") -> Question:
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
    asked = library_answers(
        "mn5_acc:nodes=4", 16, "rings", "double_tree", "sharded_parameter_server"
    )
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
    asked = library_answers("mn5_acc:nodes=4", 16, "double_tree", "rings")
    assert [case.algorithm.name for case in asked.usable] == ["double_tree", "rings"]


def test_a_default_outside_the_asked_algorithms_is_compared_all_the_same() -> None:
    asked = library_answers("mn5_acc:nodes=4", 16, "double_tree")
    advice = asked.advice(2.0**30)
    assert advice.algorithm == "double_tree"
    assert advice.default == "rings"
    assert advice.gain < 1


def test_an_algorithm_with_options_stays_as_it_is() -> None:
    chosen = (find("chain_broadcast:segments=4"), find("tree_broadcast"))
    asked = Question("broadcast", 4, machine("star").build, algorithms=chosen)
    assert [case.algorithm.name for case in asked.cases] == [each.name for each in chosen]


def test_without_anything_to_run_there_is_no_advice() -> None:
    message = refusal(library_answers("hgx_h100", 8, "naive").advice, 65536.0)
    assert message.startswith("--algo: the library does not run naive on 8 ranks of this machine, ")
    assert "it runs " in message
    assert "rings" in message


def test_a_collective_that_the_library_lacks_has_all_algorithms() -> None:
    asked = library_answers("mn5_acc", 4, collective="gather")
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
