"""Long messages that two nodes send each other at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from simulator.effects.exchanges import Exchanges
from simulator.profile import Profile

if TYPE_CHECKING:
    from experiments.calibration.observations import Series


class LongExchanges(Effect):
    """Bytes after the first `beyond` of a message take longer where two ranks on two nodes send
    to each other. Data show it where every algorithm that may have made a curve does that."""

    def __init__(self, data: Data, *, beyond: float) -> None:
        self.beyond = beyond
        if any(self._exchanges(curve, data) for curve in data.points.curves):
            self.parameters = (Parameter("long exchanges", 1 / 40e9, "s/B", LIKELY),)

    def _exchanges(self, curve: Series, data: Data) -> bool:
        largest, paths = float(curve.sizes.max(initial=1.0)), data.paths.of
        return all(
            paths[name, curve.ranks, curve.per_node].exchanged(largest, self.beyond)
            for name in curve.ran(data.library, largest)
        )

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The slowness of long exchanges."""
        if not self.parameters:
            return profile
        return replace(profile, exchanges=Exchanges(values["long exchanges"], self.beyond))
