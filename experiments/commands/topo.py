"""`simctl topo`: which machines there are, what one of them is, and machines from files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from inspect import signature
from math import isinf
from pathlib import Path
from typing import cast

from experiments import output
from experiments.commands.sweep import FIGURES, parse_ranks
from experiments.output import Record, Value
from experiments.topology_facts import BestTime, Facts, LinkGroup, facts, link_groups
from topologies.catalogue import HELP, find
from topologies.clusters import cluster
from topologies.errors import InputError
from topologies.machines import MACHINES, Machine
from topologies.shapes import SHAPES
from topologies.topology import Topology
from topologies.units import format_bandwidth, format_bytes, format_seconds

FILES = (".yaml", ".yml", ".json", ".graphml")
SHOWN = 8
"""Rings and shared media that are printed; json has all."""
ENDS = 12
"""Ranks of a ring that are printed at its start; of a longer one the last follows."""


def show_list(how: str) -> None:
    """Print the shapes and the machines with their options."""
    shapes = [_shape(name, make) for name, make in SHAPES.items()]
    machines = [_machine(name, machine) for name, machine in MACHINES.items()]
    output.say(_list(shapes, machines) if how == "table" else output.render([*shapes, *machines], {}, how))


def show(text: str, p: str | None, picture: Path | None, how: str) -> None:
    """Print what NAME or FILE is made of, and draw it."""
    output.check_writable(picture, FIGURES)
    topology = find(text).build(_one(p)) if p else find(text).whole()
    if picture:
        from experiments.topology_figure import topology_figure

        output.write(picture, topology_figure(topology, picture.suffix[1:].lower()))
    found = facts(topology)
    output.say(_text(found) if how == "table" else _record(found, how))


def import_file(file: Path, out: Path) -> None:
    """Read a machine from a file of any kind that is known and write it as one of ours, or GraphML."""
    from topologies.readers.files import read

    output.check_writable(out, FILES)
    if out.exists() and file.exists() and out.samefile(file):
        raise InputError(f"--out {str(out)!r} is the file that is read: name another one")
    topology = read(file)
    output.write(out, _writer(out.suffix.lower())(topology))
    output.note(f"{_read(topology)}; wrote {out}")


def _one(p: str) -> int:
    ranks = parse_ranks(p)
    if len(ranks) != 1:
        raise InputError(f"--p {p}: one number of ranks here")
    return ranks[0]


def _shape(name: str, make: Callable[..., Topology]) -> Record:
    return _row(name, "shape", make, (make.__doc__ or "").partition("\n")[0])


def _machine(name: str, machine: Machine) -> Record:
    node = machine.node()
    about: dict[str, Value] = {
        "gpus": node.ranks,
        "nics": int(node.device_kinds.are("nic").sum()),
        "inside": _inside(node),
        "network": machine.network,
        "port": machine.port,
    }
    return {**_row(name, "machine", cluster, machine.summary), **about}


def _row(name: str, kind: str, make: Callable[..., Topology], summary: str) -> dict[str, Value]:
    options = " ".join(option for option in signature(make).parameters if option in HELP)
    about = dict.fromkeys(("gpus", "nics", "inside", "network", "port"))
    return {"name": name, "kind": kind, **about, "options": options, "summary": summary}


def _inside(node: Topology) -> str:
    """The kinds of links in a node with the bandwidth of one, fastest first."""
    speeds: dict[str, list[str]] = {}
    for group in link_groups(node)[0]:
        known = speeds.setdefault(group.kind, [])
        known += [speed for speed in [format_bandwidth(group.bandwidth_Bps)] if speed not in known]
    return ", ".join(f"{kind} {' and '.join(values)}" for kind, values in speeds.items())


def _list(shapes: list[Record], machines: list[Record]) -> str:
    plain = ("name", "options", "summary")
    known = ("name", "gpus", "nics", "inside", "network", "port", "summary")
    options = {option: HELP[option] for row in (*shapes, *machines) for option in str(row["options"]).split()}
    blocks = [
        ("shapes: as many ranks as are asked for", _columns(plain, shapes)),
        ("machines: what a node has, and how nodes are joined", _columns(known, machines)),
        ("options: NAME:option=value,...", [[f"  {option}", text] for option, text in options.items()]),
        ("options of every machine", [[f"  {machines[0]['options']}"]]),
    ]
    return "\n\n".join(f"{title}\n{output.align(rows)}" for title, rows in blocks)


def _columns(fields: Iterable[str], rows: list[Record]) -> list[list[str]]:
    fields = list(fields)
    return [_indented(fields), *(_indented([str(row[field]) for field in fields]) for row in rows)]


def _indented(cells: list[str]) -> list[str]:
    return [f"  {cells[0]}", *cells[1:]]
