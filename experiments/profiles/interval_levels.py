"""The level of a profile's intervals."""

from experiments import output
from simulator.profile import Profile


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
