"""What hosts have in common, whoever describes them: PCIe, sockets and NVSwitches, with figures
from a table.

NCCL counts one time for a step over PCIe, whatever the step crosses. So all of its α stands at its
two ends, the links of GPUs and NICs, and none at switches and bridges. That also keeps routes where
they belong: GPUs pass nothing on, so the way over PCIe between two GPUs has to be longer than an
NVLink between them, and shorter than two by way of a third.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from topologies.errors import InputError
from topologies.link import Link
from topologies.link_kinds import LINKS, LinkKind, link_kind
from topologies.topology_builder import TopologyBuilder

LANES = 16
"""The lanes of a PCIe link of LINKS."""
REDUCING = ("nvlink4", "nvlink5")
"""The NVLinks whose switches reduce and multicast (NVLS)."""


def kind_named(option: str, choice: str | None, inferred: str) -> str:
    """The kind of link that is given, or else the inferred one. Raises InputError where the two are
    not alike."""
    if choice is None:
        return inferred
    kind = LINKS[inferred].kind
    if link_kind(choice).kind != kind:
        alike = ", ".join(name for name, link in LINKS.items() if link.kind == kind)
        raise InputError(f"{option} {choice!r} is no link of that sort: there are {alike}")
    return choice


def plug(
    builder: TopologyBuilder,
    device: str,
    into: str,
    pcie: LinkKind,
    bandwidth: float | None = None,
    *,
    end: bool,
    assumed: bool = True,
) -> None:
    """A PCIe link of `bandwidth` bytes/s, by default that of its kind; α only at an `end` of
    steps."""
    builder.connect(
        device,
        into,
        Link(bandwidth or pcie.link.bandwidth, pcie.link.latency if end else 0.0),
        kind=pcie.kind,
        assumed=assumed,
    )


def join_sockets(builder: TopologyBuilder, cpus: Sequence[str], socket: LinkKind) -> None:
    """A link between every two CPUs."""
    for first, other in combinations(cpus, 2):
        builder.connect(first, other, socket.link, kind=socket.kind, assumed=True)


def join_by_nvswitch(
    builder: TopologyBuilder,
    name: str,
    bandwidth: Mapping[str, float],
    nvlink: str,
    *,
    node: int = 0,
) -> None:
    """All NVSwitches as one that does not block, and what each GPU has towards them (bytes/s); half
    of α each way."""
    kind = LINKS[nvlink]
    builder.device(name, "nvswitch", node=node, in_network=nvlink in REDUCING)
    for gpu, total in bandwidth.items():
        half = Link(total, kind.link.latency / 2)
        builder.connect(gpu, name, half, kind=kind.kind, assumed=True)


def assumption(noun: str, name: str, reason: str) -> str:
    """A note: which kind is assumed for what, why, and where its figures come from."""
    return f"{noun}: {name} assumed, {reason} ({LINKS[name].source})"
