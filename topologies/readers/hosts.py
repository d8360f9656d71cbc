"""The parts of hosts that all readers build: PCIe, sockets and NVSwitches, with figures from a
table.

NCCL counts one time for a step over PCIe, whatever the step crosses. So all of its α is at the two
ends of a step, on the links of GPUs and NICs, and none at switches and bridges. That also gives the
right routes, since GPUs forward nothing. The PCIe route between two GPUs has to be longer than an
NVLink between them, and shorter than two routes by way of a third GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from topologies.errors import InputError
from topologies.link import LINKS, Link, LinkKind, link_kind
from topologies.topology_builder import TopologyBuilder

LANES = 16
"""The lanes of a PCIe link of LINKS."""


def kind_named(option: str, choice: str | None, inferred: str) -> str:
    """The kind of link by the user's choice, or else the inferred kind.

    Raises InputError if the choice is of another sort than the inferred kind.
    """
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
    """A PCIe link of `bandwidth` bytes/s, by default that of its kind. It has α only at an `end` of
    a step."""
    builder.connect(
        device,
        into,
        Link(bandwidth or pcie.link.bandwidth, pcie.link.latency if end else 0.0),
        kind=pcie.kind,
        assumed=assumed,
    )


def join_sockets(builder: TopologyBuilder, cpus: Sequence[str], socket: LinkKind) -> None:
    """A link between every two CPUs."""
    for first, second in combinations(cpus, 2):
        builder.connect(first, second, socket.link, kind=socket.kind, assumed=True)


def join_by_nvswitch(
    builder: TopologyBuilder,
    name: str,
    bandwidth: Mapping[str, float],
    nvlink: str,
    *,
    node: int = 0,
) -> None:
    """All NVSwitches as one that does not block. `bandwidth` is that of each GPU to it in bytes/s.
    Each way has half of α."""
    kind = LINKS[nvlink]
    # The NVLinks whose switches reduce and multicast (NVLS).
    builder.device(name, "nvswitch", node=node, in_network=nvlink in ("nvlink4", "nvlink5"))
    for gpu, total in bandwidth.items():
        half = Link(total, kind.link.latency / 2)
        builder.connect(gpu, name, half, kind=kind.kind, assumed=True)


def assumption(noun: str, name: str, reason: str) -> str:
    """A note that says which kind is assumed and why, with the source of its figures."""
    return f"{noun}: {name} assumed, {reason} ({LINKS[name].source})"
