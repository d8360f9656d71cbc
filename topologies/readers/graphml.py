"""GraphML, as networkx, Gephi and yEd write it, as plain values, and a machine as GraphML."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from math import inf
from operator import itemgetter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from topologies.columns import plain_rows, repeated
from topologies.errors import InputError, Location, Place, shown, spelling
from topologies.link import LINKS
from topologies.readers.quantities import bandwidth_text, seconds_text
from topologies.readers.topology_document import VERSION, Content, describe
from topologies.topology import Topology

if TYPE_CHECKING:
    import networkx as nx

_NODE = ("kind", "node", "merges", "copies", "in_network")
_EDGE = ("kind", "bandwidth", "latency", "gap", "assumed")
_UNITS = {"bandwidth": "B/s", "merges": "B/s", "copies": "B/s", "latency": "s", "gap": "s"}

Ends = tuple[str, str]


def load(text: str, name: str) -> Content:
    """The content of a GraphML document, with the keys of our own format. Numbers without units are
    SI. Raises InputError."""
    ids, edges = _elements(text, name)
    graph = _graph(text, name)
    _check_nodes(ids, graph, name)
    _check_edges(edges, graph, name)
    usual = graph.graph.get("node_default", {})
    nodes = {node: usual | graph.nodes[node] for node in ids}
    names = {
        node: str(data.get("name") or data.get("label") or node).strip()
        for node, data in nodes.items()
    }
    content = {"simctl_topology": VERSION, "name": PurePath(name).stem}
    content |= _picked(graph.graph, ("name", "paths"))
    content["devices"] = [
        {"name": names[node], **_picked(data, _NODE)} for node, data in nodes.items()
    ]
    ranks = ((names[node], data.get("rank", "")) for node, data in nodes.items())
    lists = {
        "notes": [note for note in str(graph.graph.get("notes", "")).split("\n") if note],
        "ranks": _ranks(ranks, name),
        "links": _links(edges, graph, names, name),
    }
    return content | {key: values for key, values in lists.items() if values}


def place_in(content: Content, name: str) -> Place:
    """A function that names the node or the edge of a location."""

    def place(location: Location) -> str:
        if len(location) < 2 or location[0] not in ("devices", "links"):
            return f"{name}, {spelling(location)}"
        row = content[str(location[0])][location[1]]
        is_edge = "to" in row
        part = f"edge {_arrow(row['from'], row['to'])}" if is_edge else f"node {shown(row['name'])}"
        return f"{name}, {part}, {spelling(location[2:])}".removesuffix(", ")

    return place


def dump(topology: Topology) -> str:
    """A machine as GraphML, with figures in SI. Raises InputError if it has shared media, or no
    file can hold it."""
    import networkx

    if topology.shared_names:
        medium = shown(topology.shared_names[0])
        raise InputError(
            f"{shown(topology.name)} has shared media ({medium}): GraphML has none, write YAML "
            f"or JSON"
        )
    content = describe(topology)
    graph: nx.DiGraph[str] = networkx.DiGraph(name=topology.name, paths=topology.paths)
    if topology.notes:
        graph.graph["notes"] = "\n".join(topology.notes)
    for device in content["devices"]:
        graph.add_node(device.pop("name"), **device)
    ranks: dict[str, list[int]] = {}
    for rank, device in enumerate(topology.placement.tolist()):
        ranks.setdefault(topology.device_names[device], []).append(rank)
    for name, placed in ranks.items():
        graph.nodes[name]["rank"] = placed[0] if len(placed) == 1 else ",".join(map(str, placed))
    for ends, figures in _figures(topology):
        graph.add_edge(*ends, **figures)
    lines = ['<?xml version="1.0" encoding="utf-8"?>', *networkx.generate_graphml(graph), ""]
    return "\n".join(lines)


def _elements(text: str, name: str) -> tuple[list[str], list[Ends]]:
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        root = fromstring(text, forbid_dtd=True)
    except DefusedXmlException:
        raise InputError(
            f"{name} defines a document type or entities: expected GraphML without them"
        ) from None
    except ParseError as error:
        raise InputError(
            f"{name} line {error.position[0]}: {str(error).partition(':')[0]}: expected GraphML"
        ) from None
    elements = [(str(element.tag).rpartition("}")[2], element) for element in root.iter()]
    nodes = [element.get("id", "") for tag, element in elements if tag == "node"]
    return nodes, [
        (element.get("source", ""), element.get("target", ""))
        for tag, element in elements
        if tag == "edge"
    ]


def _graph(text: str, name: str) -> Any:
    import networkx

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return networkx.parse_graphml(text)
    # It lets a KeyError, an AttributeError, ... escape where GraphML breaks its rules.
    except Exception as error:
        raise InputError(
            f"{name} cannot be read as GraphML: {shown(str(error))} ({type(error).__name__})"
        ) from None


def _check_nodes(ids: list[str], graph: Any, name: str) -> None:
    """Networkx adds a node that only an edge names, joins two of one id, and leaves out nested and
    second graphs."""
    nodes = set(ids)
    if (twice := repeated(ids)) is not None:
        raise InputError(f"{name}: node {shown(twice)} is there twice: ids are unique")
    if missing := [node for node in graph.nodes if node not in nodes]:
        raise InputError(f"{name}: an edge ends at {shown(missing[0])}: there is no such node")
    if left_out := [node for node in ids if node not in graph]:
        raise InputError(
            f"{name}: node {shown(left_out[0])} is in a nested or a second graph: expected one "
            f"graph"
        )


def _check_edges(edges: list[Ends], graph: Any, name: str) -> None:
    alike = edges if graph.is_directed() else [(min(ends), max(ends)) for ends in edges]
    if (twice := repeated(alike)) is not None:
        raise InputError(
            f"{name}: edge {_arrow(*twice)} is there twice: write one with the bandwidth of both"
        )
    if left_out := [ends for ends in edges if not graph.has_edge(*ends)]:
        raise InputError(
            f"{name}: edge {_arrow(*left_out[0])} is in a nested or a second graph: expected one "
            f"graph"
        )


def _links(edges: list[Ends], graph: Any, names: dict[str, str], name: str) -> list[Content]:
    """The edges by their number where they have one, else as in the file."""
    usual, links = graph.graph.get("edge_default", {}), []
    for first, second in edges:
        data = usual | graph.edges[first, second]
        link = {
            "from": names[first],
            "to": names[second],
            **_picked(data, _EDGE),
            "both": not graph.is_directed(),
        }
        number = _whole(
            data.get("link_number", len(edges)),
            f"{name}, edge {_arrow(first, second)}, link_number",
        )
        links.append((number, link if "bandwidth" in link else _assumed(link, name)))
    return [link for _, link in sorted(links, key=itemgetter(0))]


def _assumed(link: Content, name: str) -> Content:
    kind = LINKS.get(link.get("kind", "link"))
    if kind is None:
        edge = f"edge {_arrow(link['from'], link['to'])} has no bandwidth"
        problem = f"the figures of kind {shown(link.get('kind', 'link'))} are not known"
        raise InputError(f"{name}, {edge}, and {problem}: known are {', '.join(LINKS)}")
    figures = {
        "bandwidth": bandwidth_text(kind.link.bandwidth),
        "latency": seconds_text(kind.link.latency),
    }
    return figures | link | {"kind": kind.kind, "assumed": True}


def _ranks(entries: Iterable[tuple[str, object]], name: str) -> list[str]:
    placed = [
        (_whole(rank, f"{name}, node {shown(device)}, rank"), device)
        for device, ranks in entries
        for rank in str(ranks).split(",")
        if rank
    ]
    placed.sort(key=itemgetter(0))
    for expected, (rank, device) in enumerate(placed):
        if rank != expected:
            problem = f"follows {expected - 1}" if expected else "is the first"
            problem = "is there twice" if rank < expected else problem
            right = "ranks are 0, 1, 2, ... once each"
            raise InputError(f"{name}, node {shown(device)}: rank {rank} {problem}: {right}")
    return [device for _, device in placed]


def _whole(value: object, place: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,9}\s*", str(value), re.ASCII):
        raise InputError(f"{place}: {shown(value)} is not a whole number")
    return int(str(value))


def _picked(data: dict[str, Any], keys: Iterable[str]) -> Content:
    """The values of those keys that have a value; numbers become text with units."""
    return {
        key: _with_unit(data[key], _UNITS.get(key))
        for key in keys
        if data.get(key) not in (None, "")
    }


def _with_unit(value: Any, unit: str | None) -> Any:
    if unit is None or isinstance(value, str):
        return value
    return "inf" if value == inf and unit == "B/s" else f"{value!r}{unit}"


def _arrow(first: str, second: str) -> str:
    return shown(f"{first}->{second}")


def _figures(topology: Topology) -> Iterator[tuple[Ends, Content]]:
    """Every link's ends and attributes. Edges are written by their source, so that a link says its
    number."""
    names = topology.device_names
    columns = {
        "kind": topology.link_kinds,
        "bandwidth": topology.medium_bandwidth.tolist(),
        "latency": topology.latency.tolist(),
        "gap": topology.medium_gap.tolist(),
        "assumed": topology.assumed.tolist(),
    }
    ends = plain_rows(topology.source, topology.target)
    for link, ((source, target), *values) in enumerate(zip(ends, *columns.values(), strict=True)):
        figures = dict(zip(columns, values, strict=True))
        yield (names[source], names[target]), {"link_number": link, **figures}
