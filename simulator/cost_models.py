"""Closed forms: time, volume, steps and memory of each algorithm, with their assumptions and sources.

Notation: p ranks, V bytes each, α the latency of a route, g the gap of a message, β the bandwidth of a port, γ the
seconds to merge a byte; x(n) = g + n/β. With g = 0 this is the postal model, with α = 0 Hockney's one-port model, the
one of MPICH's formulas. Every form below holds in both, and for both together. Simulation shares no code with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from simulator.fabric import Fabric, Ports

ONE_PORT: tuple[Ports, ...] = ("peer", "switch", "one")
POSTED: tuple[Ports, ...] = ("peer", "switch")

Amount = Callable[[int, float], float]


@dataclass(frozen=True)
class CostModel:
    """`time(fabric, p, V)` in seconds; `volume`, `peak` (the fullest rank) and `redundant` (all ranks together, at its
    most) in bytes, as functions of p and V; `steps(p)`. The time is claimed on the port models in `ports`, the memory
    on those in `memory_ports`, both on uniform routes only. A form that is `unclaimed` for the reason given says how an
    ideal machine would do, and is shown beside the simulation without a verdict."""

    latex: str
    assumes: str
    source: str
    time: Callable[[Fabric, int, float], float]
    volume: Amount
    steps: Callable[[int], int]
    peak: Amount
    redundant: Amount
    ports: tuple[Ports, ...] = ONE_PORT
    memory_ports: tuple[Ports, ...] = ONE_PORT
    model: str = "postal and gap"
    unclaimed: str = ""

    def holds(self, fabric: Fabric) -> str:
        """Empty where the assumptions hold, else which one does not."""
        if self.unclaimed:
            return self.unclaimed
        if not fabric.uniform:
            return "routes differ"
        return "" if fabric.ports in self.ports else f"{fabric.ports} ports"


def log2_floor(ranks: int) -> int:
    """⌊log2 p⌋."""
    return ranks.bit_length() - 1


def log2_ceil(ranks: int) -> int:
    """⌈log2 p⌉."""
    return (ranks - 1).bit_length()


def is_power_of_two(ranks: int) -> bool:
    """Whether no folding is needed."""
    return ranks & (ranks - 1) == 0


def _ring(fabric: Fabric, p: int, nbytes: float) -> float:
    return (p - 1) * (fabric.latency + fabric.send(nbytes / p))


def _ring_reducing(fabric: Fabric, p: int, nbytes: float) -> float:
    return _ring(fabric, p, nbytes) + (p - 1) * nbytes / p * fabric.reduction


def _incast(fabric: Fabric, messages: int, nbytes: float) -> float:
    """`messages` at once into one rank, which merges them as they arrive."""
    send, merge = fabric.send(nbytes), nbytes * fabric.reduction
    if fabric.ports == "peer":
        return fabric.latency + send + messages * merge
    return fabric.latency + (messages - 1) * max(send, merge) + send + merge


def _outcast(fabric: Fabric, messages: int, nbytes: float) -> float:
    """`messages` at once out of one rank."""
    return fabric.latency + (1 if fabric.ports == "peer" else messages) * fabric.send(nbytes)


def _naive(fabric: Fabric, p: int, nbytes: float) -> float:
    messages = {"peer": 1, "bus": p * (p - 1)}.get(fabric.ports, p - 1)
    return fabric.latency + messages * fabric.send(nbytes) + (p - 1) * nbytes * fabric.reduction


def _parameter_server(fabric: Fabric, p: int, nbytes: float) -> float:
    return _incast(fabric, p - 1, nbytes) + _outcast(fabric, p - 1, nbytes)


def _parameter_server_apart(fabric: Fabric, p: int, nbytes: float) -> float:
    arrive = 0.0 if fabric.ports == "peer" else fabric.send(nbytes)
    return arrive + _incast(fabric, p - 1, nbytes) + _outcast(fabric, p, nbytes)


def _binomial(fabric: Fabric, p: int, nbytes: float) -> float:
    return log2_ceil(p) * (fabric.latency + fabric.send(nbytes))


def _binomial_reducing(fabric: Fabric, p: int, nbytes: float) -> float:
    return _binomial(fabric, p, nbytes) + log2_ceil(p) * nbytes * fabric.reduction


def _folds(p: int) -> int:
    return 0 if is_power_of_two(p) else 1


def _recursive_doubling(fabric: Fabric, p: int, nbytes: float) -> float:
    rounds = log2_floor(p)
    messages, merges = rounds + 2 * _folds(p), rounds + _folds(p)
    return messages * (fabric.latency + fabric.send(nbytes)) + merges * nbytes * fabric.reduction


def _halving_doubling(fabric: Fabric, p: int, nbytes: float) -> float:
    q = 1 << log2_floor(p)
    messages = 2 * (log2_floor(p) + _folds(p))
    moved = (2 * (q - 1) / q + 2 * _folds(p)) * nbytes
    merged = ((q - 1) / q + _folds(p)) * nbytes
    return messages * (fabric.latency + fabric.gap) + moved / fabric.bandwidth + merged * fabric.reduction


def _doubled(p: int) -> int:
    """Chunks on the longest way through log2 q exchanges, in each of which the lower ranks stand for more."""
    return sum((1 << level) + min(1 << level, p - (1 << log2_floor(p))) for level in range(log2_floor(p)))


def _doubling_gather(fabric: Fabric, p: int, nbytes: float) -> float:
    messages, moved = log2_floor(p) + 2 * _folds(p), _doubled(p) + _folds(p) * (p + 1)
    return messages * (fabric.latency + fabric.gap) + moved * nbytes / p / fabric.bandwidth


def _halving_scatter(fabric: Fabric, p: int, nbytes: float) -> float:
    return _doubling_gather(fabric, p, nbytes) + (_doubled(p) + _folds(p) * p) * nbytes / p * fabric.reduction


def _neighbor_exchange(fabric: Fabric, p: int, nbytes: float) -> float:
    if p % 2:
        return _ring(fabric, p, nbytes)
    return p // 2 * (fabric.latency + fabric.gap) + (p - 1) * nbytes / p / fabric.bandwidth


def _pairwise(fabric: Fabric, p: int, nbytes: float) -> float:
    return fabric.latency + (1 if fabric.ports == "peer" else p - 1) * fabric.send(nbytes / p)


THAKUR = "Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005"
PATARASUK = "Patarasuk, Yuan, JPDC 69(2), 2009"
RING_ASSUMES = "full duplex, one port, uniform routes between neighbours"
ASSUMES = "full duplex, one port, non-blocking, uniform routes"

RING_REDUCE_SCATTER = CostModel(
    latex=r"(p-1)\left(\alpha + g + \frac{V}{p\beta} + \frac{V}{p}\gamma\right)",
    assumes=RING_ASSUMES,
    source=PATARASUK,
    time=_ring_reducing,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: p - 1,
    peak=lambda p, nbytes: nbytes + nbytes / p,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
)
RING_ALL_GATHER = CostModel(
    latex=r"(p-1)\left(\alpha + g + \frac{V}{p\beta}\right)",
    assumes=RING_ASSUMES,
    source=THAKUR,
    time=_ring,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: p - 1,
    peak=lambda p, nbytes: nbytes,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
)
RING_ALL_REDUCE = CostModel(
    latex=r"2(p-1)\left(\alpha + g + \frac{V}{p\beta}\right) + (p-1)\frac{V}{p}\gamma",
    assumes=RING_ASSUMES,
    source=PATARASUK,
    time=lambda fabric, p, nbytes: _ring_reducing(fabric, p, nbytes) + _ring(fabric, p, nbytes),
    volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
    steps=lambda p: 2 * (p - 1),
    peak=lambda p, nbytes: nbytes + nbytes / p,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
)
NAIVE = CostModel(
    latex=r"\alpha + (p-1)\left(g + \frac{V}{\beta}\right) + (p-1)V\gamma",
    assumes="one port a rank, peers in the order r+1, r+2, ...; with a port a peer one message's time, on a bus p(p-1)",
    source="everyone sends everything to everyone; merged once all is sent",
    time=_naive,
    volume=lambda p, nbytes: p * (p - 1) * nbytes,
    steps=lambda p: 1,
    peak=lambda p, nbytes: p * nbytes,
    redundant=lambda p, nbytes: p * (p - 1) * nbytes,
    ports=(*ONE_PORT, "bus"),
)
NAIVE_SERIAL = CostModel(
    latex=r"p\left(\alpha + (p-2)\max(x, V\gamma) + x + V\gamma\right),\ x = g + \frac{V}{\beta}",
    assumes="one root at a time, free barriers between turns; one port; with a port a peer p(α + x + (p-1)Vγ)",
    source="p reductions, one root after another",
    time=lambda fabric, p, nbytes: p * _incast(fabric, p - 1, nbytes),
    volume=lambda p, nbytes: p * (p - 1) * nbytes,
    steps=lambda p: p,
    peak=lambda p, nbytes: (p + 1) * nbytes,
    redundant=lambda p, nbytes: 2 * (p - 1) * nbytes,
    ports=(*ONE_PORT, "bus"),
    memory_ports=POSTED,
)
PARAMETER_SERVER = CostModel(
    latex=r"2\alpha + (p-2)\max(x, V\gamma) + px + V\gamma,\ x = g + \frac{V}{\beta}",
    assumes="rank 0 serves, requests overlap, merged as they arrive, one port; with a port a peer 2(α + x) + (p-1)Vγ",
    source="Li et al., OSDI 2014; colocated with the workers as in BytePS, OSDI 2020",
    time=_parameter_server,
    volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
    steps=lambda p: 2,
    peak=lambda p, nbytes: p * nbytes,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
    ports=(*ONE_PORT, "bus"),
    memory_ports=POSTED,
)
PARAMETER_SERVER_APART = CostModel(
    latex=r"2\alpha + (p-2)\max(x, V\gamma) + (p+2)x + V\gamma,\ x = g + \frac{V}{\beta}",
    assumes="one server besides the p workers, merged as they arrive, one port; with a port a peer 2(α + x) + (p-1)Vγ",
    source="Li et al., OSDI 2014; non-colocated with one server in BytePS, OSDI 2020",
    time=_parameter_server_apart,
    volume=lambda p, nbytes: 2 * p * nbytes,
    steps=lambda p: 2,
    peak=lambda p, nbytes: p * nbytes,
    redundant=lambda p, nbytes: p * nbytes,
    ports=(*ONE_PORT, "bus"),
    memory_ports=POSTED,
)
TREE_REDUCE = CostModel(
    latex=r"\lceil\log_2 p\rceil\left(\alpha + g + \frac{V}{\beta} + V\gamma\right)",
    assumes=f"{ASSUMES}; off powers of two the highest ranks fold first",
    source=THAKUR,
    time=_binomial_reducing,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=log2_ceil,
    peak=lambda p, nbytes: 2 * nbytes,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
)
TREE_BROADCAST = CostModel(
    latex=r"\lceil\log_2 p\rceil\left(\alpha + g + \frac{V}{\beta}\right)",
    assumes=f"{ASSUMES}; off powers of two the highest ranks unfold last",
    source=THAKUR,
    time=_binomial,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=log2_ceil,
    peak=lambda p, nbytes: nbytes,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
)
TREE_ALL_REDUCE = CostModel(
    latex=r"\lceil\log_2 p\rceil\left(2\alpha + 2g + \frac{2V}{\beta} + V\gamma\right)",
    assumes=f"{ASSUMES}; a binomial reduce, then a binomial broadcast",
    source=THAKUR,
    time=lambda fabric, p, nbytes: _binomial_reducing(fabric, p, nbytes) + _binomial(fabric, p, nbytes),
    volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
    steps=lambda p: 2 * log2_ceil(p),
    peak=lambda p, nbytes: 2 * nbytes,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
)
RECURSIVE_DOUBLING = CostModel(
    latex=r"(\log_2 q + 2f)\left(\alpha + g + \frac{V}{\beta}\right) + (\log_2 q + f)V\gamma",
    assumes=f"{ASSUMES}; q = 2^⌊log2 p⌋, f = 1 off powers of two (a fold before, an unfold after), else 0",
    source=THAKUR,
    time=_recursive_doubling,
    volume=lambda p, nbytes: ((1 << log2_floor(p)) * log2_floor(p) + 2 * (p - (1 << log2_floor(p)))) * nbytes,
    steps=lambda p: log2_floor(p) + 2 * _folds(p),
    peak=lambda p, nbytes: 2 * nbytes,
    redundant=lambda p, nbytes: (p + (1 << log2_floor(p)) - 2) * nbytes,
)
HALVING_DOUBLING = CostModel(
    latex=r"2(\log_2 q + f)(\alpha + g) + \left(2\frac{q-1}{q} + 2f\right)\frac{V}{\beta}"
    r" + \left(\frac{q-1}{q} + f\right)V\gamma",
    assumes=f"{ASSUMES}; q = 2^⌊log2 p⌋, f = 1 off powers of two, else 0",
    source=f"Rabenseifner, ICCS 2004; {THAKUR}",
    time=_halving_doubling,
    volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
    steps=lambda p: 2 * (log2_floor(p) + _folds(p)),
    peak=lambda p, nbytes: (2 if _folds(p) else 1.5) * nbytes,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
)
RECURSIVE_DOUBLING_ALL_GATHER = CostModel(
    latex=r"(\log_2 q + 2f)(\alpha + g) + \frac{s + f(p+1)}{p}\frac{V}{\beta},"
    r"\ s = \sum_{2^k < q}\left(2^k + \min(2^k, p-q)\right)",
    assumes=f"{ASSUMES}; q = 2^⌊log2 p⌋, f = 1 off powers of two, else 0, where s = p - 1",
    source=f"{THAKUR}; off powers of two folded in pairs",
    time=_doubling_gather,
    volume=lambda p, nbytes: (p - 1) * nbytes + (p - (1 << log2_floor(p))) * nbytes / p,
    steps=lambda p: log2_floor(p) + 2 * _folds(p),
    peak=lambda p, nbytes: nbytes,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
)
RECURSIVE_HALVING_REDUCE_SCATTER = replace(
    RECURSIVE_DOUBLING_ALL_GATHER,
    latex=r"(\log_2 q + 2f)(\alpha + g) + \frac{s + f(p+1)}{p}\frac{V}{\beta} + \frac{s + fp}{p}V\gamma,"
    r"\ s = \sum_{2^k < q}\left(2^k + \min(2^k, p-q)\right)",
    time=_halving_scatter,
    peak=lambda p, nbytes: (2 if _folds(p) else 1.5) * nbytes,
)
NEIGHBOR_EXCHANGE = CostModel(
    latex=r"\frac{p}{2}(\alpha + g) + \frac{p-1}{p}\frac{V}{\beta}",
    assumes=f"{RING_ASSUMES}; p even, else a ring: p - 1 for p/2",
    source="Chen et al., Performance Evaluation of Allgather Algorithms on Terascale Linux Cluster, HPC Asia 2005",
    time=_neighbor_exchange,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: p - 1 if p % 2 else p // 2,
    peak=lambda p, nbytes: nbytes,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
)
PAIRWISE_ALL_TO_ALL = CostModel(
    latex=r"\alpha + (p-1)\left(g + \frac{V}{p\beta}\right)",
    assumes="one port a rank, peers in the order r+1, r+2, ...; with a port a peer one message's time",
    source="MPICH's pairwise exchange, all messages posted at once",
    time=_pairwise,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: 1,
    peak=lambda p, nbytes: nbytes + (p - 1) * nbytes / p,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
    memory_ports=("peer",),
)
SHIFT = CostModel(
    latex=r"\alpha + g + \frac{V}{\beta}",
    assumes="full duplex; every rank sends to the next at once",
    source="nccl-tests sendrecv_perf",
    time=lambda fabric, p, nbytes: fabric.latency + fabric.send(nbytes),
    volume=lambda p, nbytes: p * nbytes,
    steps=lambda p: 1,
    peak=lambda p, nbytes: 2 * nbytes,
    redundant=lambda p, nbytes: p * nbytes,
)


def rings(base: CostModel, bandwidth: float, channels: int) -> CostModel:
    """The form of one ring for several that together hand on `bandwidth` bytes/s; one alone is what `base` says."""
    if channels == 1:
        return base
    return replace(
        base,
        latex=base.latex.replace(r"\beta", "B"),
        assumes=f"{channels} rings with an equal share of V, B = {bandwidth:.6g} bytes/s together, shortest route's α",
        time=lambda fabric, p, nbytes: base.time(replace(fabric, bandwidth=bandwidth), p, nbytes),
        unclaimed=f"{channels} rings",
    )


def chain_broadcast(pieces: int) -> CostModel:
    """From rank to rank, in `pieces`."""
    return CostModel(
        latex=r"(p-1)\alpha + (p+m-2)\left(g + \frac{V}{m\beta}\right)",
        assumes=f"{RING_ASSUMES}; V in m = {pieces} pieces",
        source="van de Geijn, Watts, SUMMA, Concurrency 9(4), 1997: the pipelined ring broadcast",
        time=lambda fabric, p, nbytes: (p - 1) * fabric.latency + (p + pieces - 2) * fabric.send(nbytes / pieces),
        volume=lambda p, nbytes: (p - 1) * nbytes,
        steps=lambda p: p - 1,
        peak=lambda p, nbytes: nbytes,
        redundant=lambda p, nbytes: (p - 1) * nbytes,
    )


def chain_reduce(pieces: int) -> CostModel:
    """As :func:`chain_broadcast`, the other way round, with a merge at every rank."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        send, merge = fabric.send(nbytes / pieces), nbytes / pieces * fabric.reduction
        return (p - 1) * (fabric.latency + send + merge) + (pieces - 1) * max(send, merge)

    return replace(
        chain_broadcast(pieces),
        latex=r"(p-1)(\alpha + x + y) + (m-1)\max(x, y),\ x = g + \frac{V}{m\beta},\ y = \frac{V}{m}\gamma",
        time=time,
        peak=lambda p, nbytes: nbytes + nbytes / pieces,
        memory_ports=(),
    )


def chain_all_reduce(pieces: int) -> CostModel:
    """:func:`chain_reduce`, and then :func:`chain_broadcast`."""
    reduce, broadcast = chain_reduce(pieces), chain_broadcast(pieces)
    return replace(
        reduce,
        latex=r"2(p-1)\alpha + (p-1)(x + y) + (m-1)\max(x, y) + (p+m-2)x,"
        r"\ x = g + \frac{V}{m\beta},\ y = \frac{V}{m}\gamma",
        time=lambda fabric, p, nbytes: reduce.time(fabric, p, nbytes) + broadcast.time(fabric, p, nbytes),
        volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
        steps=lambda p: 2 * (p - 1),
    )


def double_tree(pieces: int, depth: int | None = None, channels: int = 1) -> CostModel:
    """Half of V through each of two binary trees, in `pieces` each; `depth` is ⌈log2 p⌉ unless nodes are chains. Of
    several `channels` each has two trees for its share."""

    def steps(p: int) -> int:
        return 2 * (log2_ceil(p) if depth is None else depth)

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        sends = min(p, 4) * pieces + steps(p) - 2
        return steps(p) * fabric.latency + sends * fabric.send(nbytes / (2 * channels * pieces))

    return CostModel(
        latex=r"2D\alpha + (\min(p, 4)m + 2D - 2)\left(g + \frac{V}{2m\beta}\right)".replace("2m", f"{2 * channels}m"),
        assumes=f"D = {depth or '⌈log2 p⌉'} steps up; halves in m = {pieces} pieces, no port ever idle; "
        f"{'γ = 0' if channels == 1 else f'{channels} channels over as many ports; γ = 0'}",
        source="Sanders, Speck, Träff, Parallel Computing 35(12), 2009; src/graph/trees.cc of NVIDIA/nccl",
        time=time,
        volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
        steps=steps,
        peak=lambda p, nbytes: nbytes,
        redundant=lambda p, nbytes: (p - 1) * nbytes,
        memory_ports=(),
        unclaimed="pipelined in pieces",
    )


def sharp(pieces: int, leaves: int = 1) -> CostModel:
    """All workers push into one switch, which multicasts the sum, in `pieces`; or into several `leaves` below one."""
    below = leaves if leaves > 1 else 0
    return CostModel(
        latex=r"2\alpha + (m+1)\left(g + \frac{V}{m\beta}\right)",
        assumes=f"switches that reduce and multicast at line rate, V in m = {pieces} pieces, all workers on one switch",
        source="Graham et al., Scalable hierarchical aggregation protocol (SHARP), COMHPC 2016",
        time=lambda fabric, p, nbytes: 2 * fabric.latency + (pieces + 1) * fabric.send(nbytes / pieces),
        volume=lambda p, nbytes: 2 * (p + below) * nbytes,
        steps=lambda p: 4 if below else 2,
        peak=lambda p, nbytes: nbytes,
        redundant=lambda p, nbytes: (p - 1) * nbytes,
        ports=("peer",),
        memory_ports=(),
        unclaimed="two levels of switches" if below else "",
    )


def nvls(pieces: int, groups: int = 1, *, in_network: bool = False) -> CostModel:
    """Every chunk is reduced on its way through the switch to its owner, all-reduced among the owners of all groups,
    and multicast by the switch, in `pieces`."""
    across = 2 * groups if in_network else 2 * (groups - 1)
    return CostModel(
        latex=r"6\alpha + \left(1 + \frac{1}{p}\right)\frac{V}{\beta}",
        assumes=f"switches reduce and multicast; a port sends V and its own chunk; {pieces} pieces, no end effects",
        source="multimem.ld_reduce and multimem.st of NVLink SHARP (NVIDIA Hopper architecture whitepaper)",
        time=lambda fabric, p, nbytes: 6 * fabric.latency + (1 + groups / p) * nbytes / fabric.bandwidth,
        volume=lambda p, nbytes: (2 * p + groups + across) * nbytes,
        steps=lambda p: 2 * pieces + (2 if in_network else 2 * (groups - 1)) + (2 if p > groups else 1),
        peak=lambda p, nbytes: nbytes,
        redundant=lambda p, nbytes: (p - 1) * nbytes,
        memory_ports=(),
        unclaimed="pipelined in pieces",
    )


def _gloo_pass(fabric: Fabric, p: int, nbytes: float) -> float:
    """Once round the ring, all chunks in two segments."""
    send, hear = fabric.send(nbytes / (2 * p)), fabric.gap + 2 * fabric.latency
    return hear + 2 * send + (p - 2) * max(2 * send, hear + send)


def _gloo_direct(fabric: Fabric, p: int, nbytes: float) -> float:
    """A chunk straight to each or from each, all at once, after as many ready signals."""
    return fabric.gap + fabric.latency + _pairwise(fabric, p, nbytes)


def _gloo_broadcast(fabric: Fabric, p: int, nbytes: float) -> float:
    """Rank c hears it after one latency for every 1 of its binary digits, and one sending for every digit."""
    send, hops = fabric.send(nbytes), range(1, log2_ceil(p) + 1)
    ones = [max(c.bit_count() for c in range(1 << h >> 1, min(1 << h, p))) for h in hops]
    sends = ones if fabric.ports == "peer" else hops
    return fabric.gap + fabric.latency + max(a * fabric.latency + n * send for a, n in zip(ones, sends, strict=True))


GLOO_RING = CostModel(
    latex=r"2\left(h + 2x + (p-2)\max(2x, h + x)\right),\ h = g + 2\alpha,\ x = g + \frac{V}{2p\beta}",
    assumes="two segments a chunk, each sent once its receiver is ready; ready signals wait for no data; γ = 0",
    source="gloo/allreduce.cc of facebookincubator/gloo",
    time=lambda fabric, p, nbytes: 2 * _gloo_pass(fabric, p, nbytes),
    volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
    steps=lambda p: 4 * (p - 1),
    peak=lambda p, nbytes: nbytes + nbytes / p,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
    memory_ports=(),
    unclaimed="ready signals wait behind data",
)
GLOO_REDUCE = replace(
    GLOO_RING,
    latex=r"2h + 2x + (p-2)\max(2x, h + x) + (p-1)y,\ h = g + 2\alpha,\ x = g + \frac{V}{2p\beta},"
    r"\ y = g + \frac{V}{p\beta}",
    source="gloo/reduce.cc of facebookincubator/gloo",
    time=lambda fabric, p, nbytes: _gloo_pass(fabric, p, nbytes) + _gloo_direct(fabric, p, nbytes),
    volume=lambda p, nbytes: (p - 1) * (nbytes + nbytes / p),
    steps=lambda p: 2 * p,
)
GLOO_ALL_GATHER = replace(
    GLOO_RING,
    latex=r"h + 2x + (p-2)\max(2x, h + x),\ h = g + 2\alpha,\ x = g + \frac{V}{2p\beta}",
    assumes="chunks in halves, each sent once its receiver is ready; ready signals wait for no data",
    source="gloo/allgather.cc of facebookincubator/gloo",
    time=_gloo_pass,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: 2 * (p - 1),
    peak=lambda p, nbytes: nbytes,
)
GLOO_BROADCAST = replace(
    GLOO_ALL_GATHER,
    latex=r"g + \alpha + \lceil\log_2 p\rceil(\alpha + x),\ x = g + \frac{V}{\beta}",
    assumes="p = 2^k, one child after the other as fifo has it; under fair sharing (log2 p + 1)/2 times as many x",
    source="gloo/broadcast.cc of facebookincubator/gloo",
    time=_gloo_broadcast,
    steps=lambda p: 1 + max(rank.bit_count() for rank in range(p)),
)
GLOO_SCATTER = replace(
    GLOO_ALL_GATHER,
    latex=r"g + 2\alpha + (p-1)\left(g + \frac{V}{p\beta}\right)",
    assumes="one port, all sent at once when their receivers are ready; ready signals wait for no data",
    source="gloo/scatter.cc of facebookincubator/gloo",
    time=_gloo_direct,
    volume=lambda p, nbytes: (p - 1) / p * nbytes,
    steps=lambda p: 2,
    redundant=lambda p, nbytes: (p - 1) / p * nbytes,
)
GLOO_GATHER = replace(GLOO_SCATTER, source="gloo/gather.cc of facebookincubator/gloo")
GLOO_ALL_TO_ALL = replace(
    PAIRWISE_ALL_TO_ALL,
    latex=GLOO_SCATTER.latex,
    assumes=GLOO_SCATTER.assumes,
    source="gloo/alltoall.cc of facebookincubator/gloo",
    time=_gloo_direct,
    steps=lambda p: 2,
    unclaimed=GLOO_RING.unclaimed,
)
GLOO_SEND_RECV = replace(
    SHIFT,
    latex=r"2g + 2\alpha + \frac{V}{\beta}",
    assumes=GLOO_SCATTER.assumes,
    source="Pair::send and Pair::recv in gloo/transport/tcp/pair.cc of facebookincubator/gloo",
    time=lambda fabric, p, nbytes: fabric.gap + fabric.latency + SHIFT.time(fabric, p, nbytes),
    steps=lambda p: 2,
    unclaimed=GLOO_RING.unclaimed,
)
