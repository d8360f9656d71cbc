"""`simctl topo show` and `simctl topo import`: a machine in figures, and machines from files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

import typer

from experiments import output
from experiments.commands.answer import Answer, titled
from experiments.options.completion import completer, machine_names, machine_options
from experiments.options.machine_options import TOPOLOGY_HELP
from experiments.options.options import Force, FormatOptions, Plot
from experiments.output import Record, Value
from topologies.units import format_bandwidth, format_bytes, format_seconds

if TYPE_CHECKING:
    from experiments.machine_facts import Facts, LinkGroup
    from topologies.topology import Topology

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


@dataclass(frozen=True, kw_only=True)
class ShownMachine(FormatOptions):
    """Show the links, distances, rings and bounds of a machine."""

    EXAMPLES: ClassVar = ("topo show hgx_h100:nodes=2 --plot hgx.png",)

    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE",
            help=TOPOLOGY_HELP,
            autocompletion=completer(machine_names, machine_options),
        ),
    ]
    p: Annotated[
        str | None,
        typer.Option("--p", "--gpus", help="The number of ranks.  [default: all; 8 of a shape]"),
    ] = None
    plot: Plot = None
    force: Force = False

    def run(self) -> int:
        """Print what a machine is made of, and draw it."""
        from experiments.machine_facts import facts
        from experiments.options.values import parse_rank_count
        from topologies.catalogue import find

        machine = replace(find(self.name), force=self.force)
        output.check_writable(self.plot, output.PICTURES)
        topology = machine.build(parse_rank_count(self.p)) if self.p else machine.whole()
        if self.plot:
            from experiments.pictures.figure_file import write_figure
            from experiments.pictures.machines.machine_picture import machine_drawing

            write_figure(self.plot, machine_drawing(topology))
        machine_facts = facts(topology)
        record = asdict(machine_facts)
        answer = Answer("machine", record, [*_rows(record)])
        answer.show(self.format, lambda: _text(machine_facts))
        return 0


@dataclass(frozen=True, kw_only=True)
class ImportedMachine:
    """Write a machine of another tool, or one by name, to a file.

    You can change the file and use it as --topology.
    """

    EXAMPLES: ClassVar = ("topo import topo.txt --out machine.yaml",)

    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="nvidia-smi topo -m, NCCL or RCCL XML, GraphML, YAML, JSON; or NAME.",
            autocompletion=completer(machine_names, machine_options),
        ),
    ]
    out: Annotated[
        Path,
        typer.Option(
            help="Write the machine to FILE.yaml, .yml, .json or .graphml.", writable=True
        ),
    ]
    force: Force = False

    def run(self) -> int:
        """Read a machine of any kind that is known, and write it as one of ours."""
        from topologies.catalogue import find

        blueprint = replace(find(self.source), force=self.force)
        output.check_writable(self.out, FILES)
        topology = blueprint.whole()
        output.write(self.out, _writer(self.out.suffix.lower())(topology))
        output.note(f"{_read(topology)}; wrote {self.out}")
        return 0


def _text(summary: Facts) -> str:
    from experiments.machine_facts import SIZE

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
    printed = [titled(title, rows) for title, rows in blocks.items() if rows]
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
    from topologies.readers.files import to_graphml, to_json, to_yaml

    if suffix == ".json":
        return to_json
    return to_graphml if suffix == ".graphml" else to_yaml


def _read(topology: Topology) -> str:
    """What was read, in a line."""
    from experiments.machine_facts import link_groups

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
