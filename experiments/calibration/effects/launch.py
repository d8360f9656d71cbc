"""The time of a call before its first message."""

from dataclasses import replace

from experiments.calibration.effects.effect import LIKELY, Data, Effect, Parameter


def launch(data: Data, *, start: float) -> Effect:
    """A constant time before the first operation of a collective."""
    return Effect(
        (Parameter("launch", start, "s", LIKELY),),
        lambda profile, values: replace(profile, launch=values["launch"]),
    )
