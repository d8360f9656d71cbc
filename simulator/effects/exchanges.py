"""What long messages cost that two ranks send to each other in one step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.effects.parameter_units import Bytes, Seconds
from topologies.topology import Floats


class Exchanges(NamedTuple):
    """Two ranks on two nodes send each other a message in one step. A long exchange does not move
    both ways at full rate."""

    slowness: Seconds = 0.0
    """Seconds that each byte after the first `beyond` of a message takes longer."""
    beyond: Bytes = 2.0**22
    """The bytes of a message that move at full rate."""

    def excess(self, messages: Floats) -> float:
        """The bytes after the first `beyond`, of one message a step, shape (steps,)."""
        return float(np.maximum(0.0, messages - self.beyond).sum())
