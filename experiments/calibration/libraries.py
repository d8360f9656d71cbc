"""The prior knowledge of each library: its algorithms, its protocols, and about what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from experiments.calibration.decisions import Rule, rules
from experiments.calibration.effects.copied_messages import CopiedMessages
from experiments.calibration.effects.crowding import Growth
from experiments.calibration.effects.effect import LIKELY, Data, Effect
from experiments.calibration.effects.few_channels import FewChannels
from experiments.calibration.effects.host_memory import HostMemory
from experiments.calibration.effects.launch import Launch
from experiments.calibration.effects.long_exchanges import LongExchanges
from experiments.calibration.effects.message_gaps import MessageGaps
from experiments.calibration.effects.multicast import Multicast
from experiments.calibration.effects.node_corrections import NodeCorrections
from experiments.calibration.effects.pinned_memory import PinnedMemory
from experiments.calibration.effects.ports import Ports
from experiments.calibration.effects.protocols import Prior, Protocols
from experiments.calibration.effects.reductions import Reductions
from experiments.calibration.effects.registered_memory import RegisteredMemory
from experiments.calibration.effects.ring_latency import Rings
from experiments.calibration.effects.rooted_latency import Roots
from experiments.calibration.effects.sends import Sends
from experiments.spellings import MPI_RUNS, NCCL_NEEDS_HARDWARE, NCCL_RUNS, library_name, named
from simulator.collectives.in_network import multicasts
from simulator.cost_models import nccl
from simulator.effects.jobs import used_nodes
from simulator.effects.pieces import Pieces
from topologies.catalogue import Blueprint
from topologies.topology import Topology

US, GBPS = 1e-6, 1e9
ELEMENT = 4
"""Bytes."""
VERBS, TCP, PLUGIN = "verbs", "TCP", "plugin"
"""Transports. With verbs, the NICs of InfiniBand and RoCE read and write GPUs or hosts."""


@dataclass(frozen=True)
class Library:
    """A communication library."""

    name: str
    """The name."""
    protocols: tuple[Prior, ...]
    """The protocols, from that of the shortest messages to that of the longest."""
    effects: tuple[Callable[[Data], Effect], ...]
    """The effects that make up the time of a collective, each a function of the data. An effect may
    change what earlier effects wrote."""
    chooses: Mapping[str, tuple[str, ...]]
    """The algorithms of each collective if none is forced, and no published rule says which."""
    multicasts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The algorithms that it may choose besides if the switches of a node multicast."""
    spelled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The algorithms that may run under a name that is not one of ours."""
    few: Mapping[str, str] = field(default_factory=dict)
    """The algorithm that runs instead of another one if there are fewer elements than ranks."""
    deviates: bool = False
    """Whether the library may run its own choice in spite of a forced algorithm."""
    by_message: bool = False
    """Whether the size of each message decides what it costs, and not that of the collective."""
    unsure: tuple[str, ...] = ()
    """Forced algorithms that the library replaces without a message if the machine lacks what they
    need."""
    pieces: Mapping[str, Pieces] = field(default_factory=dict)
    """The algorithms that the library divides into other pieces than simctl does."""
    transport: str = VERBS
    """The transport that α of `protocols` are of."""
    plugins: bool = False
    """Whether it sends through the host by a plugin or sockets wherever there are no verbs."""
    over_nics: Mapping[str, str] = field(default_factory=dict)
    """The algorithms that take one NIC of each node here, and those that take all of them."""

    def on(self, machine: Blueprint | None) -> Library:
        """The library on a machine whose NICs are known. Nodes of a shape have a port each, as by
        default."""
        if machine is None or machine.kind == "shape":
            return self
        instead = self.over_nics
        return replace(
            self,
            chooses={
                collective: tuple(instead.get(name, name) for name in names)
                for collective, names in self.chooses.items()
            },
            spelled={**self.spelled, **{name: (other,) for name, other in instead.items()}},
        )

    @property
    def known(self) -> tuple[str, ...]:
        """The algorithms of all collectives that the library may choose."""
        return tuple(name for names in self.chooses.values() for name in self.all_of(names))

    def all_of(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The algorithms, and those that replace them for few elements."""
        return tuple(
            dict.fromkeys((*names, *(self.few[name] for name in names if name in self.few)))
        )

    def rule(
        self, collective: str, ranks: int | None, version: str, nodes: int | None = None
    ) -> Rule | None:
        """The published rule by which this version of the library chooses, if there is one. Without
        `nodes`, each rank has a node."""
        if not ranks or not self.deviates:
            return None
        known = rules(version, levels=1 < (nodes or ranks) < ranks) or {}
        rule = known.get(collective)
        return partial(rule, ranks) if rule else None

    def running(self, names: tuple[str, ...], elements: float, ranks: int) -> tuple[str, ...]:
        """The algorithms that run on so many elements if `names` were chosen, with their pieces."""
        ran = (self.few.get(name, name) if elements < ranks else name for name in names)
        return tuple(
            self.pieces[name].name(name, elements * ELEMENT) if name in self.pieces else name
            for name in dict.fromkeys(ran)
        )

    def forced_protocols(self, protocol: str) -> tuple[str, ...]:
        """The protocols that a library may use if `protocol` is forced; none if it is unknown
        here."""
        return tuple(
            prior.name
            for prior in self.protocols
            if protocol and protocol in (prior.name, prior.kind_of)
        )

    def algorithms(
        self, collective: str, forced: str = "", *, multicast: bool = False
    ) -> tuple[str, ...]:
        """The algorithms here that may have run a collective; none if it is unknown. `multicast`:
        whether the switches of a node multicast."""
        if forced:
            return named(self.spelled.get(forced, (forced,)), collective)
        more = self.multicasts.get(collective, ()) if multicast else ()
        return named((*self.chooses.get(collective, ()), *more), collective)

    def algorithms_on(
        self, topology: Topology, collective: str, forced: str = ""
    ) -> tuple[str, ...]:
        """As :meth:`algorithms`, in a job on all ranks of a machine. A label that is unknown counts
        as none."""
        single = topology.ranks > 2 and used_nodes(topology) == 1
        multicast = single and multicasts(topology)
        labelled = self.algorithms(collective, forced) if forced else ()
        return labelled or self.algorithms(collective, multicast=multicast)


def _step(node: float, network: float) -> dict[str, float]:
    """α of each link of a step: inside a node and between nodes a step crosses two links."""
    return {"node": node / 2 * US, "network": network / 2 * US}


def _rates(node: float, network: float) -> dict[str, float]:
    return {"node": 1 / (node * GBPS), "network": 1 / (network * GBPS)}


def _reached(node: float, network: float) -> dict[str, float]:
    return {"node": node, "network": network}


def _tree(node: float, network: float) -> dict[str, dict[str, float]]:
    return {"double_tree": {"node": node, "network": network}}


_USUAL = _reached(0.82, 0.82)
"""What a library usually reaches of a specified β, before anybody measures."""

_CHAINS = {"chain_broadcast": "chains_broadcast", "chain_reduce": "chains_reduce"}
"""The chains of one NIC of each node, and those of all."""
_BEHIND = dict.fromkeys((*_CHAINS, *_CHAINS.values()), _reached(0.0, 0.0))
"""α of a short message in a chain: in calls one after the other it waits in the next rank's buffer,
while its sender goes on."""

_HOST = (NodeCorrections, Growth)
"""The effects by which jobs on hosts slow down as they grow."""

_CHOSEN = {
    "all_gather": ("ring_all_gather",),
    "reduce_scatter": ("ring_reduce_scatter",),
    "all_to_all": ("pairwise",),
    "send_recv": ("shift",),
    "ping_pong": ("ping_pong",),
    "broadcast": ("chain_broadcast",),
    "reduce": ("chain_reduce",),
}

CHANNEL = 1 / (20.4 * GBPS)
"""1/β of a channel on Hopper, about that of an NVLink: eight GPUs of the H100 cluster send 64 MiB
to one peer at 81.8 GB/s over four channels, and four GPUs at 157 GB/s over eight."""
_CHUNKS = dict.fromkeys(("nvls", "nvls_tree"), Pieces(8, 64, 2.0**22))
NVLS_LATENCY = (nccl.NVLS_BASE - nccl.BASE["ring"][0]) * US
"""What NVLS takes besides the launch."""

NCCL = Library(
    "NCCL",
    (
        Prior(
            "short",
            _step(0.6, 2.7),
            _rates(0.15, 0.15),
            _tree(1.0, 5.0 / 2.7) | _BEHIND,
            True,
            "LL",
        ),
        Prior(
            "LL",
            _step(0.6, 2.7),
            _rates(15, 15),
            _tree(1.0, 5.0 / 2.7) | _BEHIND,
            share=0.5,
            reached=_reached(1.0, 0.05),
            weight=LIKELY,
        ),
        Prior(
            "LL128",
            _step(1.9, 4.0),
            _rates(50, 50),
            _tree(1.25 / 1.9, 8.5 / 4.0),
            share=0.92,
            reached=_reached(1.0, 0.4),
            weight=LIKELY,
        ),
        Prior(
            "Simple",
            _step(3.4, 14.0),
            _rates(240, 80),
            _tree(4.0 / 3.4, 1.0),
            reached=_reached(0.95, 0.89),
        ),
    ),
    (
        partial(Launch, start=nccl.BASE["ring"][0] * US),
        partial(Protocols, weight=LIKELY),
        partial(Sends, algorithms={"shift": "sends", "pairwise": "all-to-all"}),
        partial(FewChannels, algorithm="shift", slowness=CHANNEL),
        partial(
            Multicast,
            algorithm="nvls",
            latency=NVLS_LATENCY,
            efficiency=nccl.NVLS_EFFICIENCY["hopper"],
        ),
        Growth,
        Ports,
    ),
    _CHOSEN | {"all_reduce": ("ring", "double_tree")},
    {"all_reduce": ("nvls",)},
    spelled=NCCL_RUNS,
    unsure=NCCL_NEEDS_HARDWARE,
    pieces=dict.fromkeys(_BEHIND, Pieces(512, 512))
    | {"double_tree": Pieces(8, 32, 2.0**20), **_CHUNKS},
    plugins=True,
    over_nics={
        "ring": "rings",
        "ring_all_gather": "rings_all_gather",
        "ring_reduce_scatter": "rings_reduce_scatter",
        **_CHAINS,
    },
)
"""Latencies of a step are NCCL's own (src/graph/tuning.cc): those of Ring over NVLink and network,
and those of Tree in proportion. Bandwidths are about those of an LL, LL128 and Simple step on a
node of 2020 to 2023. `short` is LL by a single warp. Its 32 lanes store 8 bytes each and wait about
1.7 us for the next flags: 0.15 GB/s.

NCCL opens few channels for short messages, and as many for long ones as the links feed. In jobs
over several nodes, the network feeds them: LL reaches about 0.05 of its specified β, and LL128 0.4
of it (0.02 to 0.06 and 0.3 to 0.5 on ABCI V100, Alps and MareNostrum 5). Jobs on one node have a β
of their own (`nccl.most_on_one_node`). Most machines are within a factor of 2: see the weight.

LL and LL128 pass on each line that has arrived. So a chain has many small pieces: with 64, filling
a chain of 128 ranks would take twice as long as sending V.

A tree has chunks of at least 128 KiB in each channel (src/enqueue.cc): 1 MiB over eight channels.
So trees of a few MiB have few pieces, which one rank after the other receives whole. Fewer than
eight pieces made unseen sizes of the V100 runs worse.

NVLS takes 25 us where other algorithms have a base of 6.6 us, and reaches 0.85 of the rate of
NVLinks on Hopper (src/graph/tuning.cc). Its chunks have 32 to 64 KiB in each of 8 heads and 16
channels, so pieces have 4 to 8 MiB.
"""

_SCRATCH = {
    "recursive_doubling": 1.0,
    "halving_doubling": 0.5,
    "tree": 3.0,
    "binary_tree": 1.0,
    "ring_reduce_scatter": 1.0,
    "recursive_halving_reduce_scatter": 1.5,
}


def _mpi(**memory: Any) -> tuple[Callable[[Data], Effect], ...]:
    """The effects of MPI, with figures of its `memory`."""
    return (
        partial(Launch, start=1.0 * US),
        Reductions,
        Protocols,
        partial(MessageGaps, waits="rendezvous", node=0.2 * US, network=0.5 * US),
        Roots,
        partial(Rings, protocol="rendezvous"),
        partial(HostMemory, **{"scratch": _SCRATCH} | memory),
        partial(RegisteredMemory, joined={"ring_reduce_scatter": 0.5}),
        partial(PinnedMemory, algorithms=_SCRATCH.keys()),
        partial(LongExchanges, beyond=2.0**22),
        *_HOST,
        partial(CopiedMessages, not_copied="rendezvous"),
    )


MPI = Library(
    "MPI",
    (
        Prior("short", _step(0.6, 2.5), _rates(2, 0.5), longest={"cray mpich": 192.0}),
        Prior("eager", _step(1.2, 5.0), _rates(6, 2)),
        Prior("rendezvous", _step(3.0, 12.0), _rates(20, 12), reached=_USUAL),
    ),
    _mpi(),
    _CHOSEN
    | {
        "all_reduce": ("recursive_doubling", "halving_doubling", "ring"),
        "all_gather": ("recursive_doubling_all_gather", "ring_all_gather", "neighbor_exchange"),
        "broadcast": ("tree_broadcast", "chain_broadcast"),
        "reduce": ("tree_reduce",),
        "reduce_scatter": ("recursive_halving_reduce_scatter", "ring_reduce_scatter"),
        "all_to_all": ("pairwise_sync", "linear_all_to_all", "bruck_all_to_all"),
    },
    spelled=MPI_RUNS,
    few={"ring": "recursive_doubling"},
    deviates=True,
    by_message=True,
)
"""There are three message protocols. Short messages travel with their header, eager messages are
copied at both ends, and large messages wait for their receiver. On Slingshot a command holds
messages of up to 192 bytes (libfabric, prov/cxi, cxip_send_eager_idc and C_MAX_IDC_PAYLOAD_UNR).

Open MPI's ring needs an element for each rank, and is recursive doubling otherwise. Its scratch is
that of ompi/mca/coll/base. Nonoverlapping is a reduce and then a broadcast, each by the library's
choice.

Fresh blocks of a ring share pages. UCX's registration cache (src/ucs/memory/rcache.c) registers a
block that overlaps a known region together with it again: V p / 2 bytes in all.

All-gathers show what long exchanges cost. With the same bytes a rank, rings are as fast as
exchanges of up to 2 MiB. With messages 8 times as long, exchanges take nearly twice as long a byte,
and rings do not.
"""

GLOO = Library(
    "gloo",
    (Prior("tcp", _step(60, 60), _rates(1, 1), reached=_USUAL),),
    (partial(Launch, start=50 * US), Protocols, HostMemory, *_HOST),
    {
        "all_reduce": ("gloo_ring",),
        **{
            name: (f"gloo_{name}",)
            for name in ("broadcast", "all_gather", "reduce_scatter", "reduce", "all_to_all")
        },
    },
    deviates=True,
    transport=TCP,
)

FUJITSU = replace(
    MPI,
    name="Fujitsu",
    effects=_mpi(scratch={**_SCRATCH, "binary_tree": 3.0}, mapped=2.0**27, trimmed=2.0**27),
)
"""As MPI, over an allocator with large pages that maps and trims from 128 MiB on (its
MALLOC_MMAP_THRESHOLD_). For mapped sizes, a reduce and a broadcast lose 3.5 times as much time to
fresh memory as recursive doubling, which has V of fresh memory."""

LIBRARIES = {library.name.lower(): library for library in (NCCL, MPI, FUJITSU, GLOO)}
"""The libraries by name."""


def library(name: str) -> Library:
    """The library of a name. Raises InputError with the names if there is none."""
    return LIBRARIES[library_name(name).lower()]
