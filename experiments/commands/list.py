"""`simctl list`: the algorithms, machines, models and strategies that simctl knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from experiments.answer_blocks import Facts, Table, render, table, to_text
from experiments.options.options import CollectiveName, FormatOptions, argument
from experiments.output import Record, Value
from experiments.pages.reports.result import Result
from experiments.templates import Columns, headed
from topologies.units import format_bandwidth

if TYPE_CHECKING:
    from experiments.models.model_catalogue import Entry
    from topologies.clusters import NodeKind
    from topologies.topology import Topology

Listing = tuple[Sequence[Record], str]
"""The rows of a list, and its text."""
NOTE = """

Times are estimates for one device. A model without times needs the memory of several devices.
--format csv lists the options of each model, and how its times are estimated."""


@dataclass(frozen=True, kw_only=True)
class List(FormatOptions):
    """List algorithms, machines, models or strategies.

    Algorithms have their formulas, assumptions and sources, all others their options.
    """

    EXAMPLES: ClassVar = ("list machines", "list algos --collective all_to_all")

    what: Literal["algos", "machines", "models", "strategies"] = argument(
        "WHAT", "algos, machines, models or strategies.", default=MISSING
    )
    collective: CollectiveName = None

    def run(self) -> int:
        """Print the list."""
        if self.what != "algos":
            self.refuse(("collective",), ": it goes with simctl list algos")
        lists: dict[str, Callable[[], Listing]] = {
            "algos": partial(_algorithms, self.collective),
            "machines": _machines,
            "models": _models,
            "strategies": _strategies,
        }
        records, text = lists[self.what]()
        Result(self.what, records, records).show(self.format, lambda: text)
        return 0


def _algorithms(collective: str | None) -> Listing:
    from simulator.collectives import every_algorithm, of_collective

    chosen = every_algorithm().values() if collective is None else of_collective(collective)
    records = [
        {
            "algorithm": algorithm.name,
            "collective": algorithm.collective.name,
            "summary": algorithm.summary,
            "time": algorithm.cost.latex,
            "model": algorithm.cost.model,
            "assumes": algorithm.cost.assumes,
            "ports": ", ".join(algorithm.cost.ports),
            "source": algorithm.cost.source,
            "options": ", ".join(f"{key}={value}" for key, value in algorithm.options.items()),
        }
        for algorithm in chosen
    ]
    blocks = [
        Facts(
            f"{record['algorithm']}: {record['summary']}",
            [
                [key, value]
                for key, value in record.items()
                if value and key not in ("algorithm", "summary")
            ],
        )
        for record in records
    ]
    return records, to_text("", blocks)


def _strategies() -> Listing:
    from experiments.training.strategy_options import default_text
    from simulator.training import strategies
    from topologies.option_text import options_of

    records: list[Record] = []
    for name, strategy in strategies().items():
        for key, field in options_of(strategy).items():
            default, meaning = default_text(field), field.metadata["help"]
            records.append(
                {"strategy": name, "option": key, "default": default, "meaning": meaning}
            )
    return records, render(records, {key: key for key in records[0]})


def _models() -> Listing:
    """The models that come along, as they are without options."""
    from experiments.models.model_catalogue import MODELS

    records = [_model(name, entry) for name, entry in MODELS.items()]
    heading, *rows = render(records, MODEL_CELLS).splitlines()
    groups: dict[str, list[str]] = {}
    for row, entry in zip(rows, MODELS.values(), strict=True):
        groups.setdefault(_group(entry.model), []).append(row)
    lines = [line for name, group in groups.items() for line in ("", f"{name}:", *group)]
    return records, "\n".join([heading, *lines]) + NOTE


def _model(name: str, entry: Entry) -> Record:
    """A model with its times, or without them if no device holds it."""
    from experiments.models.model_catalogue import fits
    from experiments.models.model_shapes import TransformerShape
    from simulator.training.model import WIDTHS

    model = entry.estimate
    whole = fits(model)
    elements = round(model.parameters / WIDTHS[model.dtype])
    return {
        "model": name,
        "batch": model.batch if whole else None,
        "device": model.device if whole else None,
        "gradients_B": model.gradients,
        "forward_s": model.forward if whole else None,
        "backward_s": model.backward if whole else None,
        "optimizer_s": model.optimizer if whole else None,
        "activations_B": model.activations if whole else None,
        "options": "; ".join(f"{option}: {meaning}" for option, meaning in entry.options.items()),
        "source": model.source if whole else None,
        "parameters": elements,
        "active_parameters": (
            entry.model.active_parameters if isinstance(entry.model, TransformerShape) else elements
        ),
    }


def _group(model: object) -> str:
    from experiments.models.model_shapes import TransformerShape

    if not isinstance(model, TransformerShape) or model.kind == "image":
        return "images"
    return "text, mixture of experts" if model.experts else "text"


def _count(elements: Value) -> str:
    number = float(elements or 0)
    return f"{number / 1e9:.4g} G" if number >= 1e9 else f"{number / 1e6:.4g} M"


MODEL_CELLS: Columns = {
    "model": "model",
    "parameters": lambda record: _count(record["parameters"]),
    "active": lambda record: (
        _count(record["active_parameters"])
        if record["active_parameters"] != record["parameters"]
        else ""
    ),
    **headed("batch", "device", "forward_s", "backward_s", "optimizer_s"),
    "gradients": "{gradients_B:B}",
    "activations": "{activations_B:B}",
}


def _machines() -> Listing:
    from topologies.clusters import MACHINES
    from topologies.shapes import SHAPES

    shapes = [_shape(name, make) for name, make in SHAPES.items()]
    machines = [_machine(name, machine) for name, machine in MACHINES.items()]
    records = [*shapes, *machines]
    shape = ("name", "options", "summary")
    machine = ("name", "gpus", "nics", "inside", "network", "port", "summary")
    blocks = [
        _table("shapes, of as many ranks as are asked for", shape, shapes),
        _table("machines: what a node has, and how nodes are joined", machine, machines),
        _table(
            "options, as NAME:option=value,...",
            ("option", "of", "what"),
            _options(shapes, machines),
        ),
    ]
    return records, to_text("", blocks)


def _table(title: str, columns: Sequence[str], rows: Sequence[Record]) -> Table:
    return table(title, rows, {name: name for name in columns})


def _shape(name: str, make: Callable[..., Topology]) -> Record:
    summary = re.sub(r":func:`[\w.]*?(\w+)`", r"\1", make.__doc__ or "")
    return _row(name, "shape", make, " ".join(summary.split()).partition(". ")[0].rstrip(".") + ".")


def _machine(name: str, machine: NodeKind) -> Record:
    from topologies.clusters import cluster

    node = machine.node()
    about: Record = {
        "gpus": node.ranks,
        "nics": int(node.device_kinds.are("nic").sum()),
        "inside": _node_links(node),
        "network": machine.network,
        "port": machine.port,
    }
    return {**_row(name, "machine", cluster, machine.summary), **about}


def _row(name: str, kind: str, make: Callable[..., Topology], summary: str) -> Record:
    from topologies.catalogue import option_names

    options = " ".join(option_names(make))
    about = dict.fromkeys(("gpus", "nics", "inside", "network", "port"))
    return {"name": name, "kind": kind, **about, "options": options, "summary": summary}


def _node_links(node: Topology) -> str:
    """The kinds of links in a node with their bandwidths, fastest first.

    An example is "nvlink4 450 GB/s, pcie5 64 GB/s and 32 GB/s".
    """
    from experiments.machine_facts import link_groups

    speeds: dict[str, dict[str, None]] = {}
    for group in link_groups(node)[0]:
        speeds.setdefault(group.kind, {})[format_bandwidth(group.bandwidth_Bps)] = None
    return ", ".join(f"{kind} {' and '.join(values)}" for kind, values in speeds.items())


def _options(shapes: list[Record], machines: list[Record]) -> list[Record]:
    """Every option, who takes it and what it says."""
    from topologies.catalogue import HELP

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
        {"option": option, "of": takers_text[option], "what": HELP[option]}
        for option in takers_text
    ]
