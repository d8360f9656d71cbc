"""Small tables as HTML, for the `_repr_html_` of objects in notebooks, and a machine as such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from topologies.units import format_bandwidth, format_seconds

if TYPE_CHECKING:
    from topologies.topology import Floats, Topology

MOST_ROWS = 40
"""The rows of a table at most."""


def text(value: object) -> str:
    """A value as text of HTML, whatever characters it holds.

    >>> text("<b>")
    '&lt;b&gt;'
    """
    return escape(str(value).replace("\0", "\N{REPLACEMENT CHARACTER}"))


def table(header: Sequence[str], rows: Iterable[Sequence[object]], most: int = MOST_ROWS) -> str:
    """A table with its first `most` rows, and how many follow."""
    every = list(rows)
    lines = [_row("th", header), *(_row("td", row) for row in every[:most])]
    more = f"<p>and {len(every) - most} more rows</p>" if len(every) > most else ""
    return f"<table>{''.join(lines)}</table>{more}"


def facts(title: str, values: Iterable[tuple[str, object]]) -> str:
    """A title, and below it a table of names and values."""
    lines = (f"<tr><th>{text(name)}</th>{_cell('td', value)}</tr>" for name, value in values)
    return f"<p><strong>{text(title)}</strong></p><table>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(_cell(tag, cell) for cell in cells)}</tr>"


def _cell(tag: str, value: object) -> str:
    return f"<{tag}>{text(value)}</{tag}>"


def topology_html(topology: Topology) -> str:
    """Its devices, and its links by kind."""
    kinds = Counter(topology.device_kinds)
    nodes = len(np.unique(topology.node[topology.node >= 0]))
    devices = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    values = [("ranks", topology.ranks), ("nodes", nodes or "none"), ("devices", devices)]
    values += [("links", f"{topology.links}, each in one direction")] * (topology.links > 0)
    links = (_links(topology, kind) for kind in dict.fromkeys(topology.link_kinds))
    header = ("links of kind", "number", "bandwidth β", "latency α")
    return facts(topology.name, values) + table(header, links)


def _links(topology: Topology, kind: str) -> tuple[str, int, str, str]:
    chosen = topology.link_kinds.are(kind)
    ends = _ends(topology.bandwidth[chosen]), _ends(topology.latency[chosen])
    rates, delays = map(format_bandwidth, ends[0]), map(format_seconds, ends[1])
    return kind, int(chosen.sum()), " to ".join(rates), " to ".join(delays)


def _ends(values: Floats) -> list[float]:
    return sorted({float(values.min()), float(values.max())})
