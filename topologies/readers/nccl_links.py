"""NVLinks, XGMI and C2C of a topology file of NCCL or RCCL: what leads from GPU to GPU, to
NVSwitches and to CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from topologies.link import LINKS
from topologies.readers.hosts import assumption, join_by_nvswitch
from topologies.readers.nccl_parts import NcclDevice, NcclParts, busid_of, class_of, first_of
from topologies.readers.xml_elements import Element
from topologies.topology_builder import TopologyBuilder

MOST = 1024
"""Links of a GPU to one other device."""
_GENERATIONS = ((100, "nvlink5"), (90, "nvlink4"), (80, "nvlink3"), (70, "nvlink2"), (0, "nvlink1"))
"""The NVLinks of GPUs by the least `sm`: NCCL src/graph/topo.h, ncclTopoNVLinkBw."""
_XGMI = {
    "906": "xgmi1",
    "908": "xgmi1",
    "90a": "xgmi2",
    "910": "xgmi2",
    "94": "xgmi3",
    "95": "xgmi3",
}
"""The XGMI of GPUs by how `gcn` begins; RCCL wrote 910 for gfx90a."""


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
    switched: dict[str, float] = field(default_factory=dict)
    """The bandwidth of each GPU to NVSwitches."""
    to_cpu: dict[str, float] = field(default_factory=dict)
    """The bandwidth of each GPU to its CPU by NVLink."""
    c2c: dict[str, float] = field(default_factory=dict)
    """The bandwidth of each GPU to its CPU by C2C."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why each kind of link was taken."""
    dangling: int = 0
    """Links to GPUs that are not in the file."""
    own: dict[str, _Pair] = field(default_factory=dict)
    """Links of GPUs to themselves."""
    turned: list[str] = field(default_factory=list)
    """Notes on links of GPUs to themselves that were taken for other links."""
    doubtful: list[str] = field(default_factory=list)
    """Links to a bus id that several GPUs have."""

    def lead_to_cpu(self, gpu: str) -> bool:
        """Whether a GPU has other links to its CPU than PCIe."""
        return gpu in self.to_cpu or gpu in self.c2c

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


def nvlinks_of(parts: NcclParts, nvlink: str | None) -> Nvlinks:
    """The links of all GPUs, of the kind `nvlink` or else of the kind that `sm` tells.

    Raises InputError for links to what is not there, and for links of which the two ends tell
    different numbers.
    """
    links = Nvlinks()
    for part, gpu in ((part, part.gpu) for part in parts.gpus):
        for element in gpu.children if gpu else ():
            if element.tag == "c2c":
                total = element.whole("bw", 1, 10_000_000) * element.whole("count", 1, MOST) * 1e6
                _add(links.c2c, part, total)
            elif gpu and element.tag in ("nvlink", "xgmi"):
                name, reason = _xgmi_of(gpu) if element.tag == "xgmi" else _nvlink_of(gpu, nvlink)
                links.reasons.setdefault(name, reason)
                _add_link(links, parts, part, element, name)
    _turn_own(links)
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


def join(builder: TopologyBuilder, parts: NcclParts, links: Nvlinks) -> None:
    """Adds the links to GPUs and CPUs that are there already, and an NVSwitch."""
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
    c2c = LINKS["c2c"].link
    for part in parts.gpus:
        if part.name in links.c2c:
            link = replace(c2c, bandwidth=links.c2c[part.name])
            builder.connect(part.name, part.cpu, link, kind="c2c")
        elif part.name in links.to_cpu:
            link = replace(c2c, bandwidth=links.to_cpu[part.name])
            builder.connect(part.name, part.cpu, link, kind="nvlink", assumed=True)


def _turn_own(links: Nvlinks) -> None:
    """Take links of a GPU to itself for the way back to the GPU whose links to it have none, if
    there is just one."""
    for name, self_links in links.own.items():
        lonely = [
            gpu
            for (gpu, target) in links.pairs
            if target == name and (name, gpu) not in links.pairs
        ]
        alike = [gpu for gpu in lonely if links.pairs[gpu, name].count == self_links.count]
        text = f"{name} has {self_links.count} links to itself"
        if len(alike) == 1:
            links.pairs[name, alike[0]] = self_links
            links.turned.append(f"{text}: taken for those to {alike[0]}, which has as many to it")
        else:
            links.turned.append(f"{text}: left out")


def _add(totals: dict[str, float], part: NcclDevice, bandwidth: float) -> None:
    totals[part.name] = totals.get(part.name, 0.0) + bandwidth


def _add_link(
    links: Nvlinks, parts: NcclParts, part: NcclDevice, element: Element, kind: str
) -> None:
    count = element.whole("count", 1, MOST)
    target = _target(parts, part, element)
    if target is None:
        links.dangling += count
    elif target is part:
        links.own.setdefault(part.name, _Pair(element, kind)).count += count
    elif isinstance(target, NcclDevice):
        links.pairs.setdefault((part.name, target.name), _Pair(element, kind)).count += count
    else:
        _add(
            links.switched if target == "nvswitch" else links.to_cpu,
            part,
            count * LINKS[kind].link.bandwidth,
        )


def _target(parts: NcclParts, part: NcclDevice, element: Element) -> NcclDevice | str | None:
    """The GPU that a link leads to, "nvswitch" or "cpu"; None if it is not there. Raises InputError
    if it is no GPU."""
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


def _nvlink_of(gpu: Element, nvlink: str | None) -> tuple[str, str]:
    """The kind of the NVLinks of a <gpu>, and why."""
    if nvlink:
        return nvlink, "as asked for"
    generation = gpu.whole("sm", 0, 9999)
    return next(
        name for least, name in _GENERATIONS if generation >= least
    ), f"as usual for sm {generation}"


def _xgmi_of(gpu: Element) -> tuple[str, str]:
    """The kind of the XGMI links of a <gpu>, and why."""
    gcn = gpu.text("gcn", "unknown")
    model = gcn.lower().removeprefix("gfx")
    return next(
        (name for start, name in _XGMI.items() if model.startswith(start)), "xgmi3"
    ), f"as usual for {gcn}"
