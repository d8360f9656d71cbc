"""What our own files may say, what is usual where they are silent, and every mistake with its line
and key."""

from collections.abc import Callable
from typing import get_args

import pytest
import yaml

from grouped_cases import each_case
from refusals import changes_of, refusal
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


@each_case(("old", "new", "message"), changes_of("topology in YAML"))
def test_a_mistake_is_named_with_its_line_and_key(old: str, new: str, message: str) -> None:
    text = PLAIN.replace(old, new)
    assert text != PLAIN
    assert refusal(read_yaml, text, "pair.yaml") == f"pair.yaml{message}"


HUGE_NUMBER = ": 11111111111111111111... is larger than any number that is used here"


@each_case(
    ("old", "new", "message"),
    [*changes_of("topology in JSON"), ('"50GB/s"', "1" * 5000, HUGE_NUMBER)],
)
def test_a_mistake_in_json_is_named_too(old: str, new: str, message: str) -> None:
    text = PLAIN_JSON.replace(old, new)
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
