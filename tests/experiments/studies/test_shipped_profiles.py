"""Profiles that ship are made from the families that they name."""

from experiments import profiles
from experiments.studies.shipped_profiles import SHIPPED


def test_every_profile_that_ships_can_be_made_anew() -> None:
    assert sorted(SHIPPED) == profiles.names()
