"""Messages that the host copies."""

from experiments.calibration.effects.crowding import crowded
from experiments.calibration.effects.effect import Data, Effect, Values
from simulator.profile import Profile


def copied_messages(data: Data, *, not_copied: str) -> Effect:
    """The host copies the messages of all protocols but `not_copied`, more slowly than the network
    moves them. So a slower network changes 1/β of that protocol only. Curves whose algorithm was
    forced show it."""
    if not any(curve.forced and not curve.ignored for curve in data.curves):
        return Effect()

    def write(profile: Profile, values: Values) -> Profile:
        return crowded(profile, data, protocol=not_copied) if profile.crowding else profile

    return Effect((), write)
