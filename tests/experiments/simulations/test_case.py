"""A case: divided as its library does, folded where ranks stand for others, and bounded."""

from dataclasses import replace

import pytest

from experiments.calibration.prediction import times
from experiments.options.profile_options import SimulationOptions
from experiments.simulations.case import Case
from experiments.simulations.recommendation import Question
from experiments.simulations.rules import Rules
from experiments.simulations.sweep_rows import SweepRow, judge
from law_cases import by_turns
from simulator.analysis.bounds import best_bound
from simulator.collectives import find
from simulator.effects.software_costs import PieceCounts
from simulator.profile import Profile, Protocol
from simulator.uncertainty.interval import Interval
from topologies.clusters import cluster
from topologies.link import Link
from topologies.shapes import SHAPES, nodes
from topologies.topology import Topology


def test_a_profile_divides_an_algorithm_as_its_library_does() -> None:
    """The trees of a profile have other pieces at other sizes, unless the name says how many."""
    link = {"network": Link(1e9, 1e-6)}
    pieces = {"double_tree": PieceCounts(1, 4, 2.0**20)}
    profile = Profile("made up", "star", 0.0, (Protocol("one", link),), pieces=pieces)
    topology = nodes(8, per_node=1, bandwidth=1e9, latency=1e-6)
    case = Case(find("double_tree"), 8, topology, profile=profile)
    assert case.tuned(2.0**10).algorithm.name == "double_tree:segments=1"
    assert case.tuned(2.0**30).algorithm.name == "double_tree:segments=4"
    assert case.tuned(2.0**30) is case.tuned(2.0**31)
    named = Case(find("double_tree:segments=2"), 8, topology, profile=profile)
    assert named.tuned(2.0**30) is named


LINK = {"bandwidth": 50e9, "latency": 1e-6}
MACHINES = {
    "star": SHAPES["star"](128, **LINK, reduction=1e-12),
    "nodes": SHAPES["nodes"](128, **LINK, per_node=8),
    "rails": cluster("hgx_h100", 16),
}


NAMES = "ring", "ring_all_gather", "pairwise", "rings"


@pytest.mark.parametrize("topology", MACHINES.values(), ids=MACHINES.keys())
@pytest.mark.parametrize(("name", "sharing"), by_turns(NAMES, ("fifo", "fair")))
def test_a_row_is_the_same_folded_or_not(name: str, topology: Topology, sharing: str) -> None:
    rows = []
    for symmetry in ("auto", "off"):
        rules = Rules(sharing=sharing, symmetry=symmetry)  # type: ignore[arg-type]
        case = Case(find(name), 128, topology, rules)
        rows.append(judge(case, case.run(2.0**20)).record())
        assert case.schedule.members == 1 or symmetry == "auto"
    folded, whole = rows
    for column, value in whole.items():
        expected = pytest.approx(value, 1e-9) if isinstance(value, float) else value
        assert folded[column] == expected, column


def test_an_all_to_all_on_an_odd_ring_folds_under_fair_sharing() -> None:
    topology = SHAPES["ring"](65, **LINK)
    folded, fifo, whole = (
        Case(find("pairwise"), 65, topology, rules)
        for rules in (Rules(sharing="fair"), Rules(), Rules(sharing="fair", symmetry="off"))
    )
    assert (folded.schedule.members, fifo.schedule.members) == (65, 1)
    expected = pytest.approx(whole.run(2.0**20).timeline.makespan, 1e-9)
    assert folded.run(2.0**20).timeline.makespan == expected


def test_a_star_folds_and_few_operations_do_not() -> None:
    assert Case(find("ring"), 128, MACHINES["star"]).schedule.members == 128
    assert Case(find("ring"), 8, SHAPES["star"](8, **LINK)).schedule.members == 1


def test_more_ranks_than_a_whole_schedule_could_have() -> None:
    """A whole ring of so many ranks has 34 billion operations."""
    ranks = 131072
    case = Case(find("ring"), ranks, SHAPES["star"](ranks, **LINK))
    assert (len(case.schedule), case.schedule.members) == (2 * (ranks - 1), ranks)
    assert case.wrong == ""


LARGE = 2.0**30
RANKS = 8


def under_nccl(text: str = "dgx_a100") -> tuple[Topology, Profile]:
    """A machine with specified links, and NCCL on it."""
    machine, profile = SimulationOptions(topology=text, library="nccl").chosen
    assert profile is not None
    return machine.blueprint.build(RANKS), profile


def row_of(topology: Topology, profile: Profile, name: str = "rings") -> tuple[SweepRow, Interval]:
    """What sweep shows of 1 GiB, and the interval that coverage is judged on."""
    case = Case(find(name), RANKS, topology, profile=profile)
    run = case.run(LARGE)
    sure = case.interval(run)
    assert sure is not None
    return judge(case, run), sure


@pytest.mark.parametrize(("text", "name"), [("dgx_a100", "rings"), ("hgx_h100", "nvls")])
def test_an_interval_ends_at_the_bound(text: str, name: str) -> None:
    """Also where switches reduce, and the bound is lower than that of any ring."""
    topology, profile = under_nccl(text)
    profile = profile.at_level(0.999)
    row, sure = row_of(topology, profile, name)
    bound = best_bound(find(name).collective, topology, RANKS, LARGE).seconds
    assert sure.low < bound == row.low_s
    assert row.low_s < sure.expected == row.expected_s
    assert row.high_s == sure.high
    assert row.unsure == sure.unsure


def test_advice_has_the_same_interval() -> None:
    topology, profile = under_nccl()
    profile = profile.at_level(0.999)
    row, _ = row_of(topology, profile)
    answers = Question(
        *("all_reduce", RANKS, lambda ranks, servers: topology),
        profile=profile,
        algorithms=(find("rings"),),
    )
    assert answers.advice(LARGE).low_s == pytest.approx(row.low_s)


def test_coverage_is_judged_without_the_bound() -> None:
    topology, profile = under_nccl()
    _, sure = row_of(topology, profile)
    (timed,) = times(profile, find("rings"), topology, RANKS, [LARGE]).values()
    assert timed.interval is not None
    assert timed.interval[:3] == pytest.approx(sure[:3])


def test_measured_runs_that_beat_the_bound_are_named() -> None:
    topology, profile = under_nccl()
    slow = replace(topology, medium_bandwidth=topology.medium_bandwidth / 4)
    row, sure = row_of(slow, profile)
    assert (row.low_s, row.high_s) == (sure.low, sure.high)
    assert row.unsure is not None
    assert row.unsure[-1].startswith("measured runs beat the bound of the specified links, ")


def test_without_a_specification_there_is_no_bound() -> None:
    """A shape under a calibrated profile has the links of the profile."""
    _, profile = SimulationOptions(profile="h100_cluster").chosen
    assert profile is not None
    assert not profile.specified
    _, stated = SimulationOptions(profile="h100_cluster", topology="hgx_h100").chosen
    assert stated is not None
    assert stated.specified
