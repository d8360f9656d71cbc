"""Machines in files: our own format as YAML or JSON, to the bit, and GraphML.

A file of ours lists devices, the media that links share, and links. Figures are text with units;
`merges` and `copies` are the bandwidths at which a device merges what it receives (1/γ) and copies;
`bandwidth: inf` never holds anything up; `both: true` stands for a link and its way back. What is
left out is as :mod:`topologies.readers.topology_document` says.

In GraphML a node has the attributes kind, node, rank, merges, copies and in_network, an edge kind,
bandwidth, latency and gap, as text with units or as numbers in SI; an edge without bandwidth takes
the figures of its kind in :mod:`topologies.link`. An undirected edge is a link in each
direction. A name or label stands for a node's id, a rank may be several ("0,4"), and an edge's
link_number its place among the links. Other attributes are left alone.
"""

from __future__ import annotations

from topologies.errors import InputError
from topologies.readers import graphml, json_files, yaml_files
from topologies.readers.description import describe
from topologies.readers.file_checks import LIMIT, check_text
from topologies.readers.topology_document import read_document
from topologies.topology import Topology


def to_yaml(topology: Topology) -> str:
    """A machine as YAML, a line a device, medium or link.

    Raises InputError when no file can hold it: a name is not printable, a figure is out of range,
    it is too large.
    """
    return _sized(yaml_files.dump(describe(topology)), topology)


def to_json(topology: Topology) -> str:
    """A machine as JSON, a line a device, medium or link. Raises InputError as :func:`to_yaml`
    does."""
    return _sized(json_files.dump(describe(topology)), topology)


def to_graphml(topology: Topology) -> str:
    """A machine as GraphML. Raises InputError as :func:`to_yaml` does, and when links share
    media."""
    return _sized(graphml.dump(topology), topology)


def read_yaml(text: str, name: str) -> Topology:
    """The machine in the text of the YAML file `name`.

    Raises InputError, naming file, line and key of the first mistake.
    """
    text = check_text(text, name)
    return read_document(yaml_files.load(text, name), yaml_files.place_in(text, name))


def read_json(text: str, name: str) -> Topology:
    """The machine in the text of the JSON file `name`. Raises InputError as :func:`read_yaml`
    does."""
    text = check_text(text, name)
    return read_document(json_files.load(text, name), yaml_files.place_in(text, name))


def read_graphml(text: str, name: str) -> Topology:
    """The machine in the text of the GraphML file `name`. Raises InputError, naming file and node
    or edge of the first mistake."""
    content = graphml.load(check_text(text, name), name)
    return read_document(content, graphml.place_in(content, name))


def _sized(text: str, topology: Topology) -> str:
    if len(text) > LIMIT:
        raise InputError(
            f"{topology.name} with {topology.links} links is a file of more than 16 MiB, which "
            f"none reads"
        )
    return text
