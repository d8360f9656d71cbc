"""The formula of map-reduce."""

from __future__ import annotations

from simulator.cost_models.cost_model import CostModel
from simulator.cost_models.fabric import Fabric
from simulator.cost_models.servers import pairwise


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
        volume=lambda p, nbytes: (p - 1) * nbytes,
        steps=lambda p: 1,
        peak=lambda p, nbytes: nbytes + (p - 1) * nbytes / p,
        memory_ports=(),
    )
