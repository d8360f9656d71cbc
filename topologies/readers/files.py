"""Machines in files of any known kind, which the content tells, and as files: our own format as
YAML or JSON, to the bit, and GraphML.

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

from collections.abc import Callable
from pathlib import Path

from topologies.errors import InputError
from topologies.readers import graphml, nccl_xml, nvidia_smi
from topologies.readers.contents import LIMIT, check_text, contents, decoded
from topologies.readers.plain_files import dump_json, dump_yaml, load_json, load_yaml, place_in
from topologies.readers.topology_document import describe, read_document
from topologies.topology import Topology


def read(path: Path) -> Topology:
    """The machine that `path` describes: `nvidia-smi topo -m`, NCCL's or RCCL's XML, GraphML, or
    our YAML or JSON.

    Raises InputError of one line, with the place, for other files.
    """
    try:
        exists = path.exists() and not path.is_dir()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {str(path)[:200]!r}: {error}") from None
    if not exists:
        raise InputError(
            f"{str(path)[:200]!r} is no file: name one, or a machine of simctl list machines"
        )
    # A reader refuses a text of more characters.
    text, name = decoded(contents(path, 4 * LIMIT), path.name), path.name
    topology = _reader(text, path.suffix.lower())(text, name)
    check_connected(topology, name)
    return topology


def _reader(text: str, suffix: str) -> Callable[[str, str], Topology]:
    start = text.lstrip()[:4096]
    if suffix == ".graphml" or "<graphml" in start:
        return read_graphml
    if suffix == ".xml" or start.startswith("<") or nccl_xml.looks_like(text):
        return nccl_xml.read_nccl_xml
    if suffix == ".json" or start.startswith("{"):
        return read_json
    if suffix in (".yaml", ".yml"):
        return read_yaml
    if nvidia_smi.looks_like(text):
        return nvidia_smi.read_matrix
    return read_yaml


def check_connected(topology: Topology, name: str) -> None:
    """Raise InputError if two ranks of the machine in the file `name` have no route: it names
    both."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    devices = len(topology.device_names)
    links = topology.source != topology.target
    graph = csr_array((links, (topology.source, topology.target)), shape=(devices, devices))
    component = connected_components(graph, connection="strong")[1][topology.placement]
    if (component == component[:1]).all():
        return
    placement = topology.placement
    rank = int((component != component[0]).argmax())
    reachable = breadth_first_order(graph, placement[0], return_predecessors=False)
    ends = (rank, 0) if placement[rank] in reachable else (0, rank)
    start, end = (f"rank {end} ({topology.device_names[placement[end]]})" for end in ends)
    raise InputError(f"{name}: no route from {start} to {end}: connect them")


def to_yaml(topology: Topology) -> str:
    """A machine as YAML, a line a device, medium or link.

    Raises InputError when no file can hold it: a name is not printable, a figure is out of range,
    it is too large.
    """
    return _sized(dump_yaml(describe(topology)), topology)


def to_json(topology: Topology) -> str:
    """A machine as JSON, a line a device, medium or link. Raises InputError as :func:`to_yaml`
    does."""
    return _sized(dump_json(describe(topology)), topology)


def to_graphml(topology: Topology) -> str:
    """A machine as GraphML. Raises InputError as :func:`to_yaml` does, and when links share
    media."""
    return _sized(graphml.dump(topology), topology)


def read_yaml(text: str, name: str) -> Topology:
    """The machine in the text of the YAML file `name`.

    Raises InputError, naming file, line and key of the first mistake.
    """
    text = check_text(text, name)
    return read_document(load_yaml(text, name), place_in(text, name))


def read_json(text: str, name: str) -> Topology:
    """The machine in the text of the JSON file `name`. Raises InputError as :func:`read_yaml`
    does."""
    text = check_text(text, name)
    return read_document(load_json(text, name), place_in(text, name))


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
