"""Which algorithm is best at each size, and as a file of NCCL's tuner."""

from dataclasses import replace
from functools import cache

import pytest

from experiments.profiles import find as profile
from experiments.simulations import candidates
from experiments.simulations.candidates import cases, library_choice, nccl_name
from experiments.simulations.recommendation import Question
from experiments.simulations.winners import (
    LAST,
    ranges,
)
from refusals import refusal
from simulator.collectives import find, of_collective
from topologies.catalogue import find as machine

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
