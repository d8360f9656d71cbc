"""One algorithm on one machine, as a profile's library runs it."""

from experiments.simulations.case import Case
from simulator.collectives import find
from simulator.effects.pieces import PieceCounts
from simulator.profile import Profile, Protocol
from topologies.link import Link
from topologies.shapes import nodes


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
