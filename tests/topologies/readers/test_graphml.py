"""GraphML from elsewhere: what its attributes mean, and what is refused instead of guessed."""

import numpy as np
import pytest

import refusals
from grouped_cases import each_case
from topologies.link import LINKS
from topologies.readers.files import read_graphml, to_graphml
from topologies.shapes import ring
from topologies.topology import Topology

KEYS = """
<key id="kind" for="all" attr.name="kind" attr.type="string"/>
<key id="rank" for="node" attr.name="rank" attr.type="string"/>
<key id="label" for="node" attr.name="label" attr.type="string"/>
<key id="x" for="node" attr.name="x" attr.type="double"/>
<key id="merges" for="node" attr.name="merges" attr.type="double"/>
<key id="bandwidth" for="edge" attr.name="bandwidth" attr.type="double"/>
<key id="latency" for="edge" attr.name="latency" attr.type="string"/>
<key id="speed" for="edge" attr.name="bandwidth" attr.type="string"/>
<key id="odd" for="edge" attr.name="gap" attr.type="boolean"/>
"""
NODES = '<node id="a"/><node id="b"/>'


def data(**attributes: str) -> str:
    return "".join(f'<data key="{key}">{value}</data>' for key, value in attributes.items())


def edge(source: str = "a", target: str = "b", extra: str = "", **attributes: str) -> str:
    return (
        f'<edge source="{source}" target="{target}" '
        f"{extra}>{data(**(attributes or {'bandwidth': '5e10'}))}</edge>"
    )


def document(body: str, *, default: str = "undirected", keys: str = KEYS) -> str:
    graph = f'<graph edgedefault="{default}">{body}</graph>'
    return f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}{graph}</graphml>'


def read(body: str, *, default: str = "undirected", keys: str = KEYS) -> Topology:
    return read_graphml(document(body, default=default, keys=keys), "box.graphml")


def refusal(text: str) -> str:
    return refusals.refusal(read_graphml, text, "box.graphml")


def test_an_undirected_edge_is_a_link_in_each_direction() -> None:
    topology = read(NODES + edge(latency="1us", bandwidth="5e10", kind="nvlink"))
    assert topology.name == "box"
    assert topology.device_names == ("a", "b")
    assert topology.device_kinds == ("gpu", "gpu")
    assert topology.medium_names == ("a->b", "b->a")
    assert topology.link_kinds == ("nvlink", "nvlink")
    assert topology.medium_bandwidth.tolist() == [50e9, 50e9]
    assert topology.latency.tolist() == [1e-6, 1e-6]
    assert topology.medium_gap.tolist() == [0.0, 0.0]
    assert topology.placement.tolist() == [0, 1]
    assert not topology.assumed.any()


def test_an_edge_without_bandwidth_has_the_figures_of_its_kind() -> None:
    topology = read(NODES + edge(kind="nvlink4"))
    assert topology.link_kinds == ("nvlink", "nvlink")
    assert topology.medium_bandwidth.tolist() == [LINKS["nvlink4"].link.bandwidth] * 2
    assert topology.latency.tolist() == [LINKS["nvlink4"].link.latency] * 2
    assert topology.assumed.all()
    assert read(NODES + edge(kind="nvlink4", latency="5us")).latency.tolist() == [5e-6, 5e-6]


def test_a_kind_with_a_bandwidth_is_only_a_name() -> None:
    topology = read(NODES + edge(kind="nvlink4", bandwidth="1e9"))
    assert topology.link_kinds == ("nvlink4", "nvlink4")
    assert topology.medium_bandwidth.tolist() == [1e9, 1e9]
    assert not topology.assumed.any()


def test_defaults_of_keys_hold_where_nothing_else_is_said() -> None:
    default = (
        '<key id="b" for="edge" attr.name="bandwidth" '
        'attr.type="double"><default>3e9</default></key>'
    )
    kind = '<key id="k" for="node" attr.name="kind" attr.type="string"><default>nic</default></key>'
    topology = read(NODES + '<edge source="a" target="b"/>', keys=default + kind)
    assert topology.medium_bandwidth.tolist() == [3e9, 3e9]
    assert topology.device_kinds == ("nic", "nic")
    topology = read(
        NODES + '<edge source="a" target="b"><data key="b">1e9</data></edge>', keys=default + kind
    )
    assert topology.medium_bandwidth.tolist() == [1e9, 1e9]


@each_case(
    ("data_of_a", "data_of_b", "placement"),
    [
        ({"rank": "1"}, {"rank": "0"}, [1, 0]),
        ({"rank": "0, 2"}, {"rank": "1"}, [0, 1, 0]),
        ({"rank": "0"}, {}, [0]),
        ({}, {}, [0, 1]),
        ({"kind": "nic"}, {}, [1]),
        ({"kind": "nic"}, {"kind": "nic"}, [0, 1]),
        ({"kind": "nic", "rank": "0"}, {}, [0]),
        ({"x": "3.5", "kind": ""}, {}, [0, 1]),
    ],
)
def test_ranks_are_where_nodes_say_so_else_on_gpus_else_everywhere(
    data_of_a: dict[str, str], data_of_b: dict[str, str], placement: list[int]
) -> None:
    nodes = f'<node id="a">{data(**data_of_a)}</node><node id="b">{data(**data_of_b)}</node>'
    assert read(nodes + edge()).placement.tolist() == placement


def test_what_networkx_warns_of_is_read() -> None:
    untyped = KEYS.replace('attr.name="kind" attr.type="string"', 'attr.name="kind"')
    nodes = f'<node id="a"><port name="p"/>{data(kind="nic")}</node><node id="b"/>'
    assert read(nodes + edge(), keys=untyped).device_kinds == ("nic", "gpu")


def test_a_label_is_the_name() -> None:
    nodes = f'<node id="n0">{data(label=" gpu0 ")}</node><node id="n1"/>'
    assert read(nodes + edge("n0", "n1")).device_names == ("gpu0", "n1")


def test_merging_is_a_bandwidth() -> None:
    assert read(
        f'<node id="a">{data(merges="4e12")}</node><node id="b"/>{edge()}'
    ).reduction.tolist() == [2.5e-13, 0.0]


def test_links_keep_their_numbers_though_edges_are_written_by_source() -> None:
    topology = ring(4, bandwidth=1e9)
    text = to_graphml(topology)
    written = [line.split('"')[1::2] for line in text.splitlines() if "<edge" in line]
    names = [topology.device_names[device] for device in topology.source]
    assert [source for source, _ in written] == sorted(names)
    assert np.array_equal(read_graphml(text, "ring").source, topology.source)
    assert names != sorted(names)


NO_FIGURES = f"the figures of kind 'wire' are not known: known are {', '.join(LINKS)}"
MISTAKES = {
    NODES + edge(kind="wire"): f", edge 'a->b' has no bandwidth, and {NO_FIGURES}",
    NODES + edge(bandwidth="0"): (
        ", edge 'a->b', bandwidth: '0.0B/s' is not positive: write a value from 1B/s to 1EB/s"
    ),
    NODES
    + edge(
        bandwidth="nan"
    ): ", edge 'a->b', bandwidth: 'nanB/s' is not finite: write a bandwidth like 50GB/s",
    NODES + edge(speed="50"): ", edge 'a->b', bandwidth: '50' has no unit: write 50B/s or 50MB/s",
    NODES + edge(bandwidth="1e9", latency="-1us"): (
        ", edge 'a->b', latency: '-1us' is negative: a time is 0s or more"
    ),
    NODES
    + edge(
        bandwidth="1e9", odd="true"
    ): ", edge 'a->b', gap: 'Trues' is not a time: write it like 25us",
    NODES + edge() + edge(): ": edge 'a->b' is there twice: write one with the bandwidth of both",
    NODES
    + edge()
    + edge("b", "a"): ": edge 'a->b' is there twice: write one with the bandwidth of both",
    NODES + edge("a", "a"): ", edge 'a->a': a link from 'a' to itself: it leads to another device",
    NODES + edge("a", "c"): ": an edge ends at 'c': there is no such node",
    NODES + NODES + edge(): ": node 'a' is there twice: ids are unique",
    NODES + edge(extra='directed="true"'): (
        " cannot be read as GraphML: 'directed=true edge found in undirected graph.' "
        "(NetworkXError)"
    ),
    NODES
    + edge(
        missing="1"
    ): " cannot be read as GraphML: 'Bad GraphML data: no key missing' (NetworkXError)",
    NODES + edge(bandwidth="fast"): (
        " cannot be read as GraphML: \"could not convert string to float: 'fast'\" (ValueError)"
    ),
    NODES + "<hyperedge/>": (
        ' cannot be read as GraphML: "GraphML reader doesn\'t support hyperedges" (NetworkXError)'
    ),
    '<node id="a"><graph><node id="z"/></graph></node><node id="b"/>' + edge(): (
        ": node 'z' is in a nested or a second graph: expected one graph"
    ),
    f"{NODES}{edge()}</graph><graph>{edge('b', 'a')}": (
        ": edge 'a->b' is there twice: write one with the bandwidth of both"
    ),
    f"{NODES}</graph><graph>{edge()}": (
        ": edge 'a->b' is in a nested or a second graph: expected one graph"
    ),
    f'<node id="a">{data(rank="1")}</node><node id="b"/>{edge()}': (
        ", node 'a': rank 1 is the first: ranks are 0, 1, 2, ... once each"
    ),
    f'<node id="a">{data(rank="0,2")}</node><node id="b"/>{edge()}': (
        ", node 'a': rank 2 follows 0: ranks are 0, 1, 2, ... once each"
    ),
    f'<node id="a">{data(rank="0")}</node><node id="b">{data(rank="0")}</node>{edge()}': (
        ", node 'b': rank 0 is there twice: ranks are 0, 1, 2, ... once each"
    ),
    f'<node id="a">{data(rank="first")}</node><node id="b"/>{edge()}': (
        ", node 'a', rank: 'first' is not a whole number"
    ),
    f'<node id="a">{data(label="b")}</node><node id="b"/><node '
    f'id="c"/>{edge("a", "c")}{edge("b", "c")}': (
        ", node 'b', name: 'b' is there twice: names are unique (and 2 more mistakes)"
    ),
    '<node id="a&#10;"/><node id="b"/><node id="c&#10;d"/>'
    + edge("a&#10;")
    + edge("b", "c&#10;d"): (
        ", node 'c\\nd', name: 'c\\nd' has 3 characters: write 1 to 200 printable characters "
        "without blanks at the ends"
        " (and 1 more mistake)"
    ),
    "": ", devices: is empty: at least one is needed",
}


@each_case(("body", "message"), MISTAKES.items())
def test_a_mistake_is_named_with_its_node_or_edge(body: str, message: str) -> None:
    assert refusal(document(body)) == f"box.graphml{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '<!DOCTYPE a SYSTEM "file:///etc/passwd"><graphml/>',
            "defines a document type or entities",
        ),
        (
            '<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><graphml>&c;</graphml>',
            "defines a document type or entities",
        ),
        ("<graphml", "line 1: unclosed token"),
        ("<graphml>\n<node>\n</graphml>", "line 3: mismatched tag"),
        ("machine", "line 1: syntax error"),
        ("<html/>", "cannot be read as GraphML"),
        (
            document(
                '<node id="a" yfiles.foldertype="group"><graph>' * 3000 + "</graph></node>" * 3000
            ),
            "cannot be read",
        ),
        (
            document(
                NODES + edge(), keys='<key id="bandwidth" for="edge" attr.name="b" attr.type="w"/>'
            ),
            "cannot be read",
        ),
    ],
    ids=[
        *("a file", "a bomb", "cut short", "crossed", "a word", "another format"),
        *("nested groups", "a type"),
    ],
)
def test_what_is_no_graphml_is_refused(text: str, message: str) -> None:
    assert refusal(text).startswith(f"box.graphml {message}")
