"""A formula, and where it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nan
from typing import Any

from simulator.cost_models.fabric import Fabric, Ports

ONE_PORT: tuple[Ports, ...] = ("peer", "switch", "one")
"""Port models without a medium that all ranks share."""
POSTED: tuple[Ports, ...] = ("peer", "switch")
"""Port models on which a sender does not wait for the port of the receiver."""
Amount = Callable[[int], float]
"""From p to bytes, in units of V."""


@dataclass(frozen=True)
class CostModel:
    """The formula of an algorithm: time, volume, steps and memory for p ranks and V bytes."""

    latex: str
    """The time, for people."""
    assumes: str
    """What must hold for the formula to be right, for people."""
    source: str
    """Where the formula or the algorithm was published."""
    time: Callable[[Fabric, int, float], float]
    """Seconds, from the fabric, p and V."""
    volume: Amount = lambda p: p - 1.0
    """The data that all ranks together send: V for each rank but one, unless the formula says
    otherwise."""
    steps: Callable[[int], int] = lambda p: 1
    """Messages in the longest chain, each of which waits for the one before; from p."""
    peak: Amount = lambda p: 1.0
    """The most data that a rank holds at a time: V, unless the formula says more."""
    redundant: Amount = lambda p: p - 1.0
    """The most duplicate data that all ranks together hold at a time: V on all ranks but
    one, unless the formula says otherwise."""
    ports: tuple[Ports, ...] = ONE_PORT
    """The port models on which a simulation must take this time, if all routes are alike."""
    memory_ports: tuple[Ports, ...] = ONE_PORT
    """The port models on which a simulation must need this memory, if all routes are alike."""
    model: str = "postal and gap"
    """The parameters of the time: the latency of the postal model and the gap of a message."""
    merging: float = inf
    """The largest γβ at which a simulation must take this time: the seconds to add a byte over
    those to send it."""
    unclaimed: str = ""
    """Why no simulation has to match the formula, which then describes an ideal machine; empty if
    it does."""

    @property
    def known(self) -> bool:
        """Whether there is a formula."""
        return bool(self.latex)

    def holds(self, fabric: Fabric) -> str:
        """Which assumption does not hold on a fabric; empty if all hold."""
        if self.unclaimed:
            return self.unclaimed
        if not fabric.uniform:
            return "routes differ"
        if fabric.reduction * fabric.bandwidth > self.merging:
            return "slow additions"
        return "" if fabric.ports in self.ports else f"{fabric.ports} ports"


def linear(
    latex: str,
    assumes: str,
    source: str,
    *,
    steps: Callable[[int], int],
    moved: Amount,
    merged: Amount = lambda p: 0.0,
    **more: Any,
) -> CostModel:
    """The formula of `steps` messages in turn: together they carry `moved` times V, and `merged`
    times V is added. `more` are fields of :class:`CostModel`."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        bytes_time = moved(p) / fabric.bandwidth + merged(p) * fabric.reduction
        return steps(p) * (fabric.latency + fabric.gap) + nbytes * bytes_time

    return CostModel(latex, assumes, source, time, steps=steps, **more)


NO_FORMULA = CostModel(
    latex="",
    assumes="",
    source="",
    time=lambda fabric, p, nbytes: nan,
    volume=lambda p: nan,
    steps=lambda p: 0,
    peak=lambda p: nan,
    redundant=lambda p: nan,
    model="",
    unclaimed="no formula",
)
"""What stands for the formula of an algorithm that has none: a user's, or that of a file."""


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

RING_ASSUMES = "full duplex, one port a rank, equal routes between neighbours"

ASSUMES = "full duplex, one port a rank, equal routes"
