"""What the makers of the measured machines say of them: `experiments/profiles/population`.

β are those with which NCCL and RCCL calculate, as in :mod:`topologies.link`.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from math import log, log1p
from pathlib import Path
from typing import NamedTuple

from experiments.calibration.effects.effect import Parameter
from experiments.calibration.effects.link_effects import FED, reach
from experiments.calibration.effects.software_effects import OWN
from experiments.calibration.library import PLUGIN, TCP, VERBS, Library
from experiments.calibration.standing import POPULATION
from experiments.measurements import Curve
from experiments.shipped_tables import rows_of
from simulator.cost_models import nccl
from topologies.catalogue import RACK
from topologies.errors import InputError

FILE = "machines.csv"
GBPS = 1e9
NVLS = "1/β of NVLS"
"""How the name of the factor on 1/β in NVLS ends. NCCL's own model has one for each generation."""
STORED = ("LL", "LL128")
"""Protocols that the GPU's own stores limit, in as many channels as the links feed."""


TRANSPORT_OF = {
    "none": "",
    "InfiniBand": VERBS,
    "ib": VERBS,
    "RoCE": VERBS,
    "roce": VERBS,
    "TCP": TCP,
    "ethernet": TCP,
    "efa": "EFA",
}
"""The transport by what connects the nodes, or by the kind of link. The others have one each."""
KERNELS = 10e-6
"""How many seconds longer than by verbs a message takes through the kernels of both nodes: about
10 us between applications over 10 Gbit/s Ethernet (Larsen, Sarangam and Huggahalli, Architectural
Breakdown of End-to-End Latency in a TCP/IP Network, SBAC-PAD 2007)."""


class Specification(NamedTuple):
    """What is known of a machine before anybody measures it."""

    machine: str
    """The machine. Set-ups of one machine have the same name."""
    runs: str
    device: str
    """The model of its GPUs, or CPU."""
    generation: str
    """The generation of its GPUs; empty for CPUs."""
    per_node: int
    """The ranks of a full node."""
    node: float | None
    """β of a rank inside its node in bytes/s, a direction. None: nobody specifies it."""
    nics: int
    nic: float | None
    """β of a NIC in bytes/s, a direction. None: jobs are on one node."""
    interconnect: str
    source: str
    memory: float | None = None
    """β of the memory of a GPU in bytes/s. None: nobody specifies it."""
    why_not: str = ""
    """Why its runs are no example of such machines; empty if they are one."""

    def bandwidth(self, where: str, width: float) -> float | None:
        """β in bytes/s inside a "node", or in the "network": of all NICs that `width` ranks of a
        node use. None if nobody specifies it."""
        if where == "node" or self.nic is None:
            return self.node if where == "node" else None
        used = min(max(width * self.nics / self.per_node, 1.0), float(self.nics))
        return used * self.nic

    def placed(self, curve: Curve) -> Curve:
        """The curve with the trays of a rack as one node, if the machine has racks."""
        ranks = curve.ranks or 0
        racks = -(-ranks // self.per_node)
        return replace(curve, nodes=racks) if self.per_node == RACK and ranks else curve

    @property
    def kin(self) -> str:
        """Machines that are so much alike that one says how fast the other is: those with one node
        and GPUs of one generation."""
        return self.machine if self.nic is not None else f"{self.generation} on one node"

    @property
    def sharing(self) -> float:
        """The power of the ranks a node by which 1/β between nodes grows: -1 with a NIC for each
        rank, 0 with one NIC."""
        return -log(self.nics) / log(self.per_node) if self.nics > 1 < self.per_node else 0.0

    def offset(self, parameter: Parameter, width: float) -> float | None:
        """The part of a parameter, as the fit counts it, that the specification gives. None if it
        does not.

        `width` is the number of ranks a node of jobs over several nodes; 0 without such jobs.
        """
        if not parameter.specified:
            return 0.0
        if parameter.name == OWN.name:
            return None if self.memory is None else -log(self.memory)
        if parameter.name.endswith(NVLS):
            share = nccl.NVLS_EFFICIENCY.get(self.generation)
            return None if share is None else -log(share)
        if parameter.unit == "power":
            return self.sharing
        protocol, where = parameter.name.partition(" ")[0], reach(parameter.kind)
        bandwidth = self.bandwidth(where, width)
        if protocol in STORED:
            bandwidth = self._on_one_node(protocol) if where == "node" else self._fed(bandwidth)
        return None if bandwidth is None else -log(bandwidth)

    def _on_one_node(self, protocol: str) -> float | None:
        """β of LL or LL128 in jobs on one node, by NCCL's own model. None if it has no such
        GPUs."""
        if self.node is None or self.generation not in nccl.GENERATIONS:
            return None
        return nccl.most_on_one_node(self.generation, protocol, self.node)

    def _fed(self, between: float | None) -> float | None:
        """β that says how many channels a job has over several nodes, `between` which ranks have
        so much. None if nobody specifies it."""
        return None if between is None else max(FED, min(between, self.node or between))


def transport(library: Library, interconnect: str) -> str:
    """How a library sends over what connects the nodes; empty if they have no network."""
    known = TRANSPORT_OF.get(interconnect, interconnect)
    return PLUGIN if library.plugins and known not in ("", VERBS) else known


def kernels(library: Library, interconnect: str, parameter: Parameter) -> float:
    """What TCP adds to a parameter, as the fit counts it, if it is an α between nodes and the
    library's own are of another transport. A message crosses two links."""
    if TRANSPORT_OF.get(interconnect) != TCP or library.transport == TCP:
        return 0.0
    latency = parameter.name.endswith(" α") and reach(parameter.kind) == "network"
    return log1p(KERNELS / 2 / parameter.start) if latency else 0.0


@cache
def specifications() -> tuple[Specification, ...]:
    """Those of all measured machines."""
    return tuple(map(_row, rows_of(POPULATION / FILE)))


def _row(row: dict[str, str]) -> Specification:
    def rate(column: str) -> float | None:
        return float(row[column]) * GBPS if row[column] else None

    return Specification(
        row["machine"],
        row["runs"],
        row["device"],
        row["generation"],
        int(row["per_node"]),
        rate("node_GBps"),
        int(row["nics"] or 0),
        rate("nic_GBps"),
        row["interconnect"],
        row["source"],
        rate("memory_GBps"),
        row["why_not"],
    )


def specification_of(curve: Curve) -> Specification:
    """That of the machine of a curve, by the name of its file. Raises InputError if there is
    none."""
    name = Path(curve.source).stem
    for row in specifications():
        if fnmatchcase(name, row.runs):
            return row
    raise InputError(f"{name}: no machine of {FILE} has such runs: add a row")
