"""Formula of an all-to-all in two stages over nodes."""

from __future__ import annotations

from simulator.cost_models.box_formulas import node_size
from simulator.cost_models.cost_model import CostModel
from simulator.cost_models.fabric import Fabric
from simulator.cost_models.servers import outcast


def two_stages(per_node: int | None = None) -> CostModel:
    """One stage has m - 1 messages of n blocks a rank, the other n - 1 messages of m blocks."""

    def shape(p: int) -> tuple[int, int]:
        size = node_size(p, per_node)
        return size, p // size

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        stages = (extent for extent in shape(p) if extent > 1)
        return sum((outcast(fabric, each - 1, nbytes / each) for each in stages), 0.0)

    return CostModel(
        latex=r"2\alpha + (m-1)\left(g + \frac{V}{m\beta}\right) + (n-1)\left(g + "
        r"\frac{V}{n\beta}\right)",
        assumes=f"one port a rank; n nodes of m = {per_node or 'up to 8'} ranks, p = nm; with a "
        "port for each peer: 1 message a stage",
        source="Zhao et al., DeepEP, 2025; PXN of NVIDIA/nccl since 2.12",
        time=time,
        volume=lambda p, nbytes: (
            p * ((shape(p)[0] - 1) / shape(p)[0] + (shape(p)[1] - 1) / shape(p)[1]) * nbytes
        ),
        steps=lambda p: sum(extent > 1 for extent in shape(p)),
        peak=lambda p, nbytes: 3 * nbytes,
        redundant=lambda p, nbytes: 2 * p * nbytes,
        memory_ports=(),
    )
