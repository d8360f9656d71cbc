"""Messages that the host copies."""

from collections.abc import Mapping

from experiments.calibration.effects.crowding import crowded
from experiments.calibration.effects.effect import Data, Effect
from simulator.profile import Profile


class CopiedMessages(Effect):
    """The host copies the messages of all protocols but one, more slowly than the network moves
    them. So a slower network changes 1/β of that protocol only. Curves whose algorithm was forced
    show it."""

    def __init__(self, data: Data, *, not_copied: str) -> None:
        """`not_copied`: the protocol whose messages are not copied."""
        self.data, self.not_copied = data, not_copied
        self.shown = any(curve.forced and not curve.ignored for curve in data.points.curves)

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The protocol, where links between nodes are crowded."""
        if not (self.shown and profile.crowding):
            return profile
        return crowded(profile, self.data, protocol=self.not_copied)
