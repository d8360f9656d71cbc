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
_STEP = "α: NCCL src/graph/tuning.cc, LL step"


def _nvlink(bandwidth: float, gpu: str, wire: float) -> LinkKind:
    """`wire` has the GB/s on the wire."""
    figures = f"{bandwidth / 1e9:g} GB/s a link of {gpu} ({wire:g} on the wire)"
    return LinkKind("nvlink", Link(bandwidth, 0.6e-6), f"{_NCCL}: {figures}; {_STEP} 0.6 us")


def _xgmi(bandwidth: float, gpus: str) -> LinkKind:
    figures = f"{bandwidth / 1e9:g} GB/s a link of {gpus}"
    return LinkKind(
        "xgmi", Link(bandwidth, 0.6e-6), f"RCCL src/graph/topo.h: {figures}; α as NVLink"
    )


def _pcie(bandwidth: float, wire: float) -> LinkKind:
    figures = f"{bandwidth / 1e9:g} GB/s for x16 ({wire:g} on the wire)"
    step = f"{_STEP} 1.0 us over 2 links"
    return LinkKind("pcie", Link(bandwidth, 0.5e-6), f"{_NCCL}: {figures}; {step}")


def _between_sockets(bandwidth: float, cpus: str) -> LinkKind:
    figures = f"{bandwidth / 1e9:g} GB/s between {cpus} sockets"
    return LinkKind("upi", Link(bandwidth, 0.1e-6), f"{_NCCL}: {figures}; α assumed")


def _network(kind: str, bandwidth: float, source: str) -> LinkKind:
    return LinkKind(kind, Link(bandwidth, 0.35e-6), f"{source}; α as InfiniBand")


def _infiniband(bandwidth: float, name: str) -> LinkKind:
    figures = f"InfiniBand {name}, {bandwidth * 8 / 1e9:g} Gbit/s line rate"
    step = f"{_STEP} 2.7 us less 4 links of PCIe"
    return LinkKind("ib", Link(bandwidth, 0.35e-6), f"{figures}; {step}")


LINKS: dict[str, LinkKind] = {
    "nvlink1": _nvlink(18e9, "sm60", 20),
    "nvlink2": _nvlink(20e9, "sm70", 25),
    "nvlink3": _nvlink(20e9, "sm80", 25),
    "nvlink4": _nvlink(20.6e9, "sm90", 26.6),
    "nvlink5": _nvlink(40.1e9, "sm100", 50),
    "xgmi1": _xgmi(24e9, "gfx906, gfx908"),
    "xgmi2": _xgmi(36e9, "gfx90a"),
    "xgmi3": _xgmi(48e9, "gfx942 (64 on the wire)"),
    "pcie3": _pcie(12e9, 15.75),
    "pcie4": _pcie(24e9, 31.5),
    "pcie5": _pcie(48e9, 63),
    "qpi": _between_sockets(6e9, "Broadwell"),
    "upi2": _between_sockets(10e9, "Skylake"),
    "upi3": _between_sockets(22e9, "Sapphire Rapids"),
    "upi4": _between_sockets(40e9, "Emerald Rapids"),
    "fabric": _between_sockets(16e9, "EPYC"),
    "power": _between_sockets(32e9, "POWER9"),
    "arm": _between_sockets(6e9, "Arm"),
    "c2c": LinkKind(
        "c2c",
        Link(450e9, 0.5e-6),
        "recalled: NVIDIA Grace Hopper whitepaper, NVLink-C2C, 450 GB/s each way; α as PCIe",
    ),
    "ethernet10": _network("ethernet", 1.25e9, "10 Gbit/s line rate"),
    "ethernet25": _network("ethernet", 3.125e9, "25 Gbit/s line rate"),
    "ethernet100": _network("ethernet", 12.5e9, "100 Gbit/s line rate"),
    "ethernet400": _network("ethernet", 50e9, "400 Gbit/s line rate"),
    "roce100": _network("roce", 12.5e9, "RoCE, 100 Gbit/s"),
    "roce200": _network("roce", 25e9, "RoCE, 200 Gbit/s"),
    "roce400": _network("roce", 50e9, "RoCE, 400 Gbit/s"),
    "slingshot": _network("slingshot", 25e9, "recalled: HPE Slingshot 11, 200 Gbit/s line rate"),
    "edr": _infiniband(12.5e9, "EDR"),
    "hdr": _infiniband(25e9, "HDR"),
    "ndr200": _infiniband(25e9, "NDR200"),
    "ndr": _infiniband(50e9, "NDR"),
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
