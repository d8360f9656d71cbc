"""NCCL's own model of the time of a collective. Its tuner chooses algorithm and protocol by it.

Source: src/graph/tuning.cc of NVIDIA/nccl, constants and formulas as of June 2026, after v2.30.7-1.
A time is a latency plus bytes over a bandwidth. Nothing is simulated, and only the bandwidths of
links depend on the machine. The model has Ring and Tree only: NVLS, CollNet and PAT have bandwidths
from separate searches. The tree is balanced or split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, isfinite
from typing import NamedTuple

from topologies.errors import InputError

US, GBPS = 1e-6, 1e9
ALGORITHMS = ("ring", "tree")
PROTOCOLS = ("LL", "LL128", "Simple")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
GENERATIONS = ("volta", "ampere", "hopper", "blackwell")

NVLINK = dict(zip(GENERATIONS, (20.0, 20.0, 20.6, 40.1), strict=True))
"""GB/s of one link (src/graph/topo.h)."""
NVLS_EFFICIENCY = {"hopper": 0.85, "blackwell": 0.74}
"""The share of the NVLinks' rate that an all-reduce in NVSwitches reaches."""
NVLS_BASE = 25.0
"""us of it, whatever its size."""
BASE = {"ring": (6.6, 14.0, 8.4), "tree": (6.8, 14.0, 8.4)}
"""us of software, by protocol."""
STEP = {
    "nvlink": {"ring": (0.6, 1.9, 3.4), "tree": (0.6, 1.25, 4.0)},
    "pci": {"ring": (1.0, 2.5, 5.7), "tree": (1.0, 1.9, 4.0)},
    "network": {"ring": (2.7, 4.0, 14.0), "tree": (5.0, 8.5, 14.0)},
}
"""us of a step over a kind of link, by protocol."""
OVERHEAD = {"intel": 1.0, "amd": 2.0}
"""The least us of a ring's step inside a node, in a job over several nodes, by CPU. For Simple it
is three times as long."""
LL_MOST = {
    "volta": (39.0, 39.0, 20.4),
    "ampere": (87.7, 22.5, 19.0),
    "hopper": (141.0, 45.0, 35.0),
    "blackwell": (282.0, 90.0, 70.0),
}
"""The most GB/s of LL on 1, 2 and more nodes. On several nodes NCCL takes volta's row with Intel's
CPUs, and ampere's with AMD's."""
FASTEST = {"volta": 150.0, "ampere": 300.0, "hopper": 500.0}
"""The NVLinks of a GPU of a generation have less GB/s together, and those of later ones more."""
MOST = {
    ("ring", "LL128"): ((20.0,) * 3, (20.0,) * 3, (36.7,) * 3, (40.0,) * 3),
    ("tree", "LL128"): ((20.0,) * 3, (20.0,) * 3, (36.7, 36.7, 29.0), (55.6, 31.67, 20.0)),
    ("tree", "Simple"): (
        (26.5, 18.5, 10.0),
        (24.0, 23.6, 17.8),
        (38.7, 41.4, 36.0),
        (70.0, 42.8, 24.0),
    ),
}
"""The most GB/s of a channel on 1, 2 and more nodes: a row for each generation."""
CORRECTION = {
    "LL": (
        *(1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5),
        *(0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    ),
    "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, *(0.6,) * 6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    "Simple": (
        *(*(0.9,) * 7, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5),
        *(0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
    ),
}
"""The share of its bandwidth that a tree reaches, from 64 B on, for each doubling of the size."""


def generation_of(bandwidth: float) -> str:
    """The generation of a GPU whose NVLinks have so many bytes/s together.

    >>> generation_of(370.8e9)
    'hopper'
    """
    return next((name for name, most in FASTEST.items() if bandwidth < most * GBPS), "blackwell")


def most_on_one_node(generation: str, protocol: str, bandwidth: float) -> float:
    """The most bytes/s of LL or LL128 in a ring on one node, over links of `bandwidth`.

    LL128 has no limit but the links: a job has as many channels as they feed.
    """
    return min(bandwidth, LL_MOST[generation][0] * GBPS) if protocol == "LL" else bandwidth


@dataclass(frozen=True)
class NcclChannels:
    """The input of NCCL's tuner from its search of the machine. Raises InputError for a wrong
    value."""

    generation: str
    """The generation of the GPUs: one of `GENERATIONS`."""
    node: float
    """Bytes/s of a channel inside nodes."""
    network: float
    """Bytes/s of a channel between nodes."""
    count: int
    """Number of channels."""
    inside: str = "nvlink"
    """Links inside nodes: nvlink or pci."""
    cpu: str = "intel"
    """intel or amd."""
    nic: float = 0.0
    """Latency of a NIC, seconds."""
    alike: bool = True
    """Whether all channels have the same order of ranks."""

    def __post_init__(self) -> None:
        _one_of("generation", self.generation, GENERATIONS)
        _one_of("link inside nodes", self.inside, ("nvlink", "pci"))
        _one_of("CPU", self.cpu, tuple(OVERHEAD))
        for name, rate in (("inside nodes", self.node), ("between nodes", self.network)):
            if not (isfinite(rate) and rate >= 1):
                raise InputError(f"bandwidth {name} {rate}: expected at least 1 byte/s")
        if self.count < 1:
            raise InputError(f"{self.count} channels: expected at least 1")
        if not (isfinite(self.nic) and self.nic >= 0):
            raise InputError(f"NIC latency {self.nic}: expected seconds, at least 0")


@dataclass(frozen=True)
class NcclJob:
    """A collective of `ranks` GPUs on `nodes` nodes. Raises InputError if NCCL has no model of
    it."""

    collective: str
    ranks: int
    nodes: int
    channels: NcclChannels

    def __post_init__(self) -> None:
        _one_of("collective of NCCL's model", self.collective, COLLECTIVES)
        if self.ranks < 2:
            raise InputError(f"{self.ranks} ranks: expected at least 2")
        if not 1 <= self.nodes <= self.ranks:
            raise InputError(f"{self.nodes} nodes: expected from 1 to the {self.ranks} ranks")

    @property
    def per_node(self) -> int:
        """Ranks of the fullest node."""
        return -(-self.ranks // self.nodes)

    @property
    def steps(self) -> int:
        """Steps of a ring."""
        rounds = {"all_reduce": 2 * (self.ranks - 1), "broadcast": self.ranks, "reduce": self.ranks}
        return rounds.get(self.collective, self.ranks - 1)


class Choice(NamedTuple):
    """The choice of NCCL."""

    seconds: float
    """The time that NCCL predicts."""
    algorithm: str
    protocol: str


def channels(generation: str, bandwidth: float) -> NcclChannels:
    """NcclChannels that carry `bandwidth` bytes/s together, inside nodes and between them.

    As in NCCL's search a channel is at most as fast as an NVLink. Raises InputError for an unknown
    generation.
    """
    _one_of("generation", generation, GENERATIONS)
    count = ceil(bandwidth / (NVLINK[generation] * GBPS)) if isfinite(bandwidth) else 1
    each = bandwidth / max(1, count)
    return NcclChannels(generation, each, each, max(1, count))


def choice(
    job: NcclJob,
    nbytes: float,
    algorithms: Sequence[str] = ALGORITHMS,
    protocols: Sequence[str] = PROTOCOLS,
) -> Choice:
    """The fastest enabled algorithm and protocol, and the first of equals.

    Trees are enabled only for all_reduce, and LL128 only over NVLink. Raises InputError if nothing
    is enabled.
    """
    enabled = [how for how in product(algorithms, protocols) if _enabled(job, *how)]
    choices = [Choice(seconds(job, *how, nbytes), *how) for how in enabled]
    if not choices:
        raise InputError(
            f"nothing of {', '.join((*algorithms, *protocols))} is enabled for {job.collective}"
        )
    return min(choices, key=lambda candidate: candidate.seconds)


def seconds(job: NcclJob, algorithm: str, protocol: str, nbytes: float) -> float:
    """Seconds of a collective of `nbytes`, counted as nccl-tests does (V of the whole buffer).

    Raises InputError for an unknown algorithm or protocol, for a tree of another collective than
    all_reduce, or for bytes below 0.
    """
    _one_of(
        "algorithm", algorithm, ALGORITHMS if job.collective == "all_reduce" else ALGORITHMS[:1]
    )
    _one_of("protocol", protocol, PROTOCOLS)
    if not (isfinite(nbytes) and nbytes >= 0):
        raise InputError(f"{nbytes} bytes: expected at least 0")
    rate = bandwidth(job, algorithm, protocol) * _correction(algorithm, protocol, nbytes)
    return (
        latency(job, algorithm, protocol) * _plateau(job, algorithm, protocol, nbytes)
        + nbytes / rate
    )


def latency(job: NcclJob, algorithm: str, protocol: str) -> float:
    """Seconds of software and of all steps."""
    k, inter = PROTOCOLS.index(protocol), _between(job, algorithm, protocol)
    step, crossings = STEP[job.channels.inside][algorithm][k], job.nodes - 1
    base = BASE[algorithm][k]
    if algorithm == "tree":
        return (base + 2 * ((job.per_node - 1) * step + (job.nodes.bit_length() - 1) * inter)) * US
    if job.collective in ("broadcast", "reduce"):
        return (base + _one_way(job, protocol)) * US
    crossings *= 2 if job.collective == "all_reduce" else 1
    if job.nodes > 1:
        step = max(step, OVERHEAD[job.channels.cpu] * (3 if protocol == "Simple" else 1))
    return (base + (job.steps - crossings) * step + crossings * inter) * US


def bandwidth(job: NcclJob, algorithm: str, protocol: str) -> float:
    """Bytes/s of V, without the correction of trees."""
    machine, column = job.channels, min(job.nodes, 3) - 1
    row = GENERATIONS.index(machine.generation)
    bus = machine.count * (machine.node if job.nodes <= 2 else machine.network)
    if algorithm == "tree":
        bus = min(0.92 * bus, machine.count * MOST["tree", "Simple"][row][column] * GBPS)
    if protocol == "LL":
        bus = min(bus * (0.5 if algorithm == "ring" else 1 / 3.8), _ll_most(job) * GBPS)
    if protocol == "LL128":
        share = 0.92 if algorithm == "ring" else 7 / 9 if job.nodes == 1 else 120 / 128
        bus = min(share * bus, machine.count * MOST[algorithm, protocol][row][column] * GBPS)
    return bus * (job.ranks / job.steps if algorithm == "ring" else 0.5)


def _between(job: NcclJob, algorithm: str, protocol: str) -> float:
    """us of a step between nodes. If ranks are alone on their nodes, a ring's step takes as long as
    a tree's. Simple pays the NIC's latency twice."""
    kind = "tree" if job.per_node == 1 else algorithm
    nic = job.channels.nic / US * (2 if protocol == "Simple" else 1)
    return STEP["network"][kind][PROTOCOLS.index(protocol)] + nic


def _one_way(job: NcclJob, protocol: str) -> float:
    """us of a pipeline from or to a root: one step if channels are alike, else all steps."""
    kind = "ring" if job.channels.alike or protocol != "Simple" else "tree"
    step = STEP["network" if job.nodes > 1 else job.channels.inside][kind][
        PROTOCOLS.index(protocol)
    ]
    return step * (1 if job.channels.alike else job.steps)


def _ll_most(job: NcclJob) -> float:
    fallback = "ampere" if job.channels.cpu == "amd" else "volta"
    return LL_MOST[job.channels.generation if job.nodes == 1 else fallback][min(job.nodes, 3) - 1]


def _correction(algorithm: str, protocol: str, nbytes: float) -> float:
    doublings = int(nbytes // 64).bit_length() - 1
    return CORRECTION[protocol][doublings] if algorithm == "tree" and 0 <= doublings < 23 else 1.0


def _plateau(job: NcclJob, algorithm: str, protocol: str, nbytes: float) -> float:
    """The factor on the latency of a ring of Simple over several nodes, if a channel's part of a
    rank is at least 64 bytes."""
    if (job.collective, algorithm, protocol) != ("all_reduce", "ring", "Simple") or job.nodes == 1:
        return 1.0
    if nbytes / (job.channels.count * job.ranks) < 64:
        return 1.0
    return 1.9 if job.channels.generation == "volta" else 1.4


def _enabled(job: NcclJob, algorithm: str, protocol: str) -> bool:
    return (algorithm == "ring" or job.collective == "all_reduce") and not (
        protocol == "LL128" and job.channels.inside == "pci"
    )


def _one_of(what: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise InputError(f"{word[:40]!r} is no {what}: expected {', '.join(known)}")
