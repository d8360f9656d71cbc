"""Cases of which some ranks stand for all."""

import pytest

from experiments.simulations.case import Case
from experiments.simulations.rules import Rules
from experiments.simulations.sweep_rows import judge
from law_cases import by_turns
from simulator.collectives import find
from topologies.clusters import cluster
from topologies.shapes import SHAPES
from topologies.topology import Topology

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
