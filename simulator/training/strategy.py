"""What every training strategy is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from simulator.collectives.collective import Collective
    from simulator.training.model import Model
    from simulator.training.plan import Plan, Setting


class Strategy(ABC):
    """A frozen dataclass whose fields are its options (see
    :func:`simulator.training.options.option`).

    `promise` is the collective of the gradients that a step amounts to, where their order is fixed.
    """

    promise: ClassVar[Collective | None] = None

    @property
    def server_kind(self) -> str | None:
        """The kind of device, "gpu" or "cpu", that servers have to themselves; None where any
        does."""
        return None

    @property
    def usual_steps(self) -> int:
        """How many steps tell what a long run is like."""
        return 1

    def servers(self, ranks: int) -> int:
        """Devices that are needed besides those of `ranks` workers."""
        return 0

    @abstractmethod
    def plan(self, model: Model, setting: Setting) -> Plan:
        """The steps of `setting` as a schedule."""
