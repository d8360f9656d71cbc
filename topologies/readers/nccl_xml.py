"""The topology files of NCCL and RCCL (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE) as machines.

The tree of <pci> in <cpu> is the tree of the machine. β of PCIe follows from link_speed and
link_width, as in NCCL. NVLinks, XGMI and links between CPUs have the β of their kind, which `sm`,
`gcn` and the model of the CPU tell, as in NCCL. All NVSwitches are one, as in NCCL. Each <net> is a
device of kind "port" with a link to its NIC, as fast as the port.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from topologies.errors import naming
from topologies.link import LINKS, Link
from topologies.readers.hosts import (
    LANES,
    assumption,
    join_by_nvswitch,
    join_sockets,
    kind_named,
    plug,
)
from topologies.readers.nccl_parts import (
    NcclDevice,
    NcclParts,
    Port,
    busid_of,
    class_of,
    first_of,
    survey,
)
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

_MOST = 1024
"""Links of a GPU to one other device."""
_GENERATIONS = ((100, "nvlink5"), (90, "nvlink4"), (80, "nvlink3"), (70, "nvlink2"), (0, "nvlink1"))
"""The NVLinks of GPUs by the least `sm`: NCCL src/graph/topo.h, ncclTopoNVLinkBw."""
_XGMI = {"906": "xgmi1", "908": "xgmi1", "90a": "xgmi2", "910": "xgmi2"}
"""The XGMI of older GPUs by how `gcn` begins; RCCL wrote 910 for gfx90a."""


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
    links = _nvlinks_of(parts, nvlinks)
    builder, ranks = TopologyBuilder(name), _ranks(parts)
    others = (part for part in parts.devices if part.kind != "gpu")
    for part in (*ranks, *others, *parts.cpus):
        builder.device(part.name, part.kind, node=part.host)
    for port in parts.ports:
        _join_port(builder, port)
    builder.notes += _join_pcie(builder, parts, links, usual)
    _join_links(builder, parts, links)
    builder.notes += [*links.notes(), *_join_cpus(builder, parts, sockets), *_notes(parts, links)]
    with naming(name):
        return builder.build([part.name for part in ranks])


def _ranks(parts: NcclParts) -> list[NcclDevice]:
    gpus = parts.gpus
    for attribute in ("rank", "dev"):
        elements = [part.gpu for part in gpus if part.gpu and part.gpu.attributes.get(attribute)]
        if len(elements) == len(gpus):
            numbers = [element.whole(attribute, 0, 999_999) for element in elements]
            lines: dict[int, int] = {}
            for number, element in zip(numbers, elements, strict=True):
                if attribute == "rank" and number in lines:
                    raise element.mistake("rank", f"line {lines[number]} has it already")
                lines[number] = element.line
            keys = dict(zip((part.name for part in gpus), numbers, strict=True))
            return sorted(
                gpus, key=lambda part: (part.host if attribute == "dev" else 0, keys[part.name])
            )
    return gpus


def _join_pcie(
    builder: TopologyBuilder, parts: NcclParts, links: Nvlinks, usual: str
) -> Iterator[str]:
    """Join every device to the one above it by PCIe, `usual` without a speed; yields notes."""
    assumed = stated = 0
    for part in parts.devices:
        bandwidth, certain = _pcie_bandwidth(part.element, usual)
        if links.replace_pcie(part):
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
    """β of the link upwards of a <pci> in bytes/s, and whether the file states it."""
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
    builder.device(port.name, "port", node=port.part.host)
    speed = port.element.whole("speed", -1, 999_999_999, 0)
    latency = port.element.number("latency", 1e6) * 1e-6
    usual, kind = LINKS[_USUAL_NET].link, "ib"
    if not class_of(port.part.element, "class").startswith("0x0207"):
        # NCCL takes it from the library that drives the NIC.
        name = port.element.text("name", "")
        kind = next((kind for kind, names in _NETS.items() if name.startswith(names)), "ethernet")
    builder.connect(
        port.part.name,
        port.name,
        Link(speed * 1e6 / 8 if speed > 0 else usual.bandwidth, latency or usual.latency),
        kind=kind,
        assumed=speed <= 0,
    )


def _join_cpus(builder: TopologyBuilder, parts: NcclParts, socket: str | None) -> Iterator[str]:
    """A link between every two CPUs of a host; yields notes."""
    reasons: dict[str, str] = {}
    for host in range(len(parts.hosts)):
        cpus = [cpu for cpu in parts.cpus if cpu.host == host]
        name, reason = (socket, "as asked for") if socket else _socket(cpus[0].element)
        join_sockets(builder, [cpu.name for cpu in cpus], LINKS[name])
        if len(cpus) > 1:
            reasons.setdefault(name, reason)
    for name, reason in reasons.items():
        yield assumption("between CPUs", name, reason)


def _socket(cpu: Element) -> tuple[str, str]:
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
    if any(links.replace_pcie(part) for part in parts.gpus):
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


@dataclass
class _Pair:
    element: Element
    kind: str
    count: int = 0


@dataclass
class Nvlinks:
    """Links by the names of GPUs. Bandwidths are in bytes/s."""

    pairs: dict[tuple[str, str], _Pair] = field(default_factory=dict)
    """Links between two GPUs."""
    switched: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The bandwidth of each GPU to NVSwitches."""
    to_cpu: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The bandwidth of each GPU to its CPU by NVLink."""
    c2c: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The bandwidth of each GPU to its CPU by C2C."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why each kind of link was taken."""
    dangling: int = 0
    """Links to GPUs that are not in the file."""
    self_links: dict[str, _Pair] = field(default_factory=dict)
    """Links of GPUs to themselves."""
    turned: list[str] = field(default_factory=list)
    """Notes on links of GPUs to themselves that were taken for other links."""
    doubtful: list[str] = field(default_factory=list)
    """Links to a bus id that several GPUs have."""

    def replace_pcie(self, part: NcclDevice) -> bool:
        """Whether a GPU below its CPU has other links to it than PCIe."""
        below = part.above == part.cpu
        return below and (part.name in self.to_cpu or part.name in self.c2c)

    def notes(self) -> Iterator[str]:
        """Which kinds were taken, and why."""
        for name, reason in self.reasons.items():
            yield assumption("XGMI" if name.startswith("xgmi") else "NVLink", name, reason)
        if self.dangling:
            yield (
                f"{self.dangling} links lead to GPUs that are not in the file, as of a job on "
                f"some of them: left out"
            )
        for lines in (self.turned, self.doubtful):
            yield from first_of(lines)


def _nvlinks_of(parts: NcclParts, nvlink: str | None) -> Nvlinks:
    """The links of all GPUs, of the kind `nvlink` or else of the kind that `sm` tells. Raises
    InputError for links of which the two ends tell different numbers."""
    links = Nvlinks()
    for part, gpu in ((part, part.gpu) for part in parts.gpus):
        for element in gpu.children if gpu else ():
            if element.tag == "c2c":
                rate = element.whole("bw", 1, 10_000_000) * 1e6
                links.c2c[part.name] += rate * element.whole("count", 1, _MOST)
            elif gpu and element.tag in ("nvlink", "xgmi"):
                name, reason = _kind_of(gpu, element.tag, nvlink)
                links.reasons.setdefault(name, reason)
                _add_link(links, parts, part, element, name)
    _turn_loops(links)
    doubtful = {
        part.name
        for part in parts.gpus
        if (part.host, busid_of(part.element, "busid")) in parts.doubtful
    }
    for (gpu_name, peer), pair in list(links.pairs.items()):
        back = links.pairs.get((peer, gpu_name))
        if back is not None and back.count == pair.count:
            continue
        if doubtful & {gpu_name, peer}:
            del links.pairs[gpu_name, peer]
            links.doubtful.append(
                f"links from {gpu_name} to {peer}, of which several GPUs have the bus id, are "
                f"left out"
            )
        else:
            listed = f"{back.count} (line {back.element.line})" if back else "none"
            raise pair.element.mistake(
                "count", f"{pair.count} to {peer} in all, which has {listed} back"
            )
    return links


def _join_links(builder: TopologyBuilder, parts: NcclParts, links: Nvlinks) -> None:
    for (first, second), pair in links.pairs.items():
        if first < second:
            kind = LINKS[pair.kind]
            link = replace(kind.link, bandwidth=pair.count * kind.link.bandwidth)
            builder.connect(first, second, link, kind=kind.kind, assumed=True)
    if links.switched:
        latest = max(name for name in links.reasons if name.startswith("nvlink"))
        join_by_nvswitch(
            builder, "nvswitch", links.switched, latest, node=0 if len(parts.hosts) == 1 else -1
        )
    for part in parts.gpus:
        name = "c2c" if part.name in links.c2c else "nvlink"
        bandwidth = links.c2c.get(part.name) or links.to_cpu.get(part.name)
        if bandwidth:
            link = replace(LINKS["c2c"].link, bandwidth=bandwidth)
            builder.connect(part.name, part.cpu, link, kind=name, assumed=name == "nvlink")


def _turn_loops(links: Nvlinks) -> None:
    """Take links of a GPU to itself for the way back to the GPU whose links to it have none, if
    there is just one."""
    for name, loops in links.self_links.items():
        lonely = [
            gpu
            for (gpu, target) in links.pairs
            if target == name and (name, gpu) not in links.pairs
        ]
        alike = [gpu for gpu in lonely if links.pairs[gpu, name].count == loops.count]
        text = f"{name} has {loops.count} links to itself"
        if len(alike) == 1:
            links.pairs[name, alike[0]] = loops
            links.turned.append(f"{text}: taken for those to {alike[0]}, which has as many to it")
        else:
            links.turned.append(f"{text}: left out")


def _add_link(
    links: Nvlinks, parts: NcclParts, part: NcclDevice, element: Element, kind: str
) -> None:
    count = element.whole("count", 1, _MOST)
    target = _target(parts, part, element)
    if target is None:
        links.dangling += count
    elif target is part:
        links.self_links.setdefault(part.name, _Pair(element, kind)).count += count
    elif isinstance(target, NcclDevice):
        links.pairs.setdefault((part.name, target.name), _Pair(element, kind)).count += count
    else:
        totals = links.switched if target == "nvswitch" else links.to_cpu
        totals[part.name] += count * LINKS[kind].link.bandwidth


def _target(parts: NcclParts, part: NcclDevice, element: Element) -> NcclDevice | str | None:
    """The GPU that a link leads to, "nvswitch" or "cpu"; None if it is not there."""
    target_class = class_of(element, "tclass")
    if target_class.startswith("0x068001"):
        return "cpu"
    if target_class.startswith("0x0680"):
        return "nvswitch"
    if target_class and not target_class.startswith(("0x03", "0x12")):
        raise element.mistake(
            "tclass",
            "it is the class of a GPU (0x0302), an NVSwitch (0x068000) or a CPU (0x068001)",
        )
    key = part.host, busid_of(element, "target")
    if key in parts.switches:
        return "nvswitch"
    target = parts.by_busid.get(key)
    if target is not None and target.kind != "gpu":
        raise element.mistake("target", "it is the busid of another GPU")
    return target


def _kind_of(gpu: Element, tag: str, nvlink: str | None) -> tuple[str, str]:
    if tag == "xgmi":
        gcn = gpu.text("gcn", "unknown")
        model = gcn.lower().removeprefix("gfx")
        kinds = (name for start, name in _XGMI.items() if model.startswith(start))
        return next(kinds, "xgmi3"), f"as usual for {gcn}"
    if nvlink:
        return nvlink, "as asked for"
    generation = gpu.whole("sm", 0, 9999)
    name = next(name for least, name in _GENERATIONS if generation >= least)
    return name, f"as usual for sm {generation}"
