"""The time that a message holds a port besides its bytes."""

from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter, Values
from experiments.calibration.effects.protocols import reach
from simulator.profile import Profile, Protocol

WAITING_GAP = 4.0
"""Where the g of a protocol that waits starts, in units of the other g."""


def message_gaps(data: Data, *, waits: str, node: float, network: float) -> Effect:
    """One g of each kind of link for protocols that buffer messages, and one for the protocol that
    `waits` for the receiver: its sender is busy until the receiver answers.

    Data show them where a published rule of the library sends V in segments. Segments follow each
    other without a wait, so a chain goes by the time that each segment holds a rank's port. `node`
    and `network` are where the fit of g starts, in seconds.
    """
    if not any(curve.segmented for curve in data.curves):
        return Effect()
    starts = {"node": node, "network": network}
    parameters = tuple(
        Parameter(f"{kind} g{of_protocol}", starts[reach(kind)] * longer, "s", LIKELY)
        for of_protocol, longer in (("", 1.0), (f" of {waits}", WAITING_GAP))
        for kind in data.kinds
    )

    def slowed(protocol: Protocol, values: Values) -> Protocol:
        of_protocol = f" of {waits}" if protocol.name == waits else ""
        links = {
            kind: replace(link, gap=link.gap + values[f"{kind} g{of_protocol}"])
            for kind, link in protocol.links.items()
        }
        return replace(protocol, links=links)

    def write(profile: Profile, values: Values) -> Profile:
        protocols = tuple(slowed(protocol, values) for protocol in profile.protocols)
        return replace(profile, protocols=protocols)

    return Effect(parameters, write)
