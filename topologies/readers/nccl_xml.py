"""The topology files of NCCL and RCCL (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE) as machines.

The tree of <pci> in <cpu> is the tree of the machine. β of PCIe follows from link_speed and
link_width, as in NCCL. NVLinks, XGMI and links between CPUs have the β of their kind, which `sm`,
`gcn` and the model of the CPU tell, as in NCCL. All NVSwitches are one, as in NCCL. Each <net> is a
device of kind "port" with a link to its NIC, as fast as the port.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from topologies.link import LINKS, Link
from topologies.readers.hosts import LANES, assumption, join_sockets, kind_named, plug
from topologies.readers.nccl_links import Nvlinks, join, nvlinks_of
from topologies.readers.nccl_parts import Cpu, NcclDevice, NcclParts, Port, class_of, survey
from topologies.readers.xml_elements import Element, parse
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

_LANES = {2.5: 0.1875e9, 5.0: 0.375e9, 8.0: 0.75e9, 16.0: 1.5e9, 32.0: 3e9, 64.0: 6e9}
"""β of a lane in bytes/s by its rate in GT/s: NCCL src/graph/topo.cc, kvDictPciGen."""
_RATE = re.compile(r"(\d{1,3}(?:\.\d{1,3})?) ?GT/s(?: PCIe)?", re.ASCII)
_NO_RATE, _NO_WIDTH = ("", "unknown", "unknown speed"), (0, 63, 255)
"""What Linux writes for links without a rate or a width."""
_USUAL_PCIE, _USUAL_NET = "pcie3", "ethernet10"
"""NCCL's values if the file says nothing."""
_NETS = {"roce": ("roce", "mlx", "bnxt_re", "ionic", "irdma"), "slingshot": ("cxi",)}
"""How names of NICs begin: of RoCE (rdma-core kernel-boot/rdma_rename.c), with a driver of verbs
(Linux drivers/infiniband/hw), and of Slingshot (libfabric prov/cxi). With sockets NCCL has names of
interfaces, like eth0."""
_INTEL = ((207, "upi4"), (143, "upi3"), (85, "upi2"), (0, "qpi"))
"""Sockets of Intel's family 6 by the least model: NCCL src/graph/xml.cc and topo.cc,
ncclTopoGetInterCpuBw."""


def looks_like(text: str) -> bool:
    """Whether a text begins like XML and soon has a <system>, or the <graphs> that NCCL also
    writes."""
    begins = text[:4096].lstrip("\ufeff \t\r\n").startswith("<")
    return begins and re.search(r"<(system|graphs)\b", text[:65536]) is not None


def read_nccl_xml(
    text: str,
    name: str,
    *,
    nvlink: str | None = None,
    pcie: str | None = None,
    socket: str | None = None,
) -> Topology:
    """The machine of a topology file. Ranks are its GPUs by `rank`, else by `dev`, else in their
    order.

    `nvlink`, `pcie` and `socket` are names of kinds of links that replace the usual kinds of such
    GPUs and CPUs; `pcie` only if the file gives no speed. `notes` say which kinds were assumed.
    `name` is that of the file. Raises InputError with the line and the attribute.
    """
    nvlinks = kind_named("nvlink", nvlink, "nvlink4") if nvlink else None
    sockets = kind_named("socket", socket, "qpi") if socket else None
    usual = kind_named("pcie", pcie, _USUAL_PCIE)
    parts = survey(parse(text, name))
    links = nvlinks_of(parts, nvlinks)
    builder, ranks = TopologyBuilder(name), _ranks(parts)
    for part in (*ranks, *(part for part in parts.devices if part.kind != "gpu")):
        builder.device(part.name, part.kind, node=part.host)
    for cpu in parts.cpus:
        builder.device(cpu.name, "cpu", node=cpu.host)
    for port in parts.ports:
        _join_port(builder, port)
    builder.notes += _join_pcie(builder, parts, links, usual)
    join(builder, parts, links)
    builder.notes += [
        *links.notes(),
        *_join_cpus(builder, parts.cpus, sockets),
        *_notes(parts, links),
    ]
    return builder.build([part.name for part in ranks])


def _ranks(parts: NcclParts) -> list[NcclDevice]:
    """The GPUs in the order of their ranks. Raises InputError if two have the same."""
    gpus = parts.gpus
    for attribute in ("rank", "dev"):
        elements = [part.gpu for part in gpus if part.gpu and part.gpu.attributes.get(attribute)]
        if len(elements) == len(gpus):
            numbers = [element.whole(attribute, 0, 999_999) for element in elements]
            if attribute == "rank":
                _check_unlike(numbers, elements)
            keys = dict(zip((part.name for part in gpus), numbers, strict=True))
            return sorted(
                gpus, key=lambda part: (part.host if attribute == "dev" else 0, keys[part.name])
            )
    return gpus


def _check_unlike(numbers: list[int], elements: list[Element]) -> None:
    lines: dict[int, int] = {}
    for number, element in zip(numbers, elements, strict=True):
        if number in lines:
            raise element.mistake("rank", f"line {lines[number]} has it already")
        lines[number] = element.line


def _join_pcie(
    builder: TopologyBuilder, parts: NcclParts, links: Nvlinks, usual: str
) -> Iterator[str]:
    """Join every device to the device above it by PCIe; yields notes.

    A GPU directly below its CPU is left out if it has faster links to that CPU. `usual` is the kind
    of link if the file gives no speed.
    """
    assumed = stated = 0
    for part in parts.devices:
        bandwidth, certain = _pcie_bandwidth(part.element, usual)
        if part.above == part.cpu and links.lead_to_cpu(part.name):
            continue
        plug(
            builder,
            part.name,
            part.above,
            LINKS[usual],
            bandwidth,
            end=part.kind != "pcie switch",
            assumed=not certain,
        )
        assumed, stated = assumed + (not certain), stated + certain
    if stated:
        yield (
            "PCIe: β from link_speed and link_width, as NCCL counts them (src/graph/topo.cc); α "
            "of NCCL's LL step"
        )
    if assumed:
        yield assumption("PCIe", usual, f"on {assumed} links without link_speed or link_width")


def _pcie_bandwidth(element: Element, usual: str) -> tuple[float, bool]:
    """β of the link upwards of a <pci> in bytes/s, and whether the file states it. Raises
    InputError."""
    speed = element.attributes.get("link_speed", "").strip()
    match = _RATE.fullmatch(speed)
    width = element.whole("link_width", 0, 255, 0)
    if width > 32 and width not in _NO_WIDTH:
        raise element.mistake(
            "link_width", "it is a number of lanes from 1 to 32, or 0 if there is none"
        )
    if speed.lower() not in _NO_RATE and (match is None or float(match[1]) not in _LANES):
        rates = ", ".join(f"{rate:g}" for rate in _LANES)
        raise element.mistake("link_speed", f"it is a rate like 16.0 GT/s PCIe: there are {rates}")
    lane = _LANES[float(match[1])] if match else LINKS[usual].link.bandwidth / LANES
    return lane * (LANES if width in _NO_WIDTH else width), bool(match) and width not in _NO_WIDTH


def _join_port(builder: TopologyBuilder, port: Port) -> None:
    """The device of a <net>, and its link to the NIC, as fast as the port and with its latency."""
    builder.device(port.name, "port", node=port.part.host)
    speed = port.element.whole("speed", -1, 999_999_999, 0)
    latency = port.element.number("latency", 1e6) * 1e-6
    infiniband = class_of(port.part.element, "class").startswith("0x0207")
    usual = LINKS[_USUAL_NET].link
    builder.connect(
        port.part.name,
        port.name,
        Link(speed * 1e6 / 8 if speed > 0 else usual.bandwidth, latency or usual.latency),
        kind="ib" if infiniband else _network(port.element.text("name", "")),
        assumed=speed <= 0,
    )


def _network(net: str) -> str:
    """The kind of the network of a <net> without InfiniBand, by its name: NCCL takes it from the
    library that drives it."""
    return next((kind for kind, names in _NETS.items() if net.startswith(names)), "ethernet")


def _join_cpus(builder: TopologyBuilder, cpus: list[Cpu], socket: str | None) -> Iterator[str]:
    """A link between every two CPUs of a host; yields notes."""
    hosts: dict[int, list[Cpu]] = {}
    for cpu in cpus:
        hosts.setdefault(cpu.host, []).append(cpu)
    reasons: dict[str, str] = {}
    for alike in hosts.values():
        name, reason = (socket, "as asked for") if socket else _socket(alike[0].element)
        join_sockets(builder, [cpu.name for cpu in alike], LINKS[name])
        if len(alike) > 1:
            reasons.setdefault(name, reason)
    for name, reason in reasons.items():
        yield assumption("between CPUs", name, reason)


def _socket(cpu: Element) -> tuple[str, str]:
    """The kind of link between CPUs of a model, and why."""
    arch, vendor = cpu.text("arch", ""), cpu.text("vendor", "")
    family, model = (cpu.whole(attribute, 0, 99_999, 0) for attribute in ("familyid", "modelid"))
    reason = f"as usual for {f'{vendor} {arch}'.strip() or 'CPUs of which the file says nothing'}"
    if arch.startswith(("ppc", "power")):
        return "power", reason
    if arch.startswith(("arm", "aarch")):
        return "arm", reason
    if vendor in ("AuthenticAMD", "HygonGenuine"):
        return "fabric", reason
    kind = next(kind for least, kind in _INTEL if model >= least) if family == 6 else "qpi"
    return kind, f"{reason}, family {family} model {model}"


def _notes(parts: NcclParts, links: Nvlinks) -> Iterator[str]:
    yield from parts.notes()
    if not parts.described:
        yield "the file has no <gpu>: it says nothing of NVLinks or XGMI, and there are none here"
    if any(part.kind == "nic" for part in parts.devices) and not parts.ports:
        yield "the file has no <net>: it says nothing of the speed of network ports"
    if any(part.above == part.cpu and links.lead_to_cpu(part.name) for part in parts.gpus):
        yield "PCIe is left out where a GPU reaches the same CPU by C2C or NVLink"
    for port in parts.ports:
        speed = port.element.whole("speed", -1, 999_999_999, 0)
        # The fastest network ports that exist have 1,600,000 Mbit/s.
        if speed > 1_600_000:
            yield (
                f"{port.name}: {speed} Mbit/s is what the file says, and faster than any network "
                f"port"
            )
        elif speed <= 0:
            yield assumption(port.name, _USUAL_NET, "as the file gives no speed")
