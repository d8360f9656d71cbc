"""Formulas of all-reduces in which ranks read the buffers of all others."""

from __future__ import annotations

from simulator.cost_models.cost_model import CostModel
from simulator.cost_models.fabric import Fabric
from simulator.cost_models.servers import outcast

SOURCE = "allReduceKernels of NVIDIA/TensorRT-LLM; custom_all_reduce of vllm-project/vllm"
ASSUMES = "one port a rank; with a port for each peer: 1 message and flag instead of p-1"


def _flags(fabric: Fabric, p: int) -> float:
    return fabric.latency + (1 if fabric.ports == "peer" else p - 1) * fabric.gap


def _one_shot(fabric: Fabric, p: int, nbytes: float) -> float:
    merging = (p - 1) * nbytes * fabric.reduction
    return _flags(fabric, p) + outcast(fabric, p - 1, nbytes) + merging


def _two_shot(fabric: Fabric, p: int, nbytes: float) -> float:
    send, merge = fabric.send(nbytes / p), nbytes / p * fabric.reduction
    added = fabric.latency + send + merge
    added += (p - 2) * (merge if fabric.ports == "peer" else max(send, merge))
    return 2 * _flags(fabric, p) + added + outcast(fabric, p - 1, nbytes / p)


ONE_SHOT = CostModel(
    latex=r"2\alpha + (p-1)\left(2g + \frac{V}{\beta} + V\gamma\right)",
    assumes=ASSUMES,
    source=SOURCE,
    time=_one_shot,
    volume=lambda p, nbytes: p * (p - 1) * nbytes,
    steps=lambda p: 2,
    peak=lambda p, nbytes: p * nbytes,
    redundant=lambda p, nbytes: p * (p - 1) * nbytes,
)

TWO_SHOT = CostModel(
    latex=r"4\alpha + 2(p-1)g + (p-2)\max(x, y) + x + y + (p-1)x,\ x = g + \frac{V}{p\beta},\ y = "
    r"\frac{V}{p}\gamma",
    assumes=ASSUMES,
    source=SOURCE,
    time=_two_shot,
    volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
    steps=lambda p: 4,
    peak=lambda p, nbytes: (2 - 1 / p) * nbytes,
    memory_ports=("peer",),
)
