"""Words of logs and libraries, and ours."""

import pytest

from experiments.calibration.libraries import LIBRARIES as CALIBRATED
from experiments.spellings import LIBRARIES, library_name
from topologies.errors import InputError


def test_every_library_that_can_be_calibrated_has_a_name() -> None:
    assert [library.name for library in CALIBRATED.values()] == list(LIBRARIES)
    assert [library_name(name.upper()) for name in LIBRARIES] == list(LIBRARIES)


def test_an_unknown_library_is_refused() -> None:
    with pytest.raises(InputError, match="'rccl' is no library that is known: there are nccl, mpi"):
        library_name("rccl")
