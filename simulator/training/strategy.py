"""What every training strategy is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

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
