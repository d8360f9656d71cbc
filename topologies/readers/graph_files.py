"""Machines in files: our own format as YAML or JSON, to the bit, and GraphML.

A file of ours lists devices, the media that links share, and links. Figures are text with units;
`merges` and `copies` are the bandwidths at which a device merges what it receives (1/γ) and copies;
`bandwidth: inf` never holds anything up; `both: true` stands for a link and its way back. What is
left out is as :mod:`topologies.readers.schema` says.

In GraphML a node has the attributes kind, node, rank, merges, copies and in_network, an edge kind,
bandwidth, latency and gap, as text with units or as numbers in SI; an edge without bandwidth takes
the figures of its kind in :mod:`topologies.link_kinds`. An undirected edge is a link in each
direction. A name or label stands for a node's id, a rank may be several ("0,4"), and an edge's
link_number its place among the links. Other attributes are left alone.
"""

from __future__ import annotations

from topologies.errors import InputError
from topologies.readers.file_checks import LIMIT, check_connected, check_text
from topologies.topology import Topology


def to_yaml(topology: Topology) -> str:
    """A machine as YAML, a line a device, medium or link.

    Raises InputError when no file can hold it: a name is not printable, a figure is out of range,
    it is too large.
    """
    from topologies.readers import yaml_files
    from topologies.readers.description import describe

    return _sized(yaml_files.dump(describe(topology)), topology)


def to_json(topology: Topology) -> str:
    """A machine as JSON, a line a device, medium or link. Raises InputError as :func:`to_yaml`
    does."""
    from topologies.readers import json_files
    from topologies.readers.description import describe

    return _sized(json_files.dump(describe(topology)), topology)


def to_graphml(topology: Topology) -> str:
    """A machine as GraphML. Raises InputError as :func:`to_yaml` does, and when links share
    media."""
    from topologies.readers import graphml

    return _sized(graphml.dump(topology), topology)


def read_yaml(text: str, name: str) -> Topology:
    """The machine in the text of the YAML file `name`.

    Raises InputError, naming file, line and key of the first mistake, and when two ranks have no
    route between them.
    """
    from topologies.readers import yaml_files

    text = check_text(text, name)
    return _read(yaml_files.load(text, name), text, name)


def read_json(text: str, name: str) -> Topology:
    """The machine in the text of the JSON file `name`. Raises InputError as :func:`read_yaml`
    does."""
    from topologies.readers import json_files

    text = check_text(text, name)
    return _read(json_files.load(text, name), text, name)


def read_graphml(text: str, name: str) -> Topology:
    """The machine in the text of the GraphML file `name`.

    Raises InputError, naming file and node or edge of the first mistake, and when two ranks have no
    route between them.
    """
    from topologies.readers import graphml
    from topologies.readers.topology_document import read_document

    content = graphml.load(check_text(text, name), name)
    topology = read_document(content, graphml.place_in(content, name))
    check_connected(topology, name)
    return topology


def _read(content: object, text: str, name: str) -> Topology:
    from topologies.readers.topology_document import read_document
    from topologies.readers.yaml_files import place_in

    topology = read_document(content, place_in(text, name))
    check_connected(topology, name)
    return topology


def _sized(text: str, topology: Topology) -> str:
    if len(text) > LIMIT:
        raise InputError(
            f"{topology.name} with {topology.links} links is a file of more than 16 MiB, which "
            f"none reads"
        )
    return text
