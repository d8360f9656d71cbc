"""Intervals end at the bound of the specified links, unless measured runs beat it."""

from dataclasses import replace

import pytest

from experiments.calibration.profile_times import times
from experiments.options.machine_options import MachineOptions
from experiments.options.options import LibraryName
from experiments.options.profile_options import ProfileOptions
from experiments.simulations.case import Case
from experiments.simulations.recommendation import Question
from experiments.simulations.sweep_rows import SweepRow, judge
from simulator.analysis.bounds import best_bound
from simulator.collectives import find
from simulator.profile import Profile
from simulator.uncertainty.interval import Interval
from topologies.topology import Topology

LARGE = 2.0**30
RANKS = 8


def under_nccl(text: str = "dgx_a100") -> tuple[Topology, Profile]:
    """A machine with specified links, and NCCL on it."""
    options = ProfileOptions(library=LibraryName.nccl)
    machine, profile = options.calibrated(MachineOptions(text))
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
    profile = profile.at_level(0.95)
    row, sure = row_of(topology, profile, name)
    bound = best_bound(find(name).collective, topology, RANKS, LARGE).seconds
    assert sure.low < bound == row.low_s
    assert row.low_s < sure.expected == row.expected_s
    assert row.high_s == sure.high
    assert row.unsure == sure.unsure


def test_advice_has_the_same_interval() -> None:
    topology, profile = under_nccl()
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
    _, profile = ProfileOptions(profile="h100_cluster").calibrated(MachineOptions())
    assert profile is not None
    assert not profile.specified
    _, stated = ProfileOptions(profile="h100_cluster").calibrated(MachineOptions("hgx_h100"))
    assert stated is not None
    assert stated.specified
