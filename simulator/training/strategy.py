"""What every training strategy is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from simulator.training.model import CPU_MEMORY
from topologies.errors import InputError

if TYPE_CHECKING:
    from simulator.collectives.collective import Collective
    from simulator.training.model import Model
    from simulator.training.plan import Plan, Setting

Unit = Literal["", "bytes", "seconds", "bandwidth"]


def option(default: Any, help: str, unit: Unit = "") -> Any:
    """A field of a strategy: its default, a line of help, and the unit of its number."""
    return field(default=default, metadata={"help": help, "unit": unit})


class Strategy(ABC):
    """A frozen dataclass whose fields are its options, each made by :func:`option`."""

    promise: ClassVar[Collective | None] = None
    """The collective of the gradients that a step amounts to; None if their order is not fixed."""

    @property
    def server_kind(self) -> str | None:
        """The kind of device of a separate server, "gpu" or "cpu"; None if there is none."""
        return None

    @property
    def usual_steps(self) -> int:
        """How many steps are enough to judge a long run."""
        return 1

    def servers(self, ranks: int) -> int:
        """Devices that are needed in addition to those of `ranks` workers."""
        return 0

    @abstractmethod
    def plan(self, model: Model, setting: Setting) -> Plan:
        """The steps of `setting` as a schedule."""


SERVERS = ("worker", "gpu", "cpu", "sharded")
WHERE = "worker (rank 0 serves too), gpu or cpu (a separate device), sharded (all serve a share)"


@dataclass(frozen=True)
class Served(Strategy):
    """A strategy with parameter servers."""

    server: str = option("worker", WHERE)
    update: float = option(
        0.0, "time of an update of all parameters, like 2ms; 0: what server_memory takes", "seconds"
    )
    server_memory: float = option(
        0.0,
        "memory bandwidth of a server; 0: the model's, of a cpu 204.8GB/s (DDR4-3200 x 8)",
        "bandwidth",
    )

    def __post_init__(self) -> None:
        name = type(self).__name__.lower()
        if self.server not in SERVERS:
            server = repr(str(self.server)[:40])
            raise InputError(f"{name}: server={server}: it is one of {', '.join(SERVERS)}")
        if not 0 <= self.update < inf:
            raise InputError(f"{name}: update={self.update}: seconds, 0 or more")
        if not self.server_memory >= 0:
            raise InputError(
                f"{name}: server_memory={self.server_memory}: bytes/s above 0, or 0 for the default"
            )

    @property
    def server_kind(self) -> str | None:
        """The kind of device that the server has to itself; None where workers serve."""
        return self.server if self.server in ("gpu", "cpu") else None

    def servers(self, ranks: int) -> int:
        """Devices that are needed in addition to those of the workers."""
        return 1 if self.server_kind else 0

    def memory(self, model: Model) -> float:
        """The memory bandwidth of a server, in bytes/s."""
        return self.server_memory or (
            CPU_MEMORY if self.server == "cpu" else model.memory_bandwidth
        )

    def updating(self, model: Model) -> float:
        """Seconds of an update of all parameters. It reads the gradient, and reads and writes
        parameters and optimizer state."""
        traffic = 2 * model.parameters * (1 + model.state) + model.gradients
        return self.update or traffic / self.memory(model)
