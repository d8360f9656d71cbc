"""The time of a call before its first message."""

from collections.abc import Mapping
from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter
from simulator.profile import Profile


class Launch(Effect):
    """A constant time before the first operation of a collective."""

    def __init__(self, data: Data, *, start: float) -> None:
        self.parameters = (Parameter("launch", start, "s", LIKELY),)

    def write(self, profile: Profile, values: Mapping[str, float]) -> Profile:
        """The launch of every algorithm."""
        return replace(profile, launch=values["launch"])
