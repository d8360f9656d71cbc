"""A machine as plain values: mappings, lists and text with units, as
:mod:`topologies.readers.topology_document` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from topologies.errors import InputError, shown
from topologies.readers.mistakes import spelling
from topologies.readers.quantities import bandwidth_text, cost_text, seconds_text
from topologies.readers.topology_document import VERSION, validated
from topologies.topology import Topology

Content = dict[str, Any]

_USUAL_DEVICE: Content = {
    "node": -1,
    "merges": cost_text(0.0),
    "copies": cost_text(0.0),
    "in_network": False,
}
_USUAL_LINK: Content = {"kind": "link", "latency": "0s", "gap": "0s", "media": [], "assumed": False}


def describe(topology: Topology) -> Content:
    """All columns of a machine, to the bit; what is as usual is left out.

    Raises InputError when no file can hold it: a name is not printable, a figure is out of range,
    it has no ranks.
    """
    if not topology.ranks:
        raise InputError(f"{shown(topology.name)} has no ranks: a file needs at least one")
    paths = {} if topology.paths == "first" else {"paths": topology.paths}
    lists = {
        "notes": list(topology.notes),
        "ranks": [topology.device_names[device] for device in topology.placement.tolist()],
        "devices": _devices(topology),
        "media": _media(topology),
        "links": _paired(_links(topology)),
    }
    content: Content = {"simctl_topology": VERSION, "name": topology.name, **paths}
    content |= {key: values for key, values in lists.items() if values}
    validated(content, lambda location: f"{shown(topology.name)}, {spelling(location)}")
    return content


def _devices(topology: Topology) -> list[Content]:
    columns = {
        "name": topology.device_names,
        "kind": topology.device_kinds,
        "node": topology.node.tolist(),
        "merges": map(cost_text, topology.reduction.tolist()),
        "copies": map(cost_text, topology.copy.tolist()),
        "in_network": topology.in_network.tolist(),
    }
    return _rows(columns, _USUAL_DEVICE)


def _media(topology: Topology) -> list[Content]:
    columns = {
        "name": topology.shared_names,
        "bandwidth": map(bandwidth_text, topology.medium_bandwidth[topology.links :].tolist()),
        "gap": map(seconds_text, topology.medium_gap[topology.links :].tolist()),
    }
    return _rows(columns, _USUAL_LINK)


def _links(topology: Topology) -> list[Content]:
    names, links = topology.device_names, topology.links
    columns = {
        "from": [names[device] for device in topology.source.tolist()],
        "to": [names[device] for device in topology.target.tolist()],
        "kind": topology.link_kinds,
        "bandwidth": map(bandwidth_text, topology.medium_bandwidth[:links].tolist()),
        "latency": map(seconds_text, topology.latency.tolist()),
        "gap": map(seconds_text, topology.medium_gap[:links].tolist()),
        "media": _crossed(topology),
        "assumed": topology.assumed.tolist(),
    }
    return _rows(columns, _USUAL_LINK)


def _crossed(topology: Topology) -> list[list[str]]:
    """The shared media of every link, by name."""
    names = [""] * topology.links + list(topology.shared_names)
    crossed, bounds = (
        [names[medium] for medium in topology.link_media.tolist()],
        topology.link_indptr.tolist(),
    )
    return [crossed[first + 1 : end] for first, end in pairwise(bounds)]


def _rows(columns: Mapping[str, Iterable[object]], usual: Content) -> list[Content]:
    return [
        {
            key: value
            for key, value in zip(columns, row, strict=True)
            if key not in usual or usual[key] != value
        }
        for row in zip(*columns.values(), strict=True)
    ]


def _paired(links: list[Content]) -> list[Content]:
    """The links with each two neighbours that are one another's way back, and else alike, as
    one."""
    rows: list[Content] = []
    for link in links:
        if rows and rows[-1] == link | {"from": link["to"], "to": link["from"]}:
            rows[-1] = rows[-1] | {"both": True}
        else:
            rows.append(link)
    return rows
