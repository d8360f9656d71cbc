"""Profiles that ship are made from the families that they name."""

from pathlib import Path

import pytest

from experiments import profiles
from experiments.benchmarks.shipped_profiles import SHIPPED, make
from topologies.errors import InputError


def test_every_profile_that_ships_can_be_made_anew() -> None:
    assert sorted(SHIPPED) == profiles.names()


def test_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'mn6' is no profile that ships: mn5_acc, "):
        make(tmp_path, ["mn6"])
