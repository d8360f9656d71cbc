"""Machines that exist, one function for each node: CPUs, PCIe, GPUs, NVLink and NICs.

Each figure comes from the table of link kinds, or has its source in a note. The devices of kind
"nic", in order, are a node's ports to the network. The ranks of a node are its GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

from topologies.errors import InputError
from topologies.link import Link
from topologies.link_kinds import link_kind
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

Ports = int | None
"""NICs of a node; None: as many as the machine has."""

DGX1_PAIRS = {
    1: ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)),
    2: ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)),
}
"""Pairs of GPUs of a DGX-1 with V100 by the number of NVLinks between them: the hybrid cube
mesh."""


def pcie_box(*, nics: Ports = None) -> Topology:
    """Two sockets with a PCIe 4 switch each, four GPUs a switch and no NVLink.

    >>> pcie_box().ranks
    8
    """
    return _host(
        "pcie_box", gpus=8, nics=_count(nics, 2), sockets=2, switches=2, pcie="pcie4", socket="upi2"
    )[0].build(_gpus(8))


def dgx1(*, nics: Ports = None) -> Topology:
    """DGX-1 with V100: a hybrid cube mesh of single and double NVLinks, six a GPU; four EDR NICs.

    >>> machine = dgx1()
    >>> [round(float(machine.bandwidth[machine.route(0, peer)[0]]) / 1e9) for peer in (1, 3)]
    [20, 40]
    """
    builder, gpus = _host(
        "dgx1", gpus=8, nics=_count(nics, 4), sockets=2, switches=4, pcie="pcie3", socket="qpi"
    )
    for links, pairs in DGX1_PAIRS.items():
        for first, second in pairs:
            _nvlink(builder, gpus[first], gpus[second], "nvlink2", links)
    builder.notes.append(
        "NVLinks: nvidia-smi topo -m of a DGX-1 (microsoft/msccl-tools tests/test_topologies.py)"
    )
    return builder.build(gpus)


def dgx_a100(*, nics: Ports = None) -> Topology:
    """DGX A100: twelve NVLinks a GPU through NVSwitches, two GPUs and two HDR NICs a PCIe
    switch."""
    builder, gpus = _host(
        "dgx_a100",
        gpus=8,
        nics=_count(nics, 8),
        sockets=2,
        switches=4,
        pcie="pcie4",
        socket="fabric",
    )
    return _switched(builder, gpus, "nvlink3", 12, in_network=False).build(gpus)


def hgx_h100(*, nics: Ports = None) -> Topology:
    """HGX H100: eighteen NVLinks a GPU through NVSwitches that reduce and multicast (NVLS), an NDR
    NIC a GPU.

    >>> machine = hgx_h100()
    >>> machine.ranks, float(machine.bandwidth[machine.route(0, 7)[0]]) / 1e9
    (8, 370.8)
    """
    return _hgx("hgx_h100", nics, "nvlink4", "upi3")


def hgx_h200(*, nics: Ports = None) -> Topology:
    """HGX H200: the links of an HGX H100."""
    return _hgx("hgx_h200", nics, "nvlink4", "upi3")


def b200(*, nics: Ports = None) -> Topology:
    """HGX or DGX B200: eighteen NVLinks of the fifth generation a GPU, NVLS, an NDR NIC a GPU."""
    return _hgx("b200", nics, "nvlink5", "upi4")


def mi300x(*, nics: Ports = None) -> Topology:
    """Eight MI300X, a link of Infinity Fabric between every two; a 400 Gbit/s NIC a GPU."""
    builder, gpus = _host(
        "mi300x", gpus=8, nics=_count(nics, 8), sockets=2, switches=8, pcie="pcie5", socket="fabric"
    )
    for first, second in combinations(gpus, 2):
        _nvlink(builder, first, second, "xgmi3", 1)
    return builder.build(gpus)


def nvl72(*, nics: Ports = None) -> Topology:
    """GB200 NVL72, one rack: 36 Grace CPUs with two B200 each, all 72 on NVSwitches with NVLS, an
    NDR NIC a GPU."""
    builder = TopologyBuilder("nvl72", paths="rail")
    cpus, gpus = [builder.device(f"cpu{k}", "cpu", node=0) for k in range(36)], _gpus(72)
    for rank, gpu in enumerate(gpus):
        builder.device(gpu, node=0)
        _link(builder, gpu, cpus[rank // 2], "c2c")
    _nics(builder, _count(nics, 72), cpus, "pcie5")
    return _switched(builder, gpus, "nvlink5", 18, in_network=True).build(gpus)


def leonardo(*, nics: Ports = None) -> Topology:
    """A node like those of Leonardo Booster: one CPU, four A100 with four NVLinks between every
    two, four HDR100 ports.

    Source: leonardo-supercomputer.cineca.eu, HPC system (two dual-port HDR100 NICs, 400 Gbit/s
    together).
    """
    builder, gpus = _host(
        "leonardo", gpus=4, nics=_count(nics, 4), sockets=1, switches=0, pcie="pcie4", socket="upi2"
    )
    return _meshed(builder, gpus, "nvlink3", 4).build(gpus)


def mn5_acc(*, nics: Ports = None) -> Topology:
    """A node like those of MareNostrum 5 ACC: four H100 with six NVLinks between every two and an
    NDR200 NIC each.

    Recalled, not read again: four NDR200, 800 Gbit/s a node, as measured there (100 GB/s between
    nodes).
    """
    builder, gpus = _host(
        "mn5_acc", gpus=4, nics=_count(nics, 4), sockets=2, switches=4, pcie="pcie5", socket="upi3"
    )
    return _meshed(builder, gpus, "nvlink4", 6).build(gpus)


def alps(*, nics: Ports = None) -> Topology:
    """A node like those of Alps: four GH200, every two GPUs with six NVLinks, a Slingshot NIC for
    each.

    Recalled, not read again: 100 GB/s between two Grace CPUs, of Fusco et al., "Understanding data
    movement in tightly coupled heterogeneous systems", 2024.
    """
    builder = TopologyBuilder("alps", paths="rail")
    cpus, gpus = [builder.device(f"cpu{k}", "cpu", node=0) for k in range(4)], _gpus(4)
    for gpu, cpu in zip(gpus, cpus, strict=True):
        builder.device(gpu, node=0)
        _link(builder, gpu, cpu, "c2c")
    for first, second in combinations(cpus, 2):
        builder.connect(first, second, Link(100e9, 0.5e-6), kind="c2c")
    builder.notes.append("between CPUs: 100 GB/s, recalled: Fusco et al. 2024; α as PCIe")
    _nics(builder, _count(nics, 4), cpus, "pcie5")
    return _meshed(builder, gpus, "nvlink4", 6).build(gpus)


class NodeKind(NamedTuple):
    """A kind of node, and how several are joined by default."""

    node: Callable[..., Topology]
    """Builds the node, with so many `nics`."""
    network: str
    """How its NICs are joined, a value of `network=`."""
    port: str
    """The kind of network link of its NICs."""

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring of the node, on one line."""
        return " ".join((self.node.__doc__ or "").partition("\n\n")[0].split())


MACHINES: dict[str, NodeKind] = {
    machine.node.__name__: machine
    for machine in (
        NodeKind(pcie_box, "leaf_spine", "ethernet100"),
        NodeKind(dgx1, "leaf_spine", "edr"),
        NodeKind(dgx_a100, "rails", "hdr"),
        NodeKind(hgx_h100, "rails", "ndr"),
        NodeKind(hgx_h200, "rails", "ndr"),
        NodeKind(b200, "rails", "ndr"),
        NodeKind(nvl72, "rails", "ndr"),
        NodeKind(mi300x, "rails", "roce400"),
        NodeKind(leonardo, "dragonfly", "edr"),
        NodeKind(mn5_acc, "leaf_spine", "ndr200"),
        NodeKind(alps, "dragonfly", "slingshot"),
    )
}
"""The machines by name, as `--topology` takes them."""


def _gpus(count: int) -> list[str]:
    return [f"gpu{k}" for k in range(count)]


def _count(nics: Ports, usual: int) -> int:
    if nics is None:
        return usual
    if nics % 1 or not 0 <= nics <= 1024:
        raise InputError(f"nics is {nics}: a node has 0 to 1024 NICs")
    return nics


def _host(
    name: str, *, gpus: int, nics: int, sockets: int, switches: int, pcie: str, socket: str
) -> tuple[TopologyBuilder, list[str]]:
    """CPUs, PCIe switches, GPUs and NICs, shared out evenly and in order; without switches all hang
    on the CPUs."""
    builder = TopologyBuilder(name, paths="rail")
    cpus = [builder.device(f"cpu{k}", "cpu", node=0) for k in range(sockets)]
    for first, second in combinations(cpus, 2):
        _link(builder, first, second, socket)
    roots = [builder.device(f"pcie{k}", "pcie switch", node=0) for k in range(switches)]
    for number, root in enumerate(roots):
        _link(builder, root, cpus[number * sockets // switches], pcie)
    names = _gpus(gpus)
    hosts = roots or cpus
    for number, gpu in enumerate(names):
        builder.device(gpu, node=0)
        _link(builder, gpu, hosts[number * len(hosts) // gpus], pcie)
    _nics(builder, nics, hosts, pcie)
    return builder, names


def _nics(builder: TopologyBuilder, count: int, hosts: list[str], pcie: str) -> None:
    for number in range(count):
        builder.device(f"nic{number}", "nic", node=0)
        _link(builder, f"nic{number}", hosts[number * len(hosts) // count], pcie)


def _link(builder: TopologyBuilder, first: str, second: str, name: str) -> None:
    kind = link_kind(name)
    builder.connect(first, second, kind.link, kind=kind.kind)
    _note(builder, name)


def _nvlink(
    builder: TopologyBuilder, first: str, second: str, name: str, links: int, hops: int = 1
) -> None:
    """`links` links as one; through a switch each of the `hops` takes its part of the latency."""
    kind = link_kind(name)
    link = Link(links * kind.link.bandwidth, kind.link.latency / hops)
    builder.connect(first, second, link, kind=kind.kind)
    _note(builder, name)


def _note(builder: TopologyBuilder, name: str) -> None:
    note = f"{name}: {link_kind(name).source}"
    if note not in builder.notes:
        builder.notes.append(note)


def _meshed(builder: TopologyBuilder, gpus: list[str], name: str, links: int) -> TopologyBuilder:
    for first, second in combinations(gpus, 2):
        _nvlink(builder, first, second, name, links)
    return builder


def _switched(
    builder: TopologyBuilder, gpus: list[str], name: str, links: int, *, in_network: bool
) -> TopologyBuilder:
    """All NVSwitches as one that does not block: every GPU has links to each of them."""
    switch = builder.device("nvswitch", "nvswitch", node=0, in_network=in_network)
    for gpu in gpus:
        _nvlink(builder, gpu, switch, name, links, hops=2)
    return builder


def _hgx(name: str, nics: Ports, nvlink: str, socket: str) -> Topology:
    builder, gpus = _host(
        name, gpus=8, nics=_count(nics, 8), sockets=2, switches=4, pcie="pcie5", socket=socket
    )
    return _switched(builder, gpus, nvlink, 18, in_network=True).build(gpus)
