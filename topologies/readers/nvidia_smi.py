"""The matrix of `nvidia-smi topo -m` as a machine.

The matrix tells the distances of devices, and the machine is the smallest with these distances. PIX
is one PCIe switch, PXB several, PHB one host bridge, NODE two host bridges of one CPU, and SYS two
CPUs. If a CPU has only one host bridge, the CPU is that bridge. NV# is a direct link of # NVLinks.
It leads through an NVSwitch if every two GPUs have the same number and no GPU has so many links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from topologies.errors import InputError, naming
from topologies.link import LINKS, Link, LinkKind
from topologies.readers.hosts import assumption, join_by_nvswitch, join_sockets, kind_named, plug
from topologies.readers.matrix import UNSAID, Matrix, level_named, parse
from topologies.readers.matrix import looks_like as looks_like
from topologies.topology import Flags, Ints, Topology
from topologies.topology_builder import TopologyBuilder

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
    nvlink = kind_named("nvlink", nvlink, _generation(links))
    host = _HOSTS[nvlink] if links.any() else ("pcie4", "fabric")
    pcie, socket = kind_named("pcie", pcie, host[0]), kind_named("socket", socket, host[1])
    with naming(name):
        builder = TopologyBuilder(matrix.file)
        gpus = {*matrix.gpus}
        for device, label in enumerate(matrix.names):
            builder.device(label, "gpu" if device in gpus else "nic", node=0)
        cpus = _cpus(matrix)
        for cpu in cpus:
            builder.device(cpu, "cpu", node=0)
        join_sockets(builder, list(cpus), LINKS[socket])
        for cpu, devices in cpus.items():
            _hang_on_cpu(builder, matrix, LINKS[pcie], cpu, devices)
        _join_gpus(builder, matrix, links, nvlink)
        builder.notes += _notes(matrix, links, nvlink, pcie)
        if len(cpus) > 1:
            builder.notes.append(assumption("between CPUs", socket, "as the matrix does not say"))
        builder.notes += _silent(matrix)
        return builder.build([matrix.names[gpu] for gpu in matrix.gpus])


def _classes(near: Flags) -> Ints:
    """The class of each device, shape (n,), numbered in order. Devices that are near each other are
    in one class."""
    from scipy.sparse.csgraph import connected_components

    return np.asarray(connected_components(near, directed=False)[1], dtype=np.int32)


def _groups(matrix: Matrix, devices: Ints, level: int) -> list[Ints]:
    number = _classes(matrix.level[np.ix_(devices, devices)] <= level)
    return [devices[number == part] for part in range(number.max() + 1)]


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


def _cpus(matrix: Matrix) -> dict[str, Ints]:
    """The CPUs and their devices. Devices share a CPU if their distance is below SYS, or, if the
    matrix is silent, if they have the same affinity."""
    groups: list[Ints] = []
    keys: list[str | None] = []
    for members in _groups(matrix, np.arange(len(matrix.level), dtype=np.int32), NODE):
        key = next((matrix.affinity[device] for device in members if matrix.affinity[device]), None)
        for place, (group, other) in enumerate(zip(groups, keys, strict=True)):
            alike = key is None or other is None or key == other
            if alike and not (matrix.level[np.ix_(members, group)] == SYS).any():
                groups[place] = np.concatenate((group, members))
                keys[place] = other or key
                break
        else:
            groups.append(members)
            keys.append(key)
    # A CPU is cpu3 if it alone has NUMA node 3. The others get the lowest free numbers.
    stated = {key for key in keys if key and key.isdecimal() and keys.count(key) == 1}
    free = (str(number) for number in range(len(keys)) if str(number) not in stated)
    names = [f"cpu{key if key in stated else next(free)}" for key in keys]
    return dict(zip(names, groups, strict=True))


def _hang_on_cpu(
    builder: TopologyBuilder, matrix: Matrix, kind: LinkKind, cpu: str, devices: Ints
) -> None:
    """Connect devices to their CPU by as few bridges and switches as the matrix allows: a bridge
    for each group that has the distance NODE to the others."""

    def switch(upper: str) -> str:
        name = builder.device(f"pcie{builder.count('pcie switch')}", "pcie switch", node=0)
        plug(builder, name, upper, kind, end=False)
        return name

    parts = _groups(matrix, devices, PHB)
    for bridged in parts:
        below, bridge = _groups(matrix, bridged, PXB), cpu
        if len(parts) > 1:
            bridge = builder.device(f"bridge{builder.count('bridge')}", "bridge", node=0)
            # It is at least as fast as the devices on it.
            width = Link(len(below) * kind.link.bandwidth)
            builder.connect(bridge, cpu, width, kind=kind.kind, assumed=True)
        for part in below:
            lower = _groups(matrix, part, PIX)
            top = bridge if len(lower) == 1 else switch(bridge)
            for members in lower:
                upper = top if len(part) == 1 else switch(top)
                for device in members:
                    plug(builder, matrix.names[device], upper, kind, end=True)


def _joined(links: Ints) -> Iterator[tuple[Ints, bool]]:
    """The GPUs that NVLinks join, and whether an NVSwitch joins them."""
    number = _classes((links > 0) | np.eye(len(links), dtype=bool))
    for part in range(number.max() + 1):
        members = np.flatnonzero(number == part).astype(np.int32)
        between = links[np.ix_(members, members)]
        pairs = between[~np.eye(len(members), dtype=bool)]
        if pairs.size:
            # Without an NVSwitch, at most 4 GPUs are all joined by equally many NVLinks.
            same = len(members) > 4 and len(set(pairs.tolist())) == 1
            yield (
                members,
                # H100 and B200 have 18 NVLinks, and no GPU has more.
                bool((pairs > 0).all() and (same or between.sum(axis=1).max() > 18)),
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
        for first, second in combinations(members.tolist(), 2):
            if links[first, second]:
                bandwidth = float(links[first, second]) * kind.link.bandwidth
                link = replace(kind.link, bandwidth=bandwidth)
                builder.connect(names[first], names[second], link, kind=kind.kind, assumed=True)


def _per_gpu(links: Ints) -> int:
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


def _notes(matrix: Matrix, links: Ints, nvlink: str, pcie: str) -> Iterator[str]:
    if links.any():
        count = _per_gpu(links)
        yield assumption(
            "NVLink", nvlink, f"as the matrix shows {count} link{'s' * (count > 1)} a GPU"
        )
    yield assumption("PCIe", pcie, "16 lanes everywhere, as the matrix does not say")


def _silent(matrix: Matrix) -> Iterator[str]:
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
