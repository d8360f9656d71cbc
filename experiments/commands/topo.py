"""`simctl topo`: which machines there are, what one of them is, and machines from files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isinf
from pathlib import Path
from typing import cast

from experiments import output
from experiments.commands.answer import Answer
from experiments.machine_facts import SIZE, Facts, LinkGroup, facts, link_groups
from experiments.output import Record, Value
from experiments.text_lines import WIDEST
from topologies.catalogue import HELP, Blueprint, option_names
from topologies.clusters import cluster
from topologies.errors import InputError
from topologies.machines import MACHINES, NodeKind
from topologies.shapes import SHAPES
from topologies.topology import Topology
from topologies.units import format_bandwidth, format_bytes, format_seconds

FILES = (".yaml", ".yml", ".json", ".graphml")
SHOWN = 8
"""Rings and shared media that are printed; json has all."""
ENDS = 16
"""Ranks of a ring that are printed at its start; of a longer one the last follows."""
BETWEEN = ("diameter", "bisection")
PATHS = {
    "first": "of equal ones the first",
    "link": "of equal ones the first by link, on a grid dimension by dimension",
    "hash": "of equal ones by a hash of sender, receiver and channel",
    "rail": "NICs by the receiver's place in its node, switches by a hash",
}


def show_list(how: str) -> None:
    """Print the shapes and the machines with their options."""
    shapes = [_shape(name, make) for name, make in SHAPES.items()]
    machines = [_machine(name, machine) for name, machine in MACHINES.items()]
    records = [*shapes, *machines]
    Answer("machines", records, records).show(how, lambda: _list(shapes, machines))


def show(machine: Blueprint, ranks: int | None, picture: Path | None, how: str) -> None:
    """Print what a machine is made of, and draw it."""
    output.check_writable(picture, output.PICTURES)
    topology = machine.whole() if ranks is None else machine.build(ranks)
    if picture:
        from experiments.pictures.figure_file import write_figure
        from experiments.pictures.machines.machine_picture import machine_drawing

        write_figure(picture, machine_drawing(topology))
    machine_facts = facts(topology)
    record = asdict(machine_facts)
    Answer("machine", record, [*_rows(record)]).show(how, lambda: _text(machine_facts))


def import_file(blueprint: Blueprint, out: Path) -> None:
    """Read a machine from a file of any kind that is known, or build one by name, and write it as
    one of ours."""
    output.check_writable(out, FILES)
    if blueprint.path and out.exists() and out.samefile(blueprint.path):
        raise InputError(f"--out {str(out)!r} is the file that is read: name another one")
    topology = blueprint.whole()
    output.write(out, _writer(out.suffix.lower())(topology))
    output.note(f"{_read(topology)}; wrote {out}")


def _shape(name: str, make: Callable[..., Topology]) -> Record:
    summary = re.sub(r":func:`[\w.]*?(\w+)`", r"\1", make.__doc__ or "")
    return _row(name, "shape", make, " ".join(summary.split()).partition(". ")[0].rstrip(".") + ".")


def _machine(name: str, machine: NodeKind) -> Record:
    node = machine.node()
    about: dict[str, Value] = {
        "gpus": node.ranks,
        "nics": int(node.device_kinds.are("nic").sum()),
        "inside": _node_links(node),
        "network": machine.network,
        "port": machine.port,
    }
    return {**_row(name, "machine", cluster, machine.summary), **about}


def _row(name: str, kind: str, make: Callable[..., Topology], summary: str) -> dict[str, Value]:
    options = " ".join(option_names(make))
    about = dict.fromkeys(("gpus", "nics", "inside", "network", "port"))
    return {"name": name, "kind": kind, **about, "options": options, "summary": summary}


def _node_links(node: Topology) -> str:
    """The kinds of links in a node with their bandwidths, fastest first.

    An example is "nvlink4 450 GB/s, pcie5 64 GB/s and 32 GB/s".
    """
    speeds: dict[str, dict[str, None]] = {}
    for group in link_groups(node)[0]:
        speeds.setdefault(group.kind, {})[format_bandwidth(group.bandwidth_Bps)] = None
    return ", ".join(f"{kind} {' and '.join(values)}" for kind, values in speeds.items())


def _list(shapes: list[Record], machines: list[Record]) -> str:
    shape = ("name", "options", "summary")
    machine = ("name", "gpus", "nics", "inside", "network", "port", "summary")
    blocks = {
        "shapes, of as many ranks as are asked for": _columns(shape, shapes),
        "machines: what a node has, and how nodes are joined": _columns(machine, machines),
        "options, as NAME:option=value,...": _options(shapes, machines),
    }
    return "\n\n".join(_block(title, rows) for title, rows in blocks.items())


def _columns(fields: Sequence[str], rows: list[Record]) -> list[list[str]]:
    return [list(fields), *([str(row[field]) for field in fields] for row in rows)]


def _options(shapes: list[Record], machines: list[Record]) -> list[list[str]]:
    """Every option, who takes it and what it says."""
    takers: dict[str, list[str]] = {}
    for row in (*machines, *shapes):
        for option in str(row["options"]).split():
            takers.setdefault(option, []).append(
                "machines" if row["kind"] == "machine" else str(row["name"])
            )
    every = ", ".join(str(row["name"]) for row in shapes)
    takers_text = {
        option: ", ".join(dict.fromkeys(names)).replace(every, "shapes")
        for option, names in takers.items()
    }
    return [
        ["option", "of", "what"],
        *([option, takers_text[option], HELP[option]] for option in takers_text),
    ]


def _block(title: str, rows: Sequence[Sequence[str]]) -> str:
    lines = output.align(rows, WIDEST - 2).splitlines()
    return "\n".join([title, *(f"  {line}" for line in lines)])


def _text(summary: Facts) -> str:
    nodes = f" on {summary.nodes} nodes" if summary.nodes > 1 else ""
    blocks = {
        "devices": [
            [kind, str(n), _in_network(summary, kind)] for kind, n in summary.devices.items()
        ],
        "links (one that is full-duplex counts once)": _links(summary.links),
        "shared media": _media(summary),
        "between ranks": _between(summary),
        "rings": _rings(summary),
        f"no algorithm does {format_bytes(SIZE)} faster than": _bounds(summary),
        "notes": [[note] for note in summary.notes],
    }
    printed = [_block(title, rows) for title, rows in blocks.items() if rows]
    return "\n\n".join(
        [f"{summary.name}: {output.counted(summary.ranks, 'rank')}{nodes}", *printed]
    )


def _in_network(summary: Facts, kind: str) -> str:
    number = summary.in_network.get(kind, 0)
    subject = "" if number == summary.devices[kind] else f"{number} of them "
    return f"{subject}reduce and multicast" if number else ""


def _links(groups: list[LinkGroup]) -> list[list[str]]:
    heading = ["kind", "number", "bandwidth", "latency", "gap", ""]
    return [heading, *map(_link, groups)] if groups else []


def _link(group: LinkGroup) -> list[str]:
    remarks = [*(["one way"] * (not group.duplex)), *(["figures assumed"] * group.assumed)]
    figures = [
        _bandwidth(group.bandwidth_Bps),
        format_seconds(group.latency_s),
        format_seconds(group.gap_s),
    ]
    return [group.kind, str(group.number), *figures, ", ".join(remarks)]


def _bandwidth(bandwidth: float) -> str:
    return "unlimited" if isinf(bandwidth) else format_bandwidth(bandwidth)


def _media(summary: Facts) -> list[list[str]]:
    rows = [
        [m.name, _bandwidth(m.bandwidth_Bps), f"shared by {m.links} links"]
        for m in summary.media[:SHOWN]
    ]
    return [*rows, *_more(summary.media, "media", 3)]


def _more(rows: Sequence[object], noun: str, columns: int) -> list[list[str]]:
    """What is not printed of a long list."""
    return (
        [[f"and {len(rows) - SHOWN} more {noun}"] + [""] * (columns - 1)]
        if len(rows) > SHOWN
        else []
    )


def _between(summary: Facts) -> list[list[str]]:
    rows = {"routes": PATHS[summary.paths]} | {
        k: why for k, why in summary.skipped.items() if k in BETWEEN
    }
    if summary.diameter_hops is not None and summary.diameter_s is not None:
        rows["diameter"] = (
            f"{output.counted(summary.diameter_hops, 'link')}, {format_seconds(summary.diameter_s)}"
        )
    if summary.bisection_Bps is not None:
        how = "" if summary.bisection_exact else ", or less: not every half was looked at"
        rows["bisection"] = f"{_bandwidth(summary.bisection_Bps)}{how}"
    return [[f"{what:<9}  {value}"] for what, value in rows.items()]


def _rings(summary: Facts) -> list[list[str]]:
    if summary.rings_Bps is None:
        return [[summary.skipped["rings"]]]
    number = len(summary.rings)
    rows = [[f"{output.counted(number, 'channel')}, {_bandwidth(summary.rings_Bps)} together"]]
    rows += [[f"ring {k}: {_order(order)}"] for k, order in enumerate(summary.rings[:SHOWN])]
    return [*rows, *_more(summary.rings, "rings", 1)]


def _order(ranks: list[int]) -> str:
    words = ranks if len(ranks) <= ENDS + 2 else [*ranks[:ENDS], "...", ranks[-1]]
    return " ".join(map(str, words))


def _bounds(summary: Facts) -> list[list[str]]:
    if "bounds" in summary.skipped:
        return [[summary.skipped["bounds"]]]
    return [[best.collective, format_seconds(best.time_s), best.bound] for best in summary.bounds]


def _rows(record: Mapping[str, object]) -> Iterator[Record]:
    """A fact a row: of lists the number of the item, of items the field."""
    for part, value in record.items():
        items = (
            value
            if isinstance(value, dict)
            else dict(enumerate(value))
            if isinstance(value, list)
            else {"": value}
        )
        for item, fields in items.items():
            for field, fact in (fields if isinstance(fields, dict) else {"": fields}).items():
                text = " ".join(map(str, fact)) if isinstance(fact, list) else cast(Value, fact)
                yield {"part": part, "item": str(item), "field": field, "value": text}


def _writer(suffix: str) -> Callable[[Topology], str]:
    from topologies.readers import graph_files

    if suffix == ".json":
        return graph_files.to_json
    return graph_files.to_graphml if suffix == ".graphml" else graph_files.to_yaml


def _read(topology: Topology) -> str:
    """What was read, in a line."""
    groups = link_groups(topology)[0]
    links, assumed = (
        sum(group.number for group in groups),
        sum(group.number for group in groups if group.assumed),
    )
    figures = (
        f"the figures of {assumed} of them assumed" if assumed else "all with figures of their own"
    )
    counts = (
        output.counted(topology.ranks, "rank"),
        output.counted(len(topology.device_names), "device"),
        output.counted(links, "link"),
    )
    return f"read {', '.join(counts)}, {figures}"
