"""The elements of a topology file of NCCL or RCCL as parts of a machine, named and placed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from topologies.errors import InputError
from topologies.readers.xml_elements import Element

MOST_CPUS = 256
"""NUMA nodes of a file."""
_WITHIN = {
    "cpu": ("system",),
    "pci": ("cpu", "pci"),
    "gpu": ("pci",),
    "nic": ("pci", "cpu"),
    "net": ("nic",),
    "nvlink": ("gpu",),
    "xgmi": ("gpu",),
    "c2c": ("gpu",),
}
"""What belongs in what; other elements are passed over, with all that is in them."""
_GPUS, _NICS, _BRIDGES, _NVSWITCHES = ("0x03", "0x12"), "0x02", "0x0604", "0x0680"
"""How PCI classes of displays and accelerators, networks, bridges to PCIe and other bridges
begin."""
_BUSID = re.compile(r"[0-9a-f]{1,8}:[0-9a-f]{1,4}(?::[0-9a-f]{1,4})?(?:\.[0-9a-f]{1,2})?", re.ASCII)


class NcclDevice(NamedTuple):
    """A device: a <pci>, a <nic> in a <cpu>, or a NUMA node by the first <cpu> that names it."""

    name: str
    """The name in the topology."""
    kind: str
    """The kind of device."""
    host: int
    """The number of the host."""
    element: Element
    """The element of the file."""
    above: str
    """The name of the device that it is plugged into."""
    cpu: str
    """The name of its CPU."""

    @property
    def gpu(self) -> Element | None:
        """Its <gpu>, if it has one."""
        return next(iter(self.element.within("gpu")), None)

    @property
    def nets(self) -> list[Element]:
        """Its <net>s."""
        nics = [self.element] if self.element.tag == "nic" else self.element.within("nic")
        return [net for nic in nics for net in nic.within("net")]


class Port(NamedTuple):
    """A <net>: a network port of a device."""

    name: str
    part: NcclDevice
    element: Element


@dataclass
class NcclParts:
    """All parts, in the order of the file. If a file describes several hosts, names begin with
    "node0."."""

    hosts: list[str] = field(default_factory=list)
    cpus: list[NcclDevice] = field(default_factory=list)
    devices: list[NcclDevice] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    by_busid: dict[tuple[int, str], NcclDevice] = field(default_factory=dict)
    switches: set[tuple[int, str]] = field(default_factory=set)
    """Where NVSwitches are, by their bus id."""
    described: bool = False
    """Whether there are <gpu>s, and not only <pci>s of a GPU's class."""
    repeated: dict[str, list[str]] = field(default_factory=dict)
    """Notes on things that the file has twice though only one exists, by their sort."""
    doubtful: set[tuple[int, str]] = field(default_factory=set)
    """The bus ids that several devices have."""
    taken: dict[tuple[str, object], Element] = field(default_factory=dict)
    """The first element that has each name or number, by its sort."""
    counts: Counter[str] = field(default_factory=Counter)
    """How many devices of a kind there are without a number of their own."""

    @property
    def gpus(self) -> list[NcclDevice]:
        """The GPUs, in the order of the file."""
        return [part for part in self.devices if part.kind == "gpu"]

    def notes(self) -> Iterator[str]:
        """The first note of each sort, with the number of further notes."""
        for lines in self.repeated.values():
            yield from first_of(lines)

    def add_cpu(self, element: Element) -> None:
        """The NUMA node of a <cpu>, unless it is there already, and all devices in it."""
        host = self.hosts.index(element.attributes.get("host_hash", ""))
        name = self._prefixed(host, f"cpu{element.whole('numaid', -1, 9999)}")
        if ("cpu", name) not in self.taken:
            self.taken["cpu", name] = element
            self.cpus.append(NcclDevice(name, "cpu", host, element, "", name))
        if len(self.cpus) > MOST_CPUS:
            raise element.mistake("numaid", f"no machine has more than {MOST_CPUS} NUMA nodes")
        waiting = [(child, name) for child in reversed(element.children)]
        while waiting:
            child, above = waiting.pop()
            part = self._part(host, child, above, name)
            if part:
                self.devices.append(part)
                waiting += [(inner, part.name) for inner in reversed(child.within("pci"))]

    def add_ports(self) -> None:
        """A port for each <net>, called by its number as well where several have one name."""
        nets = [(part, net) for part in self.devices for net in part.nets]
        alike = Counter((part.host, net.text("name")) for part, net in nets)
        for part, net in nets:
            name = net.text("name")
            if not name or name == "nvswitch":
                raise net.mistake("name", "it is a name like mlx5_0")
            if alike[part.host, name] > 1:
                name = f"{name}:{net.whole('port', 0, 255, 0)}"
            name = self._of_its_own(self._prefixed(part.host, name), net, "net", "net device")
            self._take("device", name, net, "name")
            if net.attributes.get("dev"):
                number = net.whole("dev", 0, 9999)
                self._repeat("dev", (part.host, number), net, f"dev {number} of a net device")
            self.ports.append(Port(name, part, net))

    def _part(self, host: int, element: Element, above: str, cpu: str) -> NcclDevice | None:
        """The device of a <pci> or of a <nic> in a <cpu>, or None if it takes no part in
        communication."""
        if element.tag == "nic":
            self.counts["nic"] += 1
            name = f"nic{self.counts['nic'] - 1}"
            return self._named(name, "nic", host, element, above, cpu)
        if element.tag != "pci":
            return None
        busid, kind = busid_of(element, "busid"), _kind(element, self.described)
        if self._repeat("pci", (host, busid), element, f"bus id {busid}"):
            self.doubtful.add((host, busid))
        if kind == "nvswitch":
            self.switches.add((host, busid))
        if kind in ("nvswitch", "other"):
            return None
        name = f"gpu{self._number(element)}" if kind == "gpu" else busid
        part = self._named(name, kind, host, element, above, cpu)
        first = self.by_busid.setdefault((host, busid), part)
        if kind == "gpu" and first.kind != "gpu":
            self.by_busid[host, busid] = part
        return part

    def _repeat(self, sort: str, key: object, element: Element, noun: str) -> bool:
        """Note that another element has what is there only once; whether one has."""
        first = self.taken.setdefault((sort, key), element)
        if first is element:
            return False
        again = (
            f"{noun} is on line {first.line} and again on line {element.line}: taken for two "
            f"devices"
        )
        self.repeated.setdefault(sort, []).append(again)
        return True

    def _of_its_own(self, name: str, element: Element, sort: str, noun: str = "") -> str:
        """A name, with a number behind it if an element of that sort has it already; noted if
        `noun` says of what."""
        number, plain = 1, name
        while (sort, name) in self.taken:
            number += 1
            name = f"{plain}#{number}"
        self.taken[sort, name] = element
        if noun and number > 1:
            first = self.taken[sort, plain].line
            again = (
                f"{noun} {plain} is on line {first} and again on line {element.line}: the second "
                f"is called {name}"
            )
            self.repeated.setdefault(sort, []).append(again)
        return name

    def _named(
        self, name: str, kind: str, host: int, element: Element, above: str, cpu: str
    ) -> NcclDevice:
        name = self._prefixed(host, name)
        name = name if kind == "gpu" else self._of_its_own(name, element, "name")
        part = NcclDevice(name, kind, host, element, above, cpu)
        self._take("device", part.name, part.gpu or element, "dev")
        return part

    def _number(self, pci: Element) -> int:
        """The number of a GPU: its dev, or else how many there were before."""
        gpus, before = pci.within("gpu"), self.counts["gpu"]
        self.counts["gpu"] += 1
        if len(gpus) > 1:
            raise InputError(
                f"{pci.file} line {gpus[1].line}: a second <gpu> in one <pci>: each has a <pci> "
                f"of its own"
            )
        return gpus[0].whole("dev", 0, 9999, before) if gpus else before

    def _prefixed(self, host: int, name: str) -> str:
        return name if len(self.hosts) == 1 else f"node{host}.{name}"

    def _take(self, sort: str, key: object, element: Element, attribute: str) -> None:
        first = self.taken.setdefault((sort, key), element)
        if first is not element:
            raise element.mistake(attribute, f"line {first.line} has it already")


def first_of(notes: list[str]) -> list[str]:
    """The first note, which says how many more there are; a large file may have thousands of a
    sort."""
    return [f"{notes[0]} (and {len(notes) - 1} more)"] if len(notes) > 1 else notes


def survey(root: Element) -> NcclParts:
    """The parts of a <system>. Raises InputError for elements that are misplaced, or are not what
    they have to be."""
    if root.tag != "system":
        expected = "expected <system>, as NCCL_TOPO_DUMP_FILE writes it"
        raise InputError(f"{root.file} line {root.line}: the root is <{root.tag}>: {expected}")
    elements = list(_checked(root))
    described = any(element.tag == "gpu" for element in elements)
    hosts = list(dict.fromkeys(cpu.attributes.get("host_hash", "") for cpu in root.within("cpu")))
    parts = NcclParts(hosts, described=described)
    for cpu in root.within("cpu"):
        parts.add_cpu(cpu)
    if not parts.gpus:
        bare = sum(each.tag == "pci" and not each.attributes.get("class") for each in elements)
        raise InputError(
            f"{root.file}: no GPU: expected a <gpu>, or a <pci> of class 0x03 or 0x12, as in what "
            f"NCCL_TOPO_DUMP_FILE writes{f' ({bare} <pci> have no class)' * (bare > 0)}"
        )
    parts.add_ports()
    return parts


def _checked(root: Element) -> Iterator[Element]:
    waiting = [root]
    while waiting:
        element = waiting.pop()
        yield element
        children = [child for child in element.children if child.tag in _WITHIN]
        for child in children:
            if element.tag not in _WITHIN[child.tag]:
                place = f"it belongs in <{'> or <'.join(_WITHIN[child.tag])}>"
                raise InputError(
                    f"{child.file} line {child.line}: a <{child.tag}> in <{element.tag}>: {place}"
                )
        waiting += children


def busid_of(element: Element, attribute: str) -> str:
    """A PCI bus id, in lower case. Raises InputError if it is none."""
    value = element.attributes.get(attribute, "").lower()
    if not _BUSID.fullmatch(value):
        raise element.mistake(attribute, "it is a PCI bus id like 0000:0f:00.0")
    return value


def class_of(element: Element, attribute: str) -> str:
    """A PCI class in lower case, or nothing if it is missing. Raises InputError if it is none."""
    value = element.attributes.get(attribute, "").lower()
    if value and not re.fullmatch(r"0x[0-9a-f]{2,8}", value, re.ASCII):
        raise element.mistake(attribute, "it is a PCI class like 0x030200")
    return value


def _kind(pci: Element, described: bool) -> str:
    """The kind of a <pci>. In a file with <gpu>s, other displays, such as that of a console, are
    not GPUs."""
    inner, pci_class = {child.tag for child in pci.children}, class_of(pci, "class")
    if "gpu" in inner:
        return "gpu"
    if "nic" in inner:
        return "nic"
    if "pci" in inner or pci_class.startswith(_BRIDGES):
        return "pcie switch"
    if pci_class.startswith(_GPUS) and not described:
        return "gpu"
    if pci_class.startswith(_NVSWITCHES):
        return "nvswitch"
    return "nic" if pci_class.startswith(_NICS) else "other"
