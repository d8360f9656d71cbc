"""A profile in a file: what is refused, in one line with its place and what would be right."""

from dataclasses import replace

import pytest

from experiments.profiles import find, names, parse
from experiments.profiles.profile_document import dumps, of
from grouped_cases import each_case
from mistake_tables import changes_of
from refusals import refusal
from simulator.effects.link_slowdowns import Crowding, NodeCorrection
from simulator.profile import Profile, Protocol
from sure_profile import UNSURE
from topologies.errors import InputError
from topologies.link import Link

GOOD = (
    UNSURE
    + """\
factors:
  short:
    ring: {network: 2.0}
crowding:
  network: {nodes: 4, apart: [{nodes: 8, latency: 0.5}, {nodes: 16, bandwidth: -0.1}]}
memory: {copy: 1.0e-10}
scratch: {ring: 1.0}
paced: false
"""
)
MISTAKES = [
    *changes_of("profile"),
    ("profile: mine", f"profile: {'x' * 300}", "...: 200 characters or fewer"),
    (GOOD, "- 1", "line 1: a list is not a mapping of keys to values"),
    (GOOD, "3", "line 1: 3 is not a mapping of keys to values"),
]


def test_the_good_one_is_read() -> None:
    assert parse(GOOD, "mine.yaml").simulated().protocols[0].factor("ring", "network") == 2


@pytest.mark.parametrize("name", names())
def test_those_that_are_shipped_have_no_unknown_names(name: str) -> None:
    assert find(name).profile == name


@each_case(("right", "wrong", "problem"), MISTAKES)
def test_a_mistake_is_one_line_with_its_place_in_our_words(
    right: str, wrong: str, problem: str
) -> None:
    assert GOOD.count(right) == 1
    message = refusal(parse, GOOD.replace(right, wrong), "mine.yaml")
    assert message.startswith("mine.yaml ")
    assert problem in message
    assert len(message) < 1000
    assert not any(word in message for word in ("nput should", "ield required", "valid"))


def test_any_number_of_nodes_may_have_something_of_its_own() -> None:
    corrections = tuple(NodeCorrection(n, 0.1, -0.1) for n in range(1, 100))
    protocols = (Protocol("short", {"network": Link(1e9, 1e-6)}, most=192.0),)
    profile = Profile(
        "x", "nodes", 1e-6, protocols, {"network": Crowding(4.0, 0.1, 0.2, corrections)}
    )
    assert parse(dumps(of(profile, "MPI")), "x.yaml").simulated() == profile
    with pytest.raises(InputError, match=r"^profile crowding\.network\.latency: 11.0: 10 or less$"):
        of(replace(profile, crowding={"network": Crowding(4.0, 11.0)}), "MPI")


def test_sizes_that_a_fit_took_for_granted_are_written() -> None:
    """A later version may take others."""
    text = dumps(parse(GOOD + "exchanges: {slowness: 1.0e-11}\n", "x.yaml"))
    for key in ("cache", "mapped", "trimmed", "beyond"):
        assert f"{key}: " in text
    plain = dumps(parse(GOOD.replace("memory: {copy: 1.0e-10}\n", ""), "x.yaml"))
    assert not {"cache", "beyond"} & {word.strip("{:,}") for word in plain.split()}
