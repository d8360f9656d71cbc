"""The matrix of `nvidia-smi topo -m` as a machine.

The matrix tells the distances of devices, and the machine is the smallest with these distances. PIX
is one PCIe switch, PXB several, PHB one host bridge, NODE two host bridges of one CPU, and SYS two
CPUs. If a CPU has only one host bridge, the CPU is that bridge. NV# is a direct link of # NVLinks.
It leads through an NVSwitch if every two GPUs have the same number and no GPU has so many links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.errors import InputError
from topologies.link import Link
from topologies.link_kinds import LINKS, LinkKind
from topologies.readers.hosts import assumption, join_by_nvswitch, join_sockets, kind_named, plug
from topologies.readers.matrix import UNSAID, Matrix, level_named, parse
from topologies.readers.matrix import looks_like as looks_like
from topologies.topology import Ints, Topology
from topologies.topology_builder import TopologyBuilder

MOST_NVLINKS = 18
"""The most NVLinks of a GPU (NVIDIA H100, B200)."""
MOST_DIRECT = 4
"""The most GPUs that are all joined by equally many NVLinks without an NVSwitch."""
PIX, PXB, PHB, NODE, SYS = range(1, 6)

_HOSTS = {
    "nvlink1": ("pcie3", "qpi"),
    "nvlink2": ("pcie3", "upi2"),
    "nvlink3": ("pcie4", "fabric"),
    "nvlink4": ("pcie5", "upi3"),
    "nvlink5": ("pcie5", "upi4"),
}
"""PCIe and sockets of the usual hosts for NVLinks of each generation: DGX-1, DGX-2, DGX A100, H100
and B200."""
_WITHOUT_NVLINKS = ("pcie4", "fabric")


class _Kinds(NamedTuple):
    nvlink: str
    pcie: str
    socket: str


class _Cpu(NamedTuple):
    name: str
    devices: Ints


def read_matrix(
    text: str,
    name: str,
    *,
    nvlink: str | None = None,
    pcie: str | None = None,
    socket: str | None = None,
) -> Topology:
    """The machine of a `nvidia-smi topo -m` in `text`. Ranks are its GPUs in order. `name` is that
    of the file.

    The matrix gives no bandwidths. They are assumed: those of the kinds of links `nvlink`, `pcie`
    and `socket`, or else those that are usual for so many NVLinks. `notes` say which. Raises
    InputError with line and column.
    """
    matrix = parse(text, name)
    _check_nested(matrix)
    links = matrix.nvlinks[np.ix_(matrix.gpus, matrix.gpus)]
    kinds = _kinds(links, nvlink, pcie, socket)
    try:
        return _machine(matrix, links, kinds)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _kinds(links: Ints, nvlink: str | None, pcie: str | None, socket: str | None) -> _Kinds:
    """The kinds that the user names, and the usual kinds for so many NVLinks."""
    generation = kind_named("nvlink", nvlink, _generation(links))
    host = _HOSTS[generation] if links.any() else _WITHOUT_NVLINKS
    return _Kinds(
        generation, kind_named("pcie", pcie, host[0]), kind_named("socket", socket, host[1])
    )


def _machine(matrix: Matrix, links: Ints, kinds: _Kinds) -> Topology:
    builder = TopologyBuilder(matrix.file)
    gpus = set(matrix.gpus)
    for device, label in enumerate(matrix.names):
        builder.device(label, "gpu" if device in gpus else "nic", node=0)
    cpus = list(_cpus(matrix))
    for cpu in cpus:
        builder.device(cpu.name, "cpu", node=0)
    join_sockets(builder, [cpu.name for cpu in cpus], LINKS[kinds.socket])
    pcie = _Pcie(builder, matrix, LINKS[kinds.pcie])
    for cpu in cpus:
        pcie.hang_on(cpu)
    _join_gpus(builder, matrix, links, kinds.nvlink)
    builder.notes += _notes(matrix, links, kinds, len(cpus))
    return builder.build([matrix.names[gpu] for gpu in matrix.gpus])


def _classes(near: npt.NDArray[np.bool_]) -> Ints:
    """The class of each device, shape (n,), numbered in order. Devices that are near each other are
    in one class."""
    number = np.full(len(near), -1, dtype=np.int32)
    for first in range(len(near)):
        reached = near[first]
        if number[first] >= 0:
            continue
        while (wider := near[reached].any(axis=0)).sum() > reached.sum():
            reached = wider
        number[reached] = number.max() + 1
    return number


def _check_nested(matrix: Matrix) -> None:
    """Raise InputError if the distance of two devices is longer than by way of a third."""
    for level in range(PIX, SYS):
        number = _classes(matrix.level <= level)
        together = number[:, None] == number
        for row, column in np.argwhere(together & (matrix.level > level) & (matrix.level < UNSAID)):
            raise InputError(
                f"{matrix.file} {matrix.place(row, column)}: {matrix.text(row, column)}, but by "
                f"way of others it is "
                f"{level_named(level)}: what two devices are to a third they are to each other "
                f"at most"
            )


def _cpus(matrix: Matrix) -> Iterator[_Cpu]:
    """The CPUs and their devices. Devices share a CPU if their distance is below SYS, or, if the
    matrix is silent, if they have the same affinity."""
    number = _classes(matrix.level <= NODE)
    groups: list[Ints] = []
    keys: list[str | None] = []
    for part in range(number.max() + 1):
        members = np.flatnonzero(number == part).astype(np.int32)
        key = next((matrix.affinity[device] for device in members if matrix.affinity[device]), None)
        place = next(_fitting(matrix, members, key, groups, keys), None)
        if place is None:
            groups.append(members)
            keys.append(key)
        else:
            groups[place] = np.concatenate((groups[place], members))
            keys[place] = keys[place] or key
    for name, group in zip(_cpu_names(keys), groups, strict=True):
        yield _Cpu(name, group)


def _fitting(
    matrix: Matrix, members: Ints, key: str | None, groups: list[Ints], keys: list[str | None]
) -> Iterator[int]:
    """The CPUs to which devices may also belong."""
    for place, (group, group_key) in enumerate(zip(groups, keys, strict=True)):
        alike = key is None or group_key is None or key == group_key
        if alike and not (matrix.level[np.ix_(members, group)] == SYS).any():
            yield place


def _cpu_names(keys: list[str | None]) -> list[str]:
    """Names of the CPUs: cpu3 for NUMA node 3 if only one CPU has it. The others get the lowest
    free numbers."""
    stated = {key for key in keys if key and key.isdecimal() and keys.count(key) == 1}
    free = (str(number) for number in range(len(keys)) if str(number) not in stated)
    return [f"cpu{key if key in stated else next(free)}" for key in keys]


class _Pcie:
    """Connects devices to CPUs by as few bridges and switches as the matrix allows."""

    def __init__(self, builder: TopologyBuilder, matrix: Matrix, kind: LinkKind) -> None:
        self.builder, self.matrix, self.kind = builder, matrix, kind
        self.switches = self.bridges = 0

    def hang_on(self, cpu: _Cpu) -> None:
        """All devices of a CPU: a bridge for each group that has the distance NODE to the
        others."""
        parts = list(self._parts(cpu.devices, PHB))
        for part in parts:
            self._hang_on_bridge(
                part, cpu.name if len(parts) == 1 else self._bridge(cpu.name, part)
            )

    def _bridge(self, cpu: str, part: Ints) -> str:
        """A host bridge in the CPU. It is at least as fast as the devices on it."""
        name = self.builder.device(f"bridge{self.bridges}", "bridge", node=0)
        self.bridges += 1
        width = len(list(self._parts(part, PXB))) * self.kind.link.bandwidth
        self.builder.connect(name, cpu, Link(width), kind=self.kind.kind, assumed=True)
        return name

    def _hang_on_bridge(self, devices: Ints, bridge: str) -> None:
        for part in self._parts(devices, PXB):
            lower = list(self._parts(part, PIX))
            top = bridge if len(lower) == 1 else self._switch(bridge)
            for members in lower:
                switch = top if len(part) == 1 else self._switch(top)
                for device in members:
                    plug(self.builder, self.matrix.names[device], switch, self.kind, end=True)

    def _switch(self, upper: str) -> str:
        name = self.builder.device(f"pcie{self.switches}", "pcie switch", node=0)
        self.switches += 1
        plug(self.builder, name, upper, self.kind, end=False)
        return name

    def _parts(self, devices: Ints, level: int) -> Iterator[Ints]:
        """Groups of devices whose distance is at most a level."""
        number = _classes(self.matrix.level[np.ix_(devices, devices)] <= level)
        for part in range(number.max() + 1):
            yield devices[number == part]


def _joined(links: Ints) -> Iterator[tuple[Ints, bool]]:
    """The GPUs that NVLinks join, and whether an NVSwitch joins them."""
    number = _classes((links > 0) | np.eye(len(links), dtype=bool))
    for part in range(number.max() + 1):
        members = np.flatnonzero(number == part).astype(np.int32)
        between = links[np.ix_(members, members)]
        pairs = between[~np.eye(len(members), dtype=bool)]
        if pairs.size:
            same = len(members) > MOST_DIRECT and len(set(pairs.tolist())) == 1
            yield (
                members,
                bool((pairs > 0).all() and (same or between.sum(axis=1).max() > MOST_NVLINKS)),
            )


def _join_gpus(builder: TopologyBuilder, matrix: Matrix, links: Ints, nvlink: str) -> None:
    names, kind = [matrix.names[gpu] for gpu in matrix.gpus], LINKS[nvlink]
    switches = 0
    for members, switched in _joined(links):
        if switched:
            width = {names[gpu]: float(links[gpu].max()) * kind.link.bandwidth for gpu in members}
            join_by_nvswitch(builder, f"nvswitch{switches or ''}", width, nvlink)
            switches += 1
            continue
        for first, second in _pairs(members, links):
            link = replace(kind.link, bandwidth=float(links[first, second]) * kind.link.bandwidth)
            builder.connect(names[first], names[second], link, kind=kind.kind, assumed=True)


def _pairs(members: Ints, links: Ints) -> Iterable[tuple[int, int]]:
    return (
        (int(first), int(second))
        for first in members
        for second in members
        if first < second and links[first, second]
    )


def _per_gpu(links: Ints) -> int:
    """The most NVLinks that a GPU has."""
    counts = [
        links[members].max() if switched else links[members].sum(axis=1).max()
        for members, switched in _joined(links)
    ]
    return int(max(counts, default=0))


def _generation(links: Ints) -> str:
    """The usual generation for so many NVLinks of a GPU: P100 4, singly; V100 6; A100 12; H100 and
    B200 18.

    Bridges of two or three NVLinks (Turing) are of the second generation, and those of four (GA102,
    A6000) of the third.
    """
    count = _per_gpu(links)
    if count == 4 and links.max() == 1:
        return "nvlink1"
    if count <= 6 and links.max(initial=0) != 4:
        return "nvlink2"
    return "nvlink3" if count <= 12 else "nvlink4"


def _notes(matrix: Matrix, links: Ints, kinds: _Kinds, cpus: int) -> Iterator[str]:
    if links.any():
        count = _per_gpu(links)
        yield assumption(
            "NVLink", kinds.nvlink, f"as the matrix shows {count} link{'s' * (count > 1)} a GPU"
        )
    yield assumption("PCIe", kinds.pcie, "16 lanes everywhere, as the matrix does not say")
    if cpus > 1:
        yield assumption("between CPUs", kinds.socket, "as the matrix does not say")
    silent = matrix.level == UNSAID
    if (silent & (matrix.nvlinks == 0) & (matrix.lines > 0)).any():
        yield (
            "PCIe: cells such as NS and OK say nothing of the way; it is taken by CPU affinity, "
            "through host bridges"
        )
    gpus = np.ix_(matrix.gpus, matrix.gpus)
    if (silent & (matrix.nvlinks > 0))[gpus].any():
        yield (
            "PCIe between GPUs with NVLinks: as their NICs and CPU affinity have it, since NV# "
            "hides it"
        )
    if silent.any() and not any(matrix.affinity):
        yield "CPUs: no affinities are given; what nothing shows to be SYS apart is on one CPU"
