"""A profile and its uncertainty in a file: what is refused, in one line with its place."""

from dataclasses import replace

import pytest

from experiments.profiles import find, names, parse
from experiments.profiles.profile_document import dumps, of
from grouped_cases import each_case
from refusals import changes_of, refusal
from simulator.effects.link_slowdowns import Crowding, NodeCorrection
from simulator.profile import Profile, Protocol
from sure_profile import SURE, UNSURE
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


UNCERTAINTY_MISTAKES = [
    ("noise: 0.1,", "", "line 9, uncertainty.rules.noise: is missing"),
    ("noise: 0.1", "noise: -1", "uncertainty.rules.noise: -1: 0 or more"),
    ("noise: 0.1", "noise: .nan", "uncertainty.rules.noise: "),
    ("size: 8,", "size: 0,", "uncertainty.rules.size: 0: 1 or more"),
    ("noise: 0.1", "nois: 0.1", "uncertainty.rules."),
    ("8, 8, 1024, 0.1]", "8, 8, 1024]", "uncertainty.seen[0]"),
    ("8, 8, 1024, 0.1]", "8, 8, -1, 0.1]", "uncertainty.seen[0]"),
    ("8, 8, 1024, 0.1]", "8, 8, 1024, .inf]", "uncertainty.seen[0]"),
    ("8, 8, 1024, 0.1]", "0, 8, 1024, 0.1]", "uncertainty.seen[0]"),
    ("{10: 0.5}", "{10: 1.5}", "uncertainty.seen[1]"),
    ("{10: 0.5}", "{48: 0.5}", "uncertainty.seen[1]"),
    ("{10: 0.5}", "{10: 0.9, 11: 0.9}", "uncertainty.seen[1]: shares of messages are 1 at most"),
    ("    launch: [", "    lunch: [", "uncertainty.moved.lunch: the profile has no number there"),
    ("[6.0e-06, 5.0e-06]", "[6.0e-06]", "2 values, and the first has 1: as many are needed"),
    ("[6.0e-06, 5.0e-06]", "[-1, 5.0e-06]", "uncertainty.moved.launch: -1.0: 0 or more"),
    ("[6.0e-06, 5.0e-06]", "3", "uncertainty.moved.launch: 3 is not a list"),
]


def test_it_is_written_as_it_was_read() -> None:
    profile = parse(SURE, "mine.yaml")
    assert parse(dumps(profile), "again.yaml") == profile
    sure = profile.simulated().uncertainty
    assert sure is not None
    assert [variant.launch for variant in sure.variants] == [6e-6, 5e-6]
    assert sure.residuals.values.tolist() == [0.1, -0.1]
    messages = sure.residuals.seen.messages
    assert (messages[1, 10], messages.sum()) == (0.5, 0.5)


def test_an_old_file_has_none() -> None:
    old = parse(SURE[: SURE.index("uncertainty:")], "old.yaml")
    assert old.simulated().uncertainty is None


@each_case(("right", "wrong", "message"), UNCERTAINTY_MISTAKES)
def test_what_is_wrong_is_named_in_one_line(right: str, wrong: str, message: str) -> None:
    assert right in SURE
    text = SURE.replace(right, wrong)
    assert message in refusal(lambda: parse(text, "mine.yaml").simulated())
