"""Formulas of exchanges in which all ranks send at once, or one rank serves all: naive, parameter
servers, pairwise."""

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
    volume=lambda p, nbytes: p * (p - 1) * nbytes,
    steps=lambda p: 1,
    peak=lambda p, nbytes: p * nbytes,
    redundant=lambda p, nbytes: p * (p - 1) * nbytes,
    ports=(*ONE_PORT, "bus"),
)

NAIVE_SERIAL = CostModel(
    latex=r"p\left(\alpha + (p-2)\max(x, V\gamma) + x + V\gamma\right),\ x = g + \frac{V}{\beta}",
    assumes="free barriers, one port a rank; with a port for each peer: p(α + x + (p-1)Vγ)",
    source="by definition: p reductions, one after the other",
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
    assumes="rank 0 serves, one port a rank; with a port for each peer: 2(α + x) + (p-1)Vγ",
    source="Li et al., OSDI 2014; colocated with the workers as in BytePS, OSDI 2020",
    time=_parameter_server,
    volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
    steps=lambda p: 2,
    peak=lambda p, nbytes: p * nbytes,
    ports=(*ONE_PORT, "bus"),
    memory_ports=POSTED,
)

PARAMETER_SERVER_APART = replace(
    PARAMETER_SERVER,
    latex=r"2\alpha + (p-2)\max(x, V\gamma) + (p+2)x + V\gamma,\ x = g + \frac{V}{\beta}",
    assumes="a separate server, one port a rank; with a port for each peer: 2(α + x) + (p-1)Vγ",
    source="Li et al., OSDI 2014; non-colocated with one server in BytePS, OSDI 2020",
    time=_parameter_server_apart,
    volume=lambda p, nbytes: 2 * p * nbytes,
    redundant=lambda p, nbytes: p * nbytes,
)

PAIRWISE_ALL_TO_ALL = CostModel(
    latex=r"\alpha + (p-1)\left(g + \frac{V}{p\beta}\right)",
    assumes="one port a rank; with a port for each peer: 1 message instead of p-1",
    source="MPICH's pairwise exchange, all messages posted at once",
    time=pairwise,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: 1,
    peak=lambda p, nbytes: nbytes + (p - 1) * nbytes / p,
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
        peak=lambda p, nbytes: nbytes + (p + 1) // 2 * nbytes / p,
        redundant=lambda p, nbytes: (p + 1) // 2 * nbytes,
        memory_ports=ONE_PORT if window == 1 else (),
    )
