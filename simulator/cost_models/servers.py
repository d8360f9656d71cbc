"""Formulas of exchanges in which all ranks send at once, or some ranks serve all: naive, linear,
pairwise, parameter servers, direct reads, map-reduce."""

from __future__ import annotations

from dataclasses import replace

from simulator.cost_models.cost_model import ONE_PORT, POSTED, CostModel
from simulator.cost_models.fabric import Fabric


def _incast(fabric: Fabric, messages: int, nbytes: float) -> float:
    """`messages` at once into one rank, which merges them as they arrive."""
    send, merge = fabric.send(nbytes), nbytes * fabric.reduction
    if fabric.ports == "peer":
        return fabric.latency + send + messages * merge
    return fabric.latency + (messages - 1) * max(send, merge) + send + merge


def outcast(fabric: Fabric, messages: int, nbytes: float) -> float:
    """`messages` at once out of one rank."""
    return fabric.latency + (1 if fabric.ports == "peer" else messages) * fabric.send(nbytes)


def _naive(fabric: Fabric, p: int, nbytes: float) -> float:
    messages = {"peer": 1, "bus": p * (p - 1)}.get(fabric.ports, p - 1)
    return fabric.latency + messages * fabric.send(nbytes) + (p - 1) * nbytes * fabric.reduction


def _parameter_server(fabric: Fabric, p: int, nbytes: float) -> float:
    """All other ranks send to one that merges what arrives, and that sends the sum to all."""
    return _incast(fabric, p - 1, nbytes) + outcast(fabric, p - 1, nbytes)


def _parameter_server_apart(fabric: Fabric, p: int, nbytes: float) -> float:
    arrive = 0.0 if fabric.ports == "peer" else fabric.send(nbytes)
    return arrive + _incast(fabric, p - 1, nbytes) + outcast(fabric, p, nbytes)


def pairwise(fabric: Fabric, p: int, nbytes: float) -> float:
    """A block of V to each other rank at once."""
    return outcast(fabric, p - 1, nbytes / p)


NAIVE = CostModel(
    latex=r"\alpha + (p-1)\left(g + \frac{V}{\beta}\right) + (p-1)V\gamma",
    assumes="one port a rank; messages: p-1, with a port for each peer 1, on a bus p(p-1)",
    source="by definition; ranks add up when all they sent has arrived",
    time=_naive,
    volume=lambda p: p * (p - 1),
    peak=lambda p: p,
    redundant=lambda p: p * (p - 1),
    ports=(*ONE_PORT, "bus"),
)

NAIVE_SERIAL = CostModel(
    latex=r"p\left(\alpha + (p-2)\max(x, V\gamma) + x + V\gamma\right),\ x = g + \frac{V}{\beta}",
    assumes="free barriers, one port a rank; with a port for each peer: p(α + x + (p-1)Vγ)",
    source="by definition: p reductions, one after the other",
    time=lambda fabric, p, nbytes: p * _incast(fabric, p - 1, nbytes),
    volume=lambda p: p * (p - 1),
    steps=lambda p: p,
    peak=lambda p: p + 1,
    redundant=lambda p: 2 * (p - 1),
    ports=(*ONE_PORT, "bus"),
    memory_ports=POSTED,
)

PARAMETER_SERVER = CostModel(
    latex=r"2\alpha + (p-2)\max(x, V\gamma) + px + V\gamma,\ x = g + \frac{V}{\beta}",
    assumes="rank 0 serves, one port a rank; with a port for each peer: 2(α + x) + (p-1)Vγ",
    source="Li et al., OSDI 2014; colocated with the workers as in BytePS, OSDI 2020",
    time=_parameter_server,
    volume=lambda p: 2 * (p - 1),
    steps=lambda p: 2,
    peak=lambda p: p,
    ports=(*ONE_PORT, "bus"),
    memory_ports=POSTED,
)

PARAMETER_SERVER_APART = replace(
    PARAMETER_SERVER,
    latex=r"2\alpha + (p-2)\max(x, V\gamma) + (p+2)x + V\gamma,\ x = g + \frac{V}{\beta}",
    assumes="a separate server, one port a rank; with a port for each peer: 2(α + x) + (p-1)Vγ",
    source="Li et al., OSDI 2014; non-colocated with one server in BytePS, OSDI 2020",
    time=_parameter_server_apart,
    volume=lambda p: 2 * p,
    redundant=lambda p: p,
)

PAIRWISE_ALL_TO_ALL = CostModel(
    latex=r"\alpha + (p-1)\left(g + \frac{V}{p\beta}\right)",
    assumes="one port a rank; with a port for each peer: 1 message instead of p-1",
    source="MPICH's pairwise exchange, all messages posted at once",
    time=pairwise,
    peak=lambda p: 1 + (p - 1) / p,
    memory_ports=("peer",),
)

LINEAR_ALL_TO_ALL = replace(
    PAIRWISE_ALL_TO_ALL,
    source="coll_base_alltoall.c of open-mpi/ompi: all messages posted at once",
)


def pairwise_sync(window: int) -> CostModel:
    """The exchanges of a `window` are in flight at the same time."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        send = fabric.send(nbytes / p)
        rounds, rest = divmod(p - 1, window)
        if fabric.ports == "peer":
            return (rounds + (rest > 0)) * (fabric.latency + send)
        way = fabric.latency + send
        if rounds == 0:
            return fabric.latency + rest * send
        pace = max(window * send, way)
        last = rest or window
        return (rounds - (rest == 0)) * pace + fabric.latency + last * send

    return replace(
        PAIRWISE_ALL_TO_ALL,
        latex=r"\left\lfloor\frac{p-2}{w}\right\rfloor\max(wx, \alpha + x) + \alpha + "
        r"\left((p-2) \bmod w + 1\right)x,\ x = g + \frac{V}{p\beta}",
        assumes=f"one port a rank; w = {window} exchanges in flight; with a port for each peer: "
        "⌈(p-1)/w⌉(α + x)",
        source="MPICH's pairwise exchange (Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005); "
        "linear_sync of open-mpi/ompi",
        time=time,
        steps=lambda p: -(-(p - 1) // window),
        peak=lambda p: 1 + (p + 1) // 2 / p,
        redundant=lambda p: (p + 1) // 2,
        memory_ports=ONE_PORT if window == 1 else (),
    )


LINEAR_BROADCAST = CostModel(
    latex=r"\alpha + (p-1)\left(g + \frac{V}{\beta}\right)",
    assumes="one port a rank; with a port for each peer: 1 message instead of p-1",
    source="basic_linear in coll_base_bcast.c of open-mpi/ompi",
    time=lambda fabric, p, nbytes: outcast(fabric, p - 1, nbytes),
    ports=(*ONE_PORT, "bus"),
)

LINEAR_REDUCE = replace(
    LINEAR_BROADCAST,
    latex=r"\alpha + (p-2)\max(x, V\gamma) + x + V\gamma,\ x = g + \frac{V}{\beta}",
    source="basic_linear in coll_base_reduce.c of open-mpi/ompi",
    time=lambda fabric, p, nbytes: _incast(fabric, p - 1, nbytes),
    peak=lambda p: p,
    memory_ports=("peer",),
)


_KERNELS = "allReduceKernels of NVIDIA/TensorRT-LLM; custom_all_reduce of vllm-project/vllm"
_DIRECT = "one port a rank; with a port for each peer: 1 message and flag instead of p-1"


def _one_shot(fabric: Fabric, p: int, nbytes: float) -> float:
    flags, merging = outcast(fabric, p - 1, 0.0), (p - 1) * nbytes * fabric.reduction
    return flags + outcast(fabric, p - 1, nbytes) + merging


def _two_shot(fabric: Fabric, p: int, nbytes: float) -> float:
    return 2 * outcast(fabric, p - 1, 0.0) + _parameter_server(fabric, p, nbytes / p)


ONE_SHOT = CostModel(
    latex=r"2\alpha + (p-1)\left(2g + \frac{V}{\beta} + V\gamma\right)",
    assumes=_DIRECT,
    source=_KERNELS,
    time=_one_shot,
    volume=lambda p: p * (p - 1),
    steps=lambda p: 2,
    peak=lambda p: p,
    redundant=lambda p: p * (p - 1),
)

TWO_SHOT = CostModel(
    latex=r"4\alpha + 2(p-1)g + (p-2)\max(x, y) + x + y + (p-1)x,\ x = g + \frac{V}{p\beta},\ y = "
    r"\frac{V}{p}\gamma",
    assumes=_DIRECT,
    source=_KERNELS,
    time=_two_shot,
    volume=lambda p: 2 * (p - 1),
    steps=lambda p: 4,
    peak=lambda p: 2 - 1 / p,
    memory_ports=("peer",),
)


def sharded(shards: int) -> CostModel:
    """`shards` workers serve; the formula holds where all of them do."""
    every = shards >= 2**20
    return CostModel(
        latex=r"2\alpha + (p-2)\max(x, y) + px + y,\ x = g + \frac{V}{k\beta},\ y = "
        r"\frac{V}{k}\gamma",
        assumes=f"one port a rank; k = {'p' if every else shards} shards; with a port for each "
        "peer: 2(α + x) + (p-1)y",
        source="Li et al., OSDI 2014; colocated with all workers as in BytePS, OSDI 2020",
        time=lambda fabric, p, nbytes: _parameter_server(fabric, p, nbytes / min(shards, p)),
        volume=lambda p: 2 * (p - 1),
        steps=lambda p: 2,
        peak=lambda p: 1 + (p - 1) / min(shards, p),
        memory_ports=("peer",),
        unclaimed="" if every else "some ranks serve",
    )


def byteps(servers: int, segments: int) -> CostModel:
    """All ports carry the same number of bytes; α, g, γ and the first segment are left out."""

    def parts(p: int) -> int:
        return p * p + servers * p - 2 * servers

    return CostModel(
        latex=r"\frac{2n(n-1)}{n^2 + kn - 2k}\frac{V}{\beta}",
        assumes=f"n = p workers; k = {servers} CPU machines; V in {segments} pieces, no start-up",
        source="Jiang et al., BytePS, OSDI 2020",
        time=lambda fabric, p, nbytes: 2 * p * (p - 1) * nbytes / parts(p) / fabric.bandwidth,
        volume=lambda p: (
            (servers * 2 * p * 2 * (p - 1) + 2 * p * (p - 1) * (p - servers)) / parts(p)
        ),
        steps=lambda p: 2,
        peak=lambda p: 2,
        redundant=lambda p: p,
        memory_ports=(),
        unclaimed="pipelined in pieces",
    )


def map_reduce(map_us: int, reduce_us: int) -> CostModel:
    """A map, a shuffle and a reduce, one after the other."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        shuffle = pairwise(fabric, p, nbytes) if p > 1 else 0.0
        merge = (p - 1) * nbytes / p * fabric.reduction
        return (map_us + reduce_us) * 1e-6 + shuffle + merge

    return CostModel(
        latex=r"t_m + \alpha + (p-1)\left(g + \frac{V}{p\beta} + \frac{V}{p}\gamma\right) + t_r",
        assumes=f"one port a rank; t_m = {map_us} us, t_r = {reduce_us} us on every rank; with a "
        "port for each peer 1 message instead of p-1",
        source="Dean, Ghemawat, MapReduce, OSDI 2004",
        time=time,
        peak=lambda p: 1 + (p - 1) / p,
        memory_ports=(),
    )
