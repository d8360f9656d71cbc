"""What a closed form says and assumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulator.cost_models.fabric import Fabric, Ports

ONE_PORT: tuple[Ports, ...] = ("peer", "switch", "one")

POSTED: tuple[Ports, ...] = ("peer", "switch")

Amount = Callable[[int, float], float]


@dataclass(frozen=True)
class CostModel:
    """`time(fabric, p, V)` in seconds; `volume`, `peak` (the fullest rank) and `redundant` (all
    ranks together, at its most) in bytes, as functions of p and V; `steps(p)`. The time is claimed
    on the port models in `ports`, the memory on those in `memory_ports`, both on uniform routes
    only. A form that is `unclaimed` for the reason given says how an ideal machine would do, and is
    shown beside the simulation without a verdict."""

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
    """Whether no folding is needed.

    >>> [ranks for ranks in range(1, 10) if is_power_of_two(ranks)]
    [1, 2, 4, 8]
    """
    return ranks & (ranks - 1) == 0


THAKUR = "Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005"

PATARASUK = "Patarasuk, Yuan, JPDC 69(2), 2009"

RING_ASSUMES = "full duplex, one port, uniform routes between neighbours"

ASSUMES = "full duplex, one port, non-blocking, uniform routes"
