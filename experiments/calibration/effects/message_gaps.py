"""The time that a message holds a port besides its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from experiments.calibration.effects.protocols import reach
from simulator.profile import Profile, Protocol

LONGER = 4.0
"""Where the g of a protocol that waits starts, in units of the other g."""


class MessageGaps(Effect):
    """One g of each kind of link for protocols that buffer messages, and one for the protocol that
    waits for the receiver: its sender is busy until the receiver answers.

    Data show them where a published rule of the library sends V in segments. Segments follow each
    other without a wait, so a chain goes by the time that each segment holds a rank's port.
    """

    def __init__(self, data: Data, *, waits: str, node: float, network: float) -> None:
        """`waits`: the protocol that waits. `node` and `network`: where the fit of g starts, in
        seconds."""
        self.waits = waits
        segmented = any(curve.segmented for curve in data.points.curves)
        self.kinds = data.paths.kinds if segmented else ()
        starts = {"node": node, "network": network}
        self.parameters = tuple(
            Parameter(self._name(protocol, kind), starts[reach(kind)] * longer, "s", LIKELY)
            for protocol, longer in (("", 1.0), (waits, LONGER))
            for kind in self.kinds
        )

    def _name(self, protocol: str, kind: str) -> str:
        return f"{kind} g of {self.waits}" if protocol == self.waits else f"{kind} g"

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The g of every protocol."""
        if not self.kinds:
            return profile
        protocols = (self._slowed(protocol, values) for protocol in profile.protocols)
        return replace(profile, protocols=tuple(protocols))

    def _slowed(self, protocol: Protocol, values: Mapping[str, float]) -> Protocol:
        links = {
            kind: replace(link, gap=link.gap + values[self._name(protocol.name, kind)])
            for kind, link in protocol.links.items()
        }
        return replace(protocol, links=links)
