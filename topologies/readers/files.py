"""A topology from a file of any known kind, which the content tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from topologies.errors import InputError
from topologies.readers import nccl_xml, nvidia_smi
from topologies.readers.contents import contents, decoded
from topologies.readers.file_checks import LIMIT, check_connected
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
    from topologies.readers import graph_files

    start = text.lstrip()[:4096]
    if suffix == ".graphml" or "<graphml" in start:
        return graph_files.read_graphml
    if suffix == ".xml" or start.startswith("<") or nccl_xml.looks_like(text):
        return nccl_xml.read_nccl_xml
    if suffix == ".json" or start.startswith("{"):
        return graph_files.read_json
    if suffix in (".yaml", ".yml"):
        return graph_files.read_yaml
    if nvidia_smi.looks_like(text):
        return nvidia_smi.read_matrix
    return graph_files.read_yaml
