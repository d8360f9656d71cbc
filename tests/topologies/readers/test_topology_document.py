"""What our own files may say, what is usual where they are silent, and every mistake with its line
and key."""

from collections.abc import Callable
from typing import get_args

import pytest
import yaml

from grouped_cases import each_case
from refusals import refusal
from topologies.readers import plain_files
from topologies.readers.files import read_json, read_yaml
from topologies.topology import Paths, Topology

PLAIN = """\
simctl_topology: 1
name: pair
devices:
- {name: a}
- name: b
  kind: gpu

links:
- from: a
  to: b
  bandwidth: 50GB/s
  both: true
"""
PLAIN_JSON = """\
{"simctl_topology": 1, "name": "pair",
 "devices": [{"name": "a"}, {"name": "b"}],
 "links": [
\t{"from": "a", "to": "b",
\t "bandwidth": "50GB/s", "both": true}
]}
"""


@pytest.mark.parametrize(
    ("text", "read"), [(PLAIN, read_yaml), (PLAIN_JSON, read_json)], ids=["yaml", "json"]
)
def test_what_is_left_out_is_as_usual(text: str, read: Callable[[str, str], Topology]) -> None:
    topology = read(text, "pair")
    assert (topology.name, topology.paths, topology.notes) == ("pair", "first", ())
    assert topology.device_names == ("a", "b")
    assert topology.device_kinds == ("gpu", "gpu")
    assert topology.link_kinds == ("link", "link")
    assert topology.medium_names == ("a->b", "b->a")
    assert topology.medium_bandwidth.tolist() == [50e9, 50e9]
    assert topology.placement.tolist() == [0, 1]
    assert topology.node.tolist() == [-1, -1]
    for column in (topology.reduction, topology.copy, topology.latency, topology.medium_gap):
        assert column.tolist() == [0.0, 0.0]
    assert not topology.in_network.any()
    assert not topology.assumed.any()


def test_without_ranks_there_is_one_on_every_gpu_or_on_every_device() -> None:
    assert read_yaml(PLAIN.replace("kind: gpu", "kind: nic"), "pair").placement.tolist() == [0]
    nics = PLAIN.replace("kind: gpu", "kind: nic").replace("{name: a}", "{name: a, kind: nic}")
    assert read_yaml(nics, "pair").placement.tolist() == [0, 1]


PATHS = " or ".join(", ".join(map(repr, get_args(Paths))).rsplit(", ", 1))
MISTAKES = {
    ("simctl_topology: 1", "simctl_topology: 2"): (
        " line 1, simctl_topology: version 2 is not known: this program reads version 1"
    ),
    ("simctl_topology: 1\n", ""): " line 1, simctl_topology: is missing",
    ("name: pair", "name: 5"): " line 2, name: 5 is not text: put it in quotes",
    ("name: pair", "name: on"): " line 2, name: true is not text: put it in quotes",
    ("name: pair", "name: 2001-01-01"): " line 2, name: 2001-01-01 is not text: put it in quotes",
    ("name: pair", "name: ' x'"): (
        " line 2, name: ' x' has 2 characters: write 1 to 200 printable characters without "
        "blanks at the ends"
    ),
    ("name: pair", 'name: "a\\nb"'): (
        " line 2, name: 'a\\nb' has 3 characters: write 1 to 200 printable characters without "
        "blanks at the ends"
    ),
    ("name: pair", "name: pair\npaths: ecmp"): f" line 3, paths: 'ecmp': input should be {PATHS}",
    ("name: pair", "name: pair\nname: pair"): " line 3: the key 'name' is there twice",
    ("name: pair", "name: pair\ncolour: red"): (
        " line 3, colour: no such key: there are simctl_topology, name, paths, notes, ranks, "
        "devices, media, links"
    ),
    ("name: pair", "name: pair\nranks: []"): " line 3, ranks: is empty: at least one is needed",
    ("name: pair", "name: pair\nranks: [a, c]"): " line 3, ranks[1]: 'c' is no device",
    (
        "name: pair",
        "name: pair\nmedia: [{name: m, bandwidth: 5GB/s}, {name: m, bandwidth: 5GB/s}]",
    ): (" line 3, media[1].name: 'm' is there twice: names are unique"),
    (
        "name: b",
        "name: a",
    ): " line 5, devices[1].name: 'a' is there twice: names are unique (and 1 more mistake)",
    (
        "kind: gpu",
        "node: -1",
    ): " line 6, devices[1].node: -1: input should be greater than or equal to 0",
    ("kind: gpu", "node: 1.0"): " line 6, devices[1].node: 1.0 is not a whole number",
    ("kind: gpu", "in_network: 1"): " line 6, devices[1].in_network: 1 is not true or false",
    ("kind: gpu", "bandwidth: 5GB/s"): (
        " line 6, devices[1].bandwidth: no such key: there are name, kind, node, merges, copies, "
        "in_network"
    ),
    (
        "kind: gpu",
        "merges: 20",
    ): " line 6, devices[1].merges: '20' has no unit: write 20B/s or 20MB/s",
    (
        "bandwidth: 50GB/s",
        "bandwidth: 50",
    ): " line 11, links[0].bandwidth: '50' has no unit: write 50B/s or 50MB/s",
    ("bandwidth: 50GB/s", "bandwidth: 0B/s"): (
        " line 11, links[0].bandwidth: '0B/s' is not positive: write a value from 1B/s to 1EB/s"
    ),
    ("bandwidth: 50GB/s", "bandwidth: -inf"): (
        " line 11, links[0].bandwidth: '-inf' is not finite: write a bandwidth like 50GB/s"
    ),
    ("bandwidth: 50GB/s", "bandwidth: .inf"): " line 11, links[0].bandwidth: inf is no quantity",
    ("bandwidth: 50GB/s", "bandwidth: [5]"): " line 11, links[0].bandwidth: a list is no quantity",
    ("bandwidth: 50GB/s", "bandwidth: nan"): (
        " line 11, links[0].bandwidth: 'nan' is not finite: write a bandwidth like 50GB/s"
    ),
    (
        "bandwidth: 50GB/s",
        "latency: 5",
    ): " line 9, links[0].bandwidth: is missing (and 1 more mistake)",
    (
        "both: true",
        "latency: -5us",
    ): " line 12, links[0].latency: '-5us' is negative: a time is 0s or more",
    ("both: true", "media: [m]"): " line 12, links[0].media[0]: 'm' is not among the media",
    ("both: true", "both: 1"): " line 12, links[0].both: 1 is not true or false",
    ("to: b", "to: c"): " line 10, links[0].to: 'c' is no device",
    ("to: b", "to: a"): " line 9, links[0]: a link from 'a' to itself: it leads to another device",
    ("both: true", "both: true\n- {from: b, to: a, bandwidth: 1GB/s}"): (
        " line 13, links[1]: a second link from 'b' to 'a': one a direction is allowed"
    ),
    ("links:", "links: 5\nmedia:"): " line 8, links: 5 is not a list (and 4 more mistakes)",
    ("- {name: a}", "- a"): " line 4, devices[0]: 'a' is not a mapping of keys to values",
    ("name: pair", "name: !!python/object:os.system ls"): (
        " line 2: 'tag:yaml.org,2002:python/object:os.system' is a tag: write plain values"
    ),
    ("name: pair", "name: &a pair\nnotes: [*a]"): (
        " line 2: an alias stands for it elsewhere: write it twice"
    ),
    ("name: pair", "name: *a"): " line 2: found undefined alias: expected YAML",
    ("name: pair", "[a]: pair"): " line 2: a key that is not text",
    ("both: true", "both: true\n---\na: b"): " line 13: but found another document: expected YAML",
}


@each_case(("change", "message"), MISTAKES.items())
def test_a_mistake_is_named_with_its_line_and_key(change: tuple[str, str], message: str) -> None:
    text = PLAIN.replace(*change)
    assert text != PLAIN
    assert refusal(read_yaml, text, "pair.yaml") == f"pair.yaml{message}"


JSON_MISTAKES = {
    ('"50GB/s"', "50"): " line 5, links[0].bandwidth: '50' has no unit: write 50B/s or 50MB/s",
    (
        '"50GB/s"',
        "NaN",
    ): ': NaN is no number that JSON knows: write quantities as text, like "50GB/s"',
    ('"50GB/s"', "1e999"): " line 5, links[0].bandwidth: inf is no quantity",
    (
        '"50GB/s"',
        "1" * 5000,
    ): ": 11111111111111111111... is larger than any number that is used here",
    ('"50GB/s"', ""): " line 5: Expecting value: expected JSON",
    ('"pair"', '"\\ud800"'): (
        ", name: '\\ud800' has 1 characters: write 1 to 200 printable characters without blanks "
        "at the ends"
    ),
    ('"pair"', '"pair", "name": "b"'): ": the key 'name' is there twice",
    (
        '"a"}',
        '"b"}',
    ): " line 2, devices[1].name: 'b' is there twice: names are unique (and 1 more mistake)",
    ("]}", ""): " line 7: Expecting ',' delimiter: expected JSON",
}


@each_case(("change", "message"), JSON_MISTAKES.items())
def test_a_mistake_in_json_is_named_too(change: tuple[str, str], message: str) -> None:
    text = PLAIN_JSON.replace(*change)
    assert refusal(read_json, text, "pair.json") == f"pair.json{message}"


MANY = "simctl_topology: 1\nname: x\ndevices: [{name: a}]\nlinks: [" + "{}, " * 10_000 + "]"


def test_all_mistakes_are_counted() -> None:
    assert (
        refusal(read_yaml, MANY, "file")
        == "file line 4, links[0].from: is missing (and 29999 more mistakes)"
    )


def test_kinds_are_few() -> None:
    devices = "".join(f"- {{name: d{number}, kind: k{number}}}\n" for number in range(128))
    message = refusal(read_yaml, f"simctl_topology: 1\nname: x\ndevices:\n{devices}", "file")
    assert (
        message
        == "file line 1: there are 128 kinds of devices and links: at most 127 are told apart"
    )


def test_yaml_without_its_library_is_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_files, "_LOADER", yaml.SafeLoader)
    assert read_yaml(PLAIN, "f").medium_names == ("a->b", "b->a")
    assert refusal(read_yaml, PLAIN.replace("50GB/s", "50"), "f").startswith(
        "f line 11, links[0].bandwidth: "
    )
    deep = "notes: " + "[" * 9 + "]" * 9
    assert refusal(read_yaml, deep, "f") == "f line 1: nested more than 8 deep"
    assert refusal(read_yaml, "notes: " + "[" * 1000, "f") == "f: not YAML: expected YAML"
