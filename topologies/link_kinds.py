"""Usual β and α of a link of each kind, per direction, with their source.

Bandwidths are those with which NCCL and RCCL calculate. They are below the rate of the wire, since
collectives do not reach that rate. Latencies divide NCCL's time of one LL step (0.6 us over NVLink,
1.0 us over PCIe, 2.7 us over the network) among its links. A step has one NVLink, or two through an
NVSwitch; two links through a PCIe switch; or four links of PCIe and two of network.
"""

from __future__ import annotations

from typing import NamedTuple

from topologies.errors import InputError
from topologies.link import Link


class LinkKind(NamedTuple):
    """A kind of link with its figures."""

    kind: str
    """What a topology calls such links."""
    link: Link
    source: str
    """Where the figures come from."""


_NCCL = "NCCL src/graph/topo.h"
_RCCL = "RCCL src/graph/topo.h"
_STEP = "α: NCCL src/graph/tuning.cc, LL step"

LINKS: dict[str, LinkKind] = {
    "nvlink1": LinkKind(
        "nvlink",
        Link(18e9, 0.6e-6),
        f"{_NCCL}: 18 GB/s a link of sm60 (20 on the wire); {_STEP} 0.6 us",
    ),
    "nvlink2": LinkKind(
        "nvlink",
        Link(20e9, 0.6e-6),
        f"{_NCCL}: 20 GB/s a link of sm70 (25 on the wire); {_STEP} 0.6 us",
    ),
    "nvlink3": LinkKind(
        "nvlink",
        Link(20e9, 0.6e-6),
        f"{_NCCL}: 20 GB/s a link of sm80 (25 on the wire); {_STEP} 0.6 us",
    ),
    "nvlink4": LinkKind(
        "nvlink",
        Link(20.6e9, 0.6e-6),
        f"{_NCCL}: 20.6 GB/s a link of sm90 (26.6 on the wire); {_STEP} 0.6 us",
    ),
    "nvlink5": LinkKind(
        "nvlink",
        Link(40.1e9, 0.6e-6),
        f"{_NCCL}: 40.1 GB/s a link of sm100 (50 on the wire); {_STEP} 0.6 us",
    ),
    "xgmi1": LinkKind(
        "xgmi", Link(24e9, 0.6e-6), f"{_RCCL}: 24 GB/s a link of gfx906, gfx908; α as NVLink"
    ),
    "xgmi2": LinkKind(
        "xgmi", Link(36e9, 0.6e-6), f"{_RCCL}: 36 GB/s a link of gfx90a; α as NVLink"
    ),
    "xgmi3": LinkKind(
        "xgmi",
        Link(48e9, 0.6e-6),
        f"{_RCCL}: 48 GB/s a link of gfx942 (64 on the wire); α as NVLink",
    ),
    "pcie3": LinkKind(
        "pcie",
        Link(12e9, 0.5e-6),
        f"{_NCCL}: 12 GB/s for x16 (15.75 on the wire); {_STEP} 1.0 us over 2 links",
    ),
    "pcie4": LinkKind(
        "pcie",
        Link(24e9, 0.5e-6),
        f"{_NCCL}: 24 GB/s for x16 (31.5 on the wire); {_STEP} 1.0 us over 2 links",
    ),
    "pcie5": LinkKind(
        "pcie",
        Link(48e9, 0.5e-6),
        f"{_NCCL}: 48 GB/s for x16 (63 on the wire); {_STEP} 1.0 us over 2 links",
    ),
    "qpi": LinkKind(
        "upi", Link(6e9, 0.1e-6), f"{_NCCL}: 6 GB/s between Broadwell sockets; α assumed"
    ),
    "upi2": LinkKind(
        "upi", Link(10e9, 0.1e-6), f"{_NCCL}: 10 GB/s between Skylake sockets; α assumed"
    ),
    "upi3": LinkKind(
        "upi", Link(22e9, 0.1e-6), f"{_NCCL}: 22 GB/s between Sapphire Rapids sockets; α assumed"
    ),
    "upi4": LinkKind(
        "upi", Link(40e9, 0.1e-6), f"{_NCCL}: 40 GB/s between Emerald Rapids sockets; α assumed"
    ),
    "fabric": LinkKind(
        "upi", Link(16e9, 0.1e-6), f"{_NCCL}: 16 GB/s between EPYC sockets; α assumed"
    ),
    "power": LinkKind(
        "upi", Link(32e9, 0.1e-6), f"{_NCCL}: 32 GB/s between POWER9 sockets; α assumed"
    ),
    "arm": LinkKind("upi", Link(6e9, 0.1e-6), f"{_NCCL}: 6 GB/s between Arm sockets; α assumed"),
    "c2c": LinkKind(
        "c2c",
        Link(450e9, 0.5e-6),
        "recalled: NVIDIA Grace Hopper whitepaper, NVLink-C2C, 450 GB/s each way; α as PCIe",
    ),
    "ethernet10": LinkKind(
        "ethernet", Link(1.25e9, 0.35e-6), "10 Gbit/s line rate; α as InfiniBand"
    ),
    "ethernet25": LinkKind(
        "ethernet", Link(3.125e9, 0.35e-6), "25 Gbit/s line rate; α as InfiniBand"
    ),
    "ethernet100": LinkKind(
        "ethernet", Link(12.5e9, 0.35e-6), "100 Gbit/s line rate; α as InfiniBand"
    ),
    "ethernet400": LinkKind(
        "ethernet", Link(50e9, 0.35e-6), "400 Gbit/s line rate; α as InfiniBand"
    ),
    "roce100": LinkKind("roce", Link(12.5e9, 0.35e-6), "RoCE, 100 Gbit/s; α as InfiniBand"),
    "roce200": LinkKind("roce", Link(25e9, 0.35e-6), "RoCE, 200 Gbit/s; α as InfiniBand"),
    "roce400": LinkKind("roce", Link(50e9, 0.35e-6), "RoCE, 400 Gbit/s; α as InfiniBand"),
    "slingshot": LinkKind(
        "slingshot",
        Link(25e9, 0.35e-6),
        "recalled: HPE Slingshot 11, 200 Gbit/s line rate; α as InfiniBand",
    ),
    "edr": LinkKind(
        "ib",
        Link(12.5e9, 0.35e-6),
        f"InfiniBand EDR, 100 Gbit/s line rate; {_STEP} 2.7 us less 4 links of PCIe",
    ),
    "hdr": LinkKind(
        "ib",
        Link(25e9, 0.35e-6),
        f"InfiniBand HDR, 200 Gbit/s line rate; {_STEP} 2.7 us less 4 links of PCIe",
    ),
    "ndr200": LinkKind(
        "ib",
        Link(25e9, 0.35e-6),
        f"InfiniBand NDR200, 200 Gbit/s line rate; {_STEP} 2.7 us less 4 links of PCIe",
    ),
    "ndr": LinkKind(
        "ib",
        Link(50e9, 0.35e-6),
        f"InfiniBand NDR, 400 Gbit/s line rate; {_STEP} 2.7 us less 4 links of PCIe",
    ),
}
"""The kinds by name, as machines, files and `--topology` options take them."""

NETWORKS = ("ib", "roce", "slingshot", "ethernet")
"""What a topology calls links between nodes."""
SWITCH_LATENCY = 0.15e-6
"""α between two network switches: about one InfiniBand switch, port to port (130 ns, recalled, of
NVIDIA Quantum)."""


def link_kind(name: str) -> LinkKind:
    """The figures of a kind. Raises InputError with the names if there is no such kind."""
    if name not in LINKS:
        raise InputError(f"{name!r} is no kind of link: there are {', '.join(LINKS)}")
    return LINKS[name]
