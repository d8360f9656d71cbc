"""A profile in a file: what is refused, in one line with its place and what would be right."""

from dataclasses import replace

import pytest

from experiments.profiles import find, names, parse
from experiments.profiles.profile_document import dumps, of
from grouped_cases import each_case
from refusals import refusal
from simulator.effects.crowded_links import Crowding, NodeCorrection
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
    (
        "  short:\n    ring",
        "  shrt:\n    ring",
        "line 9, factors.shrt: no such protocol: did you mean short? there",
    ),
    (
        "ring: {network: 2",
        "rin: {network: 2",
        "line 10, factors.short.rin: no such algorithm: did you mean ring?",
    ),
    (
        "{network: 2",
        "{netwok: 2",
        "line 10, factors.short.ring.netwok: no such kind of link: did you mean network?",
    ),
    ("{ring: 1.0}", "{rong: 1.0}", "line 14, scratch.rong: no such algorithm: did you mean "),
    (
        "scratch: {ring: 1.0}",
        "joined: {rong: 1.0}",
        "line 14, joined.rong: no such algorithm: did you mean ",
    ),
    (
        "scratch: {ring: 1.0}",
        "launches: {rong: 1.0}",
        "line 14, launches.rong: no such algorithm: did you mean ",
    ),
    (
        "scratch: {ring: 1.0}",
        "slower: {rong: {}}",
        "line 14, slower.rong: no such algorithm: did you mean ",
    ),
    (
        "scratch: {ring: 1.0}",
        "slower: {ring: {nod: 1}}",
        "line 14, slower.ring.nod: no such kind of link: there are network",
    ),
    ("scratch: {ring: 1.0}", "slower: {ring: {node: 0}}", "line 14, slower.ring.node: 0: "),
    ("scratch: {ring: 1.0}", "longest: {shrt: 192}", "line 14, longest.shrt: no such protocol: "),
    ("scratch: {ring: 1.0}", "longest: {short: 0}", "line 14, longest.short: 0: above 0"),
    ("{copy: 1.0e-10}", "[1.0]", "line 13, memory: a list is not a mapping of keys to values"),
    ("{copy: 1.0e-10}", "3", "line 13, memory: 3 is not a mapping of keys to values"),
    ("copy: 1.0e-10", "copy: -1", "line 13, memory.copy: -1: 0 or more"),
    ("copy: 1.0e-10", "copy: .nan", "line 13, memory.copy: nan is not finite"),
    ("copy: 1.0e-10", "copy: .inf", "line 13, memory.copy: inf is not finite"),
    ("{nodes: 8, latency: 0.5}", "[8, 0.5]", "line 12, crowding.network.apart[0]: a list is not"),
    (
        "scratch: {ring: 1.0}",
        "ineffective: [{label: x, collective: y, ran: []}]",
        "line 14, ineffective[0].ran: is empty",
    ),
    (
        "scratch: {ring: 1.0}",
        "ineffective: [{label: '', collective: y, ran: [ring]}]",
        "line 14, ineffective[0].label: '' is empty",
    ),
    ("scratch: {ring: 1.0}", "exchanges: {beyond: 0}", "line 14, exchanges.beyond: 0: above 0"),
    (
        "network: {nodes",
        "node: {nodes",
        "line 12, crowding.node: no such kind of link: there are network",
    ),
    (
        "{nodes: 16,",
        "{nodes: 8,",
        "line 12, crowding.network.apart: 8 nodes are in it twice: once is right",
    ),
    ("{nodes: 16,", "{", "line 12, crowding.network.apart[1].nodes: is missing"),
    (
        "{nodes: 4,",
        "{nodes: 4, protocol: shrt,",
        "line 12, crowding.network.protocol: no such protocol: did you mean short?",
    ),
    (
        "latency: 0.5",
        "latncy: 0.5",
        "crowding.network.apart[0].latncy: no such key: did you mean latency?",
    ),
    ("{nodes: 16,", "{nodes: 1.5,", "crowding.network.apart[1].nodes: 1.5 is not a whole number"),
    ("latency: 0.5", "latency: 500", "crowding.network.apart[0].latency: 500: 10 or less"),
    ("5.0e-06", "fast", "line 4, launch: 'fast' is not a number"),
    ("5.0e-06", "[1]", "line 4, launch: a list is not a number"),
    ("5.0e-06", "-1", "line 4, launch: -1: 0 or more"),
    ("5.0e-06", ".nan", "line 4, launch: nan is not finite"),
    ("5.0e-06", "1e99", "line 4, launch: '1e99': 1000000000 or less"),
    ("launch: 5.0e-06\n", "", "line 1, launch: is missing"),
    ("bandwidth: 1.0e+09", "bandwidth: 0", "line 7, protocols.short.network.bandwidth: 0: above 0"),
    (", bandwidth: 1.0e+09", "", "line 7, protocols.short.network.bandwidth: is missing"),
    (
        "{latency: 1.0e-06",
        "{latncy: 1.0e-06, latency: 0",
        "network.latncy: no such key: did you mean latency?",
    ),
    (
        "{copy: ",
        "{coppy: ",
        "line 13, memory.coppy: no such key: did you mean copy? there are reduction,",
    ),
    ("paced", "pacd", "line 15, pacd: no such key: did you mean paced? there are profile,"),
    ("false", "maybe", "line 15, paced: 'maybe' is not true or false"),
    ("library: MPI", "library: 3", "line 3, library: 3 is not text: put it in quotes"),
    (
        "library: MPI",
        "library: MPPI",
        "line 3, library: 'MPPI' is no library that is known: there are nccl,",
    ),
    ("{ring: 1.0}", "x", "line 14, scratch: 'x' is not a mapping of keys to values"),
    ("profile: mine", "profile: ''", "line 1, profile: '' is empty"),
    ("profile: mine", f"profile: {'x' * 300}", "...: 200 characters or fewer"),
    ("  short:\n    network", "  '':\n    network", "line 6, protocols.'': '' is empty"),
    (GOOD, "- 1", "line 1: a list is not a mapping of keys to values"),
    (GOOD, "3", "line 1: 3 is not a mapping of keys to values"),
    ("5.0e-06", "fast\nfoo: 1\nbar: 2", "'fast' is not a number (and 2 more mistakes)"),
    ("5.0e-06", "fast\nfoo: 1", "'fast' is not a number (and 1 more mistake)"),
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
