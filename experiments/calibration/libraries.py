"""What is known of a library before anything is measured: its algorithms, its protocols, and about
what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

from experiments.spellings import MPI_RUNS, NCCL_NEEDS_HARDWARE, NCCL_RUNS, library_name, named

US, GBPS = 1e-6, 1e9
RINGS = ("ring", "ring_all_gather", "ring_reduce_scatter")
"""Algorithms in which a rank sends to one rank and receives from another, at every step the same
two."""


@dataclass(frozen=True)
class Prior:
    """Where a fit starts for a protocol: α of one step inside a node and between nodes, seconds,
    and 1/β, s/B; and by how much α counts more in an algorithm (inside, between). With `rings`, α
    is another in rings, by how much is to be fitted. With `one_rate` the GPU's own stores, flags
    between them, are what limits it, and 1/β is one number for all links. `kind_of` is the protocol
    that it is a form of. `share` is what flags leave of a link."""

    name: str
    latency: Mapping[str, float]
    slowness: Mapping[str, float]
    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    one_rate: bool = False
    kind_of: str = ""
    rings: bool = False
    share: float = 1.0

    def rate(self, kind: str) -> str:
        """The name of the parameter that is 1/β of links of `kind`."""
        return f"{self.name} 1/β" if self.one_rate else f"{self.name} {kind} 1/β"

    def factor(self, algorithm: str, reach: str) -> float:
        """By how much α counts more in `algorithm`, inside a "node" or in the "network"."""
        return self.factors.get(algorithm, {}).get(reach, 1.0)


@dataclass(frozen=True)
class Library:
    """`chooses`: the algorithms of each collective where none is forced. `spelled`: what may run
    under a name that is none here. `few`: what it takes instead of an algorithm if there are fewer
    elements than ranks. `memory`: whether ranks merge and copy on the host, at a speed that is to
    be fitted; `scratch`: how much of the memory that an algorithm allocates each time it writes, in
    units of V; `mapped` and `trimmed`: the sizes in bytes from which the allocator asks the system
    for a block anew, and from which it gives back several at the heap's end; `joined`: how much of
    such memory is registered with the network again, in units of V and ranks. `long`: how many
    bytes of a message two ranks may send to each other in one step at the rate of all links; the
    others are slower, by how much is to be fitted. `pairs`: algorithms of sends and receives, for
    which the library has other channels, so that α and 1/β are others, by how much is to be fitted.
    `paced`: a job over several nodes has as many channels as its network feeds, so that links
    inside have its β. `unsure`: algorithms that the library leaves for another one, without a word,
    where the machine does not have what they need."""

    name: str
    launch: float
    protocols: tuple[Prior, ...]
    chooses: Mapping[str, tuple[str, ...]]
    spelled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    few: Mapping[str, str] = field(default_factory=dict)
    memory: bool = False
    scratch: Mapping[str, float] = field(default_factory=dict)
    mapped: float = 2.0**25
    trimmed: float = 2.0**19
    paced: bool = False
    joined: Mapping[str, float] = field(default_factory=dict)
    long: float = inf
    pairs: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    def all_of(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Algorithms, and those that are taken in their place for few elements."""
        return tuple(
            dict.fromkeys((*names, *(self.few[name] for name in names if name in self.few)))
        )

    def running(self, names: tuple[str, ...], elements: float, ranks: int) -> tuple[str, ...]:
        """What runs where `names` were chosen and there are so many elements."""
        return tuple(
            dict.fromkeys(self.few.get(name, name) if elements < ranks else name for name in names)
        )

    def told(self, protocol: str) -> tuple[str, ...]:
        """The protocols that a library told to use one may use; none if it is not known here."""
        return tuple(
            prior.name
            for prior in self.protocols
            if protocol and protocol in (prior.name, prior.kind_of)
        )

    def algorithms(self, collective: str, forced: str = "") -> tuple[str, ...]:
        """The algorithms here that may have run a collective; none if it is not known."""
        words = self.spelled.get(forced, (forced,)) if forced else self.chooses.get(collective, ())
        return named(words, collective)


def _step(node: float, network: float) -> dict[str, float]:
    """α of each of the two links that a step crosses inside a node, and of the two between
    nodes."""
    return {"node": node / 2 * US, "network": network / 2 * US}


def _rates(node: float, network: float) -> dict[str, float]:
    return {"node": 1 / (node * GBPS), "network": 1 / (network * GBPS)}


def _tree(node: float, network: float) -> dict[str, dict[str, float]]:
    return {"double_tree": {"node": node, "network": network}}


_BEHIND = {name: {"node": 0.0, "network": 0.0} for name in ("chain_broadcast", "chain_reduce")}
"""In calls one after the other a short message waits in the next rank's buffer, and its sender goes
on to the next."""

_CHOSEN = {
    "all_gather": ("ring_all_gather",),
    "reduce_scatter": ("ring_reduce_scatter",),
    "all_to_all": ("pairwise",),
    "send_recv": ("shift",),
    "broadcast": ("chain_broadcast",),
    "reduce": ("chain_reduce",),
}

NCCL = Library(
    "NCCL",
    6.6 * US,
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
            "LL", _step(0.6, 2.7), _rates(15, 15), _tree(1.0, 5.0 / 2.7) | _BEHIND, True, share=0.5
        ),
        Prior(
            "LL128", _step(1.9, 4.0), _rates(50, 50), _tree(1.25 / 1.9, 8.5 / 4.0), True, share=0.92
        ),
        Prior("Simple", _step(3.4, 14.0), _rates(240, 80), _tree(4.0 / 3.4, 1.0)),
    ),
    _CHOSEN | {"all_reduce": ("ring", "double_tree")},
    NCCL_RUNS,
    paced=True,
    pairs=("pairwise", "shift"),
    unsure=NCCL_NEEDS_HARDWARE,
)
"""Latencies of a step are NCCL's own, of Ring over NVLink and network, and those of Tree in
proportion (src/graph/ tuning.cc); bandwidths are about what an LL, LL128 and Simple step reach on a
node of 2020 to 2023. `short` is LL by a single warp: 32 lanes store 8 bytes each and wait about 1.7
us for the next flags, 0.15 GB/s."""

MPI = Library(
    "MPI",
    1.0 * US,
    (
        Prior("short", _step(0.6, 2.5), _rates(2, 0.5)),
        Prior("eager", _step(1.2, 5.0), _rates(6, 2)),
        Prior("rendezvous", _step(3.0, 12.0), _rates(20, 12), rings=True),
    ),
    _CHOSEN
    | {
        "all_reduce": ("recursive_doubling", "halving_doubling", "ring"),
        "all_gather": ("recursive_doubling_all_gather", "ring_all_gather", "neighbor_exchange"),
        "broadcast": ("tree_broadcast", "chain_broadcast"),
        "reduce": ("tree_reduce",),
        "reduce_scatter": ("recursive_halving_reduce_scatter", "ring_reduce_scatter"),
    },
    MPI_RUNS,
    {"ring": "recursive_doubling"},
    memory=True,
    scratch={
        "recursive_doubling": 1.0,
        "halving_doubling": 0.5,
        "tree": 3.0,
        "binary_tree": 1.0,
        "ring_reduce_scatter": 1.0,
        "recursive_halving_reduce_scatter": 1.5,
    },
    joined={"ring_reduce_scatter": 0.5},
    long=2.0**22,
)
"""Three message protocols, of short messages that travel with their header, eager ones that are
copied at both ends, and large ones that wait for their receiver. Open MPI's ring needs an element a
rank and is recursive doubling else; its scratch is by ompi/mca/coll/base. A ring's blocks of fresh
memory share pages, and UCX's registration cache (src/ucs/memory/rcache.c) registers one that
overlaps a known region together with it, anew: V p / 2 bytes in all. All-gathers show what `long`
is: with the same bytes a rank, rings and exchanges of up to 2 MiB are as fast, while of 8 times as
long ones those of two ranks with each other take nearly twice as long a byte, and those of rings do
not. Nonoverlapping is a reduce and then a broadcast, each by the library's own choice."""

GLOO = Library(
    "gloo",
    50 * US,
    (Prior("tcp", _step(60, 60), _rates(1, 1)),),
    {
        "all_reduce": ("gloo_ring",),
        **{
            name: (f"gloo_{name}",)
            for name in ("broadcast", "all_gather", "reduce_scatter", "reduce", "all_to_all")
        },
    },
    memory=True,
)

FUJITSU = replace(
    MPI,
    name="Fujitsu",
    mapped=2.0**27,
    trimmed=2.0**27,
    scratch={**MPI.scratch, "binary_tree": 3.0},
)
"""As MPI, over an allocator with large pages that maps and trims from 128 MiB on (its
MALLOC_MMAP_THRESHOLD_). Where it maps, a reduce and a broadcast lose 3.5 times as much time to
fresh memory as recursive doubling, which has V of it."""

LIBRARIES = {library.name.lower(): library for library in (NCCL, MPI, FUJITSU, GLOO)}
"""The libraries by name."""


def library(name: str) -> Library:
    """The library of a name. Raises InputError with the names if there is none."""
    return LIBRARIES[library_name(name).lower()]
