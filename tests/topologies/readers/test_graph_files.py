"""Our own files and GraphML: what is written is read back to the bit, and every mistake is one line
with its place."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from typing import get_args

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import refusal
from topologies.link import Link
from topologies.readers import files
from topologies.readers.files import (
    read_graphml,
    read_json,
    read_yaml,
    to_graphml,
    to_json,
    to_yaml,
)
from topologies.readers.plain_files import load_yaml
from topologies.shapes import SHAPES
from topologies.topology import Paths, Topology
from topologies.topology_builder import TopologyBuilder

INF = float("inf")
FORMATS: dict[str, tuple[Callable[[Topology], str], Callable[[str, str], Topology]]] = {
    "yaml": (to_yaml, read_yaml),
    "json": (to_json, read_json),
    "graphml": (to_graphml, read_graphml),
}
GOLDEN = """\
simctl_topology: 1
name: box
paths: rail
notes:
- "β: measured"
- by hand
ranks: [gpu1, gpu0]
devices:
- {name: gpu0, kind: gpu, node: 0, merges: 1TB/s, copies: 1.7ps/B}
- {name: gpu1, kind: gpu, node: 0}
- {name: "5", kind: nvswitch, in_network: true}
media:
- {name: gpu0 in, bandwidth: 20GB/s}
- {name: "yes", bandwidth: 333.3333333333333MB/s, gap: 200ns}
links:
- {from: gpu0, to: "5", kind: nvlink, bandwidth: 50GB/s, latency: 2us, assumed: true, both: true}
- {from: "5", to: gpu1, bandwidth: inf, gap: 1us, media: ["yes", gpu0 in]}
- {from: gpu1, to: "5", bandwidth: 1GB/s}
"""
GOLDEN_JSON = """\
{
 "simctl_topology": 1,
 "name": "box",
 "paths": "rail",
 "notes": ["β: measured", "by hand"],
 "ranks": ["gpu1", "gpu0"],
 "devices": [
  {"name": "gpu0", "kind": "gpu", "node": 0, "merges": "1TB/s", "copies": "1.7ps/B"},
  {"name": "gpu1", "kind": "gpu", "node": 0},
  {"name": "5", "kind": "nvswitch", "in_network": true}
 ],
 "media": [
  {"name": "gpu0 in", "bandwidth": "20GB/s"},
  {"name": "yes", "bandwidth": "333.3333333333333MB/s", "gap": "200ns"}
 ],
 "links": [
  {"from": "gpu0", "to": "5", "kind": "nvlink", "bandwidth": "50GB/s", "latency": "2us", \
"assumed": true, "both": true},
  {"from": "5", "to": "gpu1", "bandwidth": "inf", "gap": "1us", "media": ["yes", "gpu0 in"]},
  {"from": "gpu1", "to": "5", "bandwidth": "1GB/s"}
 ]
}
"""


def golden() -> Topology:
    """What GOLDEN says."""
    builder = TopologyBuilder("box", paths="rail")
    builder.notes += ["β: measured", "by hand"]
    builder.device("gpu0", node=0, reduction=1e-12, copy=1.7e-12)
    builder.device("gpu1", node=0)
    builder.device("5", "nvswitch", in_network=True)
    port, bus = builder.medium("gpu0 in", 20e9), builder.medium("yes", 1e9 / 3, 2e-7)
    builder.connect("gpu0", "5", Link(50e9, 2e-6), kind="nvlink", assumed=True)
    builder.link("5", "gpu1", Link(INF, gap=1e-6), media=(bus, port))
    builder.link("gpu1", "5", Link(1e9))
    return builder.build(["gpu1", "gpu0"])


def differences(topology: Topology, copy: Topology) -> list[str]:
    """The columns that are not the same to the bit."""
    columns = [
        (field.name, getattr(topology, field.name), getattr(copy, field.name))
        for field in fields(topology)
        if field.init and not field.name.startswith("_")
    ]
    return [name for name, mine, theirs in columns if not identical(mine, theirs)]


def identical(value: object, copy: object) -> bool:
    if isinstance(value, np.ndarray) and isinstance(copy, np.ndarray):
        return value.dtype == copy.dtype and value.tobytes() == copy.tobytes()
    return type(value) is type(copy) and value == copy


def test_the_golden_files_and_the_machine_say_the_same() -> None:
    assert to_yaml(golden()) == GOLDEN
    assert to_json(golden()) == GOLDEN_JSON
    assert differences(read_yaml(GOLDEN, "box.yaml"), golden()) == []
    assert differences(read_json(GOLDEN_JSON, "box.json"), golden()) == []


def test_any_yaml_reader_reads_the_same() -> None:
    assert yaml.safe_load(GOLDEN) == load_yaml(GOLDEN, "box.yaml")


@each_case("shape", SHAPES)
@each_case("ranks", [4, 16])
@each_case("form", FORMATS)
def test_every_shape_comes_back(shape: str, ranks: int, form: str) -> None:
    topology = SHAPES[shape](
        ranks, bandwidth=1e9 / 3, latency=1.3e-6, gap=2e-7, reduction=1 / 3.3e12
    )
    write, read = FORMATS[form]
    if topology.shared_names and form == "graphml":
        assert "shared media" in refusal(write, topology)
    else:
        assert differences(read(write(topology), "file"), topology) == []


PLAIN_WORDS = r"""yes Null y 5 1e9 0x1F 1_0 1:30 2001-01-01 .inf ~ = << 50GB/s #a {a} [a *a &a !a
'a' " \ a,b %a @a ` | > ? :"""
AWKWARD = (
    *PLAIN_WORDS.split(),
    *("a: b", "- a", "a #b"),
    *("µ", "\U0001f600", "a->b", "a  b", "--- a", "...", "</graphml>", "&lt;", "]]>", "a" * 200),
)
printable = st.characters(exclude_categories=("C", "Z"), exclude_characters="\ufffe\uffff").filter(
    str.isprintable
)
names = st.sampled_from(AWKWARD) | st.text(printable, min_size=1, max_size=5)
bandwidths = st.floats(1.0, 1e18) | st.sampled_from((50e9, INF))
seconds = st.just(0.0) | st.floats(0.0, 1e9) | st.sampled_from((1e-6, 5e-324))


@st.composite
def machines(draw: st.DrawFn, media: int = 3) -> Topology:
    """A random machine whose devices are on a ring, with odd names, figures and orders."""
    builder = TopologyBuilder(draw(names), paths=draw(st.sampled_from(get_args(Paths))))
    builder.notes += draw(st.lists(names, max_size=2))
    devices = draw(st.lists(names, min_size=2, max_size=5, unique=True))
    for name in devices:
        costs = {"reduction": draw(seconds), "copy": draw(seconds)}
        kind, node, in_network = draw(names), draw(st.integers(-1, 2**31 - 1)), draw(st.booleans())
        builder.device(name, kind, node=node, in_network=in_network, **costs)
    shared = [
        builder.medium(name, draw(bandwidths), draw(seconds))
        for name in draw(st.lists(names, max_size=media, unique=True))
    ]
    needed = [(start, end) for start, end in zip(devices, [*devices[1:], devices[0]], strict=True)]
    optional = [
        (start, end)
        for start in devices
        for end in devices
        if start != end and (start, end) not in needed
    ]
    pairs = needed + (draw(st.lists(st.sampled_from(optional), unique=True)) if optional else [])
    alike = draw(st.lists(st.tuples(bandwidths, seconds, seconds, names), min_size=1, max_size=2))
    for start, end in draw(st.permutations(pairs)):
        bandwidth, latency, gap, kind = draw(st.sampled_from(alike))
        crossed = draw(st.lists(st.sampled_from(shared), max_size=3)) if shared else []
        link, assumed = Link(bandwidth, latency, gap), draw(st.booleans())
        builder.link(start, end, link, kind=kind, media=crossed, assumed=assumed)
    return builder.build(draw(st.lists(st.sampled_from(devices), min_size=1, max_size=6)))


@given(machines())
def test_every_machine_comes_back_to_the_bit(topology: Topology) -> None:
    assert differences(read_yaml(to_yaml(topology), "file"), topology) == []
    assert differences(read_json(to_json(topology), "file"), topology) == []


@given(machines(media=0))
def test_every_machine_without_shared_media_comes_back_from_graphml(topology: Topology) -> None:
    assert differences(read_graphml(to_graphml(topology), "file"), topology) == []


def links_of(*links: tuple[str, str, float]) -> str:
    """The links of a machine of a and b, b and c as they are written."""
    builder = TopologyBuilder("three")
    for name in "abc":
        builder.device(name)
    for source, target, bandwidth in links:
        builder.link(source, target, Link(bandwidth))
    return to_yaml(builder.build(["a"])).partition("links:\n")[2]


def test_only_neighbours_that_are_alike_and_lead_back_are_one_entry() -> None:
    assert (
        links_of(("b", "a", 1e9), ("a", "b", 1e9))
        == "- {from: b, to: a, bandwidth: 1GB/s, both: true}\n"
    )
    assert links_of(("a", "b", 1e9), ("b", "a", 2e9)).count("both") == 0
    assert links_of(("a", "b", 1e9), ("b", "c", 1e9), ("b", "a", 1e9)).count("both") == 0
    assert links_of(("a", "b", 1e9), ("a", "c", 1e9)).count("both") == 0


HOSTILE = {
    "blank": " \n",
    "NUL": GOLDEN + "\0",
    "large": GOLDEN + "#" * 2**24,
    "nothing but a comment": "# machine\n",
    "a word": "machine",
    "cut short": GOLDEN[:-30],
    "binary": bytes(range(256)).decode("latin-1"),
    "lists in lists": "notes: " + "[" * 100_000,
    "mappings in mappings": "notes: " + "{a: " * 100_000,
    "rows in rows": "- " * 100_000,
    "closed lists in lists": '{"notes": ' + "[" * 900 + "]" * 900 + "}",
    "an alias bomb": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "a merge key": "<<: {name: a}\n",
    "a long text": f"name: {'x' * 100_000}",
    "a long number": f"name: 0x{'f' * 1900}",
    "a longer number": f"simctl_topology: 1\nname: 0x{'f' * 5000}",
    "lists that never end": "[" * 100_000,
    "mappings that never end": '{"a": ' * 100_000,
    "base 60": f"name: 1{':1' * 900}",
    "odd keys": '"a\\nb\\u2028": 5',
    "many mistakes": "simctl_topology: 1\nname: x\ndevices: [{name: a}]\nlinks: ["
    + "{}, " * 10_000
    + "]",
    "many kinds": "simctl_topology: 1\nname: x\ndevices:\n"
    + "".join(f"- {{name: d{k}, kind: k{k}}}\n" for k in range(128)),
    "a document type": '<!DOCTYPE a [<!ENTITY b "b">]><a>&b;</a>',
    "elements in elements": "<a>" * 100_000 + "</a>" * 100_000,
}


@each_case("text", HOSTILE.values())
@each_case("form", FORMATS)
def test_a_hostile_file_is_one_line(text: str, form: str) -> None:
    assert refusal(FORMATS[form][1], text, "file").startswith("file")


def pair(name: str = "a", bandwidth: float = 1e9, media: tuple[str, ...] = ()) -> Topology:
    builder = TopologyBuilder("pair")
    builder.device(name)
    builder.device("b")
    crossed = [builder.medium(medium, 1e9) for medium in media]
    builder.link(name, "b", Link(bandwidth), media=crossed)
    return builder.build([name])


UNWRITABLE = {
    "a name that is no line": (
        pair("a\n"),
        "'pair', ranks[0]: 'a\\n' has 2 characters: write 1 to 200 printable characters without "
        "blanks at the ends"
        " (and 2 more mistakes)",
    ),
    "too slow": (
        pair(bandwidth=0.5),
        "'pair', links[0].bandwidth: '0.5B/s' is out of range: write a value from 1B/s to 1EB/s",
    ),
    "no ranks": (
        replace(pair(), placement=np.zeros(0, dtype=np.int32)),
        "'pair' has no ranks: a file needs at least one",
    ),
}


@pytest.mark.parametrize(("topology", "message"), UNWRITABLE.values(), ids=UNWRITABLE.keys())
def test_what_could_not_be_read_is_not_written(topology: Topology, message: str) -> None:
    assert refusal(to_yaml, topology) == refusal(to_json, topology) == message


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_is_too_large_to_be_read_is_not_written(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LIMIT", 100)
    assert (
        refusal(FORMATS[form][0], pair())
        == "pair with 1 links is a file of more than 16 MiB, which none reads"
    )


def test_readers_load_what_a_graph_or_a_matrix_needs_when_they_read_one() -> None:
    code = (
        "import sys, topologies.readers.files; print(*sorted({'yaml', 'pydantic', 'networkx', "
        "'scipy', 'defusedxml'} & {*sys.modules}))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert printed.stdout.split() == ["pydantic", "yaml"]
