"""The prior knowledge of each library: its algorithms, its protocols, and about what they cost."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from experiments.calibration.decisions import rows
from experiments.calibration.effects.algorithm_effects import (
    few_channels,
    launch,
    multicast,
    reductions,
    ring_latency,
    rooted_latency,
    sends,
)
from experiments.calibration.effects.effect import LIKELY, Data, Effect, Prior
from experiments.calibration.effects.link_effects import (
    copied_messages,
    growth,
    long_exchanges,
    message_gaps,
    node_corrections,
    ports,
    protocols,
)
from experiments.calibration.effects.software_effects import (
    host_memory,
    own_copies,
    peer_messages,
    pieces,
    pinned_memory,
    registered_memory,
)
from experiments.calibration.library import ELEMENT, TCP, Library
from experiments.spellings import MPI_RUNS, NCCL_NEEDS_HARDWARE, NCCL_RUNS, NCCL_TUNER, library_name
from simulator.cost_models import nccl
from simulator.effects.jobs import used_nodes
from simulator.effects.software_costs import PieceCounts
from topologies.topology import Topology

US, GBPS = 1e-6, 1e9


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

_HOST = (node_corrections, growth)
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
SENDS = {"shift": "sends", "pairwise": "all-to-all"}
"""Algorithms of sends and receives, and how parameters call them."""
MULTICAST = ("nvls", "nvls_tree")
"""Algorithms of NCCL in switches that reduce and multicast."""
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
            reached=_reached(1.0, 0.89),
            gap={"network": 3.0 * US},
        ),
    ),
    (
        partial(launch, start=nccl.BASE["ring"][0] * US),
        partial(protocols, weight=LIKELY),
        partial(sends, algorithms=SENDS),
        partial(few_channels, algorithm="shift", slowness=CHANNEL),
        partial(
            multicast,
            algorithm="nvls",
            latency=NVLS_LATENCY,
            efficiency=nccl.NVLS_EFFICIENCY["hopper"],
        ),
        growth,
        ports,
        own_copies,
        pieces,
        partial(peer_messages, node=0.3 * US, network=1.5 * US),
    ),
    _CHOSEN | {"all_reduce": ("ring", "double_tree")},
    {"all_reduce": ("nvls",)},
    {"all_reduce": ("nvls_tree",)},
    spelled=NCCL_RUNS,
    unsure=NCCL_NEEDS_HARDWARE,
    pieces=dict.fromkeys(_BEHIND, PieceCounts(512, 512))
    | {
        "double_tree": PieceCounts(8, 32, 2.0**20),
        **dict.fromkeys(MULTICAST, PieceCounts(8, 64, 2.0**22)),
    },
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
    return (
        partial(launch, start=1.0 * US),
        reductions,
        protocols,
        partial(message_gaps, waits="rendezvous", node=0.2 * US, network=0.5 * US),
        rooted_latency,
        partial(ring_latency, protocol="rendezvous"),
        partial(host_memory, **{"scratch": _SCRATCH} | memory),
        partial(registered_memory, joined={"ring_reduce_scatter": 0.5}),
        partial(pinned_memory, algorithms=_SCRATCH.keys()),
        partial(long_exchanges, beyond=2.0**22),
        *_HOST,
        partial(copied_messages, not_copied="rendezvous"),
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
    (partial(launch, start=50 * US), protocols, host_memory, *_HOST),
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


def choices(
    library: Library, version: str, collective: str, topology: Topology, nbytes: float
) -> tuple[str, ...]:
    """The algorithms of which a job on all ranks of a machine runs the fastest, whatever their
    pieces. If this version of the library has a published rule, the one by that."""
    ranks = topology.ranks
    rule = library.rule(collective, ranks, version, int(used_nodes(topology)))
    names = (rule(nbytes),) if rule else library.algorithms_on(topology, collective)
    return replace(library, pieces={}).running(names, nbytes / ELEMENT, ranks)


def _forced(library: str) -> Collection[str]:
    """The algorithms that a library runs where they are forced, besides its own choices."""
    if library == NCCL.name:
        return NCCL_TUNER
    if library not in (MPI.name, FUJITSU.name):
        return ()
    entries = (row["algorithm"] for of in rows("Open MPI").values() for row in of)
    names = chain(entries, *MPI_RUNS.values())
    return {name.partition(":")[0] for name in names}


def runs(library: Library, name: str, topology: Topology) -> bool:
    """Whether a library can run an algorithm in a job on all ranks of a machine. NCCL has NVLS on
    several nodes only if switches between them reduce, NVLSTree only on several nodes, and PAT only
    with one rank on each (src/graph/tuning.cc)."""
    forced = name in _forced(library.name) and name not in library.over_nics
    if not forced and name not in library.known:
        return False
    nodes = used_nodes(topology)
    if name == "nvls":
        return nodes == 1 or bool((topology.in_network & (topology.node < 0)).any())
    if name == "nvls_tree":
        return nodes > 1
    return nodes == topology.ranks or not name.startswith("pat_")
