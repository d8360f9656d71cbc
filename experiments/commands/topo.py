"""`simctl topo show` and `simctl topo import`: a machine in figures, and machines from files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, replace
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from experiments import output
from experiments.answer_blocks import Block, Facts, Record, Remarks, Table, table, to_text
from experiments.options.completion import complete_machines
from experiments.options.machine_options import TOPOLOGY_HELP
from experiments.options.options import Force, FormatOptions, Plot, argument, option
from experiments.options.values import parse_rank_count
from experiments.output import Value
from experiments.pages.reports.result import Picture, Result
from experiments.templates import Columns
from topologies.units import format_bandwidth, format_bytes, format_seconds

if TYPE_CHECKING:
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

    name: str = argument(
        "NAME|FILE", TOPOLOGY_HELP, default=MISSING, autocompletion=complete_machines
    )
    p: str | None = option("The number of ranks.  [default: all; 8 of a shape]", "--p", "--gpus")
    plot: Plot = None
    force: Force = False

    def run(self) -> int:
        """Print what a machine is made of, and draw it."""
        from experiments.machine_facts import facts
        from topologies.catalogue import find

        machine = replace(find(self.name), force=self.force)
        self.written_files.check()
        topology = machine.build(parse_rank_count(self.p)) if self.p else machine.whole()
        record, pictures = facts(topology), [Picture(topology.name, (topology,))]
        answer = Result("machine", record, [*_rows(record)], pictures=pictures)
        answer.write(self.written_files)
        answer.show(self.format, lambda: _text(record))
        return 0


@dataclass(frozen=True, kw_only=True)
class ImportedMachine:
    """Write a machine of another tool, or one by name, to a file.

    You can change the file and use it as --topology.
    """

    EXAMPLES: ClassVar = ("topo import topo.txt --out machine.yaml",)

    source: str = argument(
        "FILE|NAME",
        "nvidia-smi topo -m, NCCL or RCCL XML, GraphML, YAML, JSON; or NAME.",
        default=MISSING,
        autocompletion=complete_machines,
    )
    out: Path = option(
        "Write the machine to FILE.yaml, .yml, .json or .graphml.", default=MISSING, writable=True
    )
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


def _text(machine: Record) -> str:
    from experiments.machine_facts import SIZE

    skipped, media = machine["skipped"], machine["media"]
    links = [{**link, "remarks": _remarks(link)} for link in machine["links"]]
    shared = [
        [each["name"], _bandwidth(each["bandwidth_Bps"]), f"shared by {each['links']} links"]
        for each in media[:SHOWN]
    ]
    if (more := len(media) - SHOWN) > 0:
        shared.append([f"and {more} more media", "", ""])
    bounds = [
        [each["collective"], format_seconds(each["time_s"]), each["bound"]]
        for each in machine["bounds"]
    ]
    blocks: list[Block] = [
        Facts(
            "devices",
            [[kind, str(n), _in_network(machine, kind)] for kind, n in machine["devices"].items()],
        ),
        table("links (one that is full-duplex counts once)", links, LINKS),
        Facts("shared media", shared),
        Facts("between ranks", _between(machine)),
        Remarks("rings", _rings(machine), first=1 + SHOWN),
        Facts(
            f"no algorithm does {format_bytes(SIZE)} faster than",
            bounds or [[skipped["bounds"]]],
        ),
        Remarks("notes", machine["notes"]),
    ]
    nodes = f" on {machine['nodes']} nodes" if machine["nodes"] > 1 else ""
    title = f"{machine['name']}: {output.counted(machine['ranks'], 'rank')}{nodes}"
    return to_text(title, [each for each in blocks if isinstance(each, Table) or each.lines])


def _in_network(machine: Record, kind: str) -> str:
    number = machine["in_network"].get(kind, 0)
    subject = "" if number == machine["devices"][kind] else f"{number} of them "
    return f"{subject}reduce and multicast" if number else ""


def _remarks(link: Record) -> str:
    return ", ".join(["one way"] * (not link["duplex"]) + ["figures assumed"] * link["assumed"])


def _bandwidth(bandwidth: float) -> str:
    return "unlimited" if isinf(bandwidth) else format_bandwidth(bandwidth)


LINKS: Columns = {
    "kind": "kind",
    "number": "number",
    "bandwidth": lambda link: _bandwidth(link["bandwidth_Bps"]),
    "latency": "latency_s",
    "gap": "gap_s",
    "remarks": "remarks",
}


def _between(machine: Record) -> list[list[str]]:
    skipped = machine["skipped"]
    rows = {"routes": PATHS[machine["paths"]]} | {
        fact: why for fact, why in skipped.items() if fact in BETWEEN
    }
    if machine["diameter_hops"] is not None:
        hops = output.counted(machine["diameter_hops"], "link")
        rows["diameter"] = f"{hops}, {format_seconds(machine['diameter_s'])}"
    if machine["bisection_Bps"] is not None:
        how = "" if machine["bisection_exact"] else ", or less: not every half was looked at"
        rows["bisection"] = f"{_bandwidth(machine['bisection_Bps'])}{how}"
    return [[fact, value] for fact, value in rows.items()]


def _rings(machine: Record) -> list[str]:
    if machine["rings_Bps"] is None:
        return [machine["skipped"]["rings"]]
    channels = output.counted(len(machine["rings"]), "channel")
    lines = [f"{channels}, {_bandwidth(machine['rings_Bps'])} together"]
    for number, order in enumerate(machine["rings"]):
        words = order if len(order) <= ENDS + 2 else [*order[:ENDS], "...", order[-1]]
        lines.append(f"ring {number}: {' '.join(map(str, words))}")
    return lines


def _rows(record: Record) -> Iterator[output.Record]:
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
