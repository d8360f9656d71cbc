"""Intervals of a profile: their level, and their ends in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments import output

if TYPE_CHECKING:
    from simulator.profile import Profile
    from simulator.uncertainty.interval import Interval


def at_level(profile: Profile, level: float | None) -> Profile:
    """The profile with intervals of `level`; None is its own. A note says so if it has none.

    Raises InputError as :meth:`simulator.profile.Profile.at_level` does.
    """
    known = profile.at_level(level)
    if known.uncertainty is None:
        output.note(
            f"the profile {profile.name} does not say how sure it is, so times have no intervals: "
            "calibrate it again"
        )
    return known


def level_of(profile: Profile | None) -> float:
    """That of the profile's intervals, 0 without any."""
    return profile.uncertainty.level if profile and profile.uncertainty else 0.0


def interval_columns(interval: Interval | None) -> dict[str, float | None]:
    """The interval of a step as columns of a table: None without one."""
    values = interval[:4] if interval else (None,) * 4
    return dict(zip(("expected_s", "low_s", "high_s", "level"), values, strict=True))


def interval_ends(interval: Interval | None) -> dict[str, Any]:
    """The interval of a run as fields of a row: none without one."""
    return dict(zip(("expected_s", "low_s", "high_s"), interval or (), strict=False))


INTERVAL = {"expected": "expected_s", "{level:.0%} of steps": "{low_s} - {high_s}"}
"""The columns of a table of steps that have intervals."""
RUNS = {"expected": "expected_s", "interval": "{low_s} - {high_s}"}
"""The columns of a table of runs that have intervals."""
WHOLE = (
    "{expected_s:s}",
    "{level:.0%} of steps: {low_s:s} - {high_s:s}, by kernels, launches and communication",
)
"""The interval of the step of a plan as cells of a report."""
EXPECTED = (
    "{expected_s:s}",
    "{level:.0%} of steps: {low_s:s} - {high_s:s}, by the error of communication",
)
"""The interval of a step as cells of a report."""
