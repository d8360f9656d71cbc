"""What a message costs on a link, and the usual figures of links of each kind.

`link.csv` has β and α per direction, with their source. Bandwidths are those with which NCCL and
RCCL calculate. They are below the rate of the wire, since collectives do not reach that rate.
Latencies divide NCCL's time of one LL step (0.6 us over NVLink, 1.0 us over PCIe, 2.7 us over the
network) among its links. A step has one NVLink, or two through an NVSwitch; two links through a
PCIe switch; or four links of PCIe and two of network.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from topologies.errors import InputError

NETWORKS = ("ib", "roce", "slingshot", "efa", "ethernet")
"""What a topology calls links between nodes."""


@dataclass(frozen=True)
class Link:
    """One direction of a link: n bytes occupy it for gap + n / bandwidth seconds and arrive
    latency seconds later."""

    bandwidth: float
    """β in bytes a second."""
    latency: float = 0.0
    """α in seconds."""
    gap: float = 0.0
    """g in seconds a message."""


class LinkKind(NamedTuple):
    """A kind of link with its figures."""

    kind: str
    """What a topology calls such links."""
    link: Link
    source: str
    """Where the figures come from."""


_TABLE = Path(__file__).with_suffix(".csv").read_text(encoding="utf-8")
LINKS = {
    row["name"]: LinkKind(
        row["kind"], Link(float(row["bandwidth"]), float(row["latency"])), row["source"]
    )
    for row in csv.DictReader(_TABLE.splitlines())
}
"""The kinds by name, as machines, files and `--topology` options take them."""


def link_kind(name: str) -> LinkKind:
    """The figures of a kind. Raises InputError with the names if there is no such kind."""
    if name not in LINKS:
        raise InputError(f"{name!r} is no kind of link: there are {', '.join(LINKS)}")
    return LINKS[name]
