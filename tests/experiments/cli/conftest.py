"""The command line in this process and in one of its own, a profile and measured runs in files."""

from pathlib import Path

import pytest

import simctl_process
from simctl_process import Simctl
from sure_profile import SURE

MEASURED = """\
collective,algorithm,library,ranks,nodes,size_bytes,time_us
all_reduce,ring,MPI,8,8,1024,38
all_reduce,ring,MPI,8,8,8192,50
all_reduce,ring,MPI,8,8,1048576,9000
"""
"""The last time is far too long."""


@pytest.fixture(params=["here", pytest.param("alone", marks=pytest.mark.exhaustive)])
def command(request: pytest.FixtureRequest) -> Simctl:
    """`simctl` in this process, where all is imported, or in one of its own."""
    in_process: Simctl = request.getfixturevalue("simctl")
    return in_process if request.param == "here" else simctl_process.simctl


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The path of a profile that says how sure it is."""
    path = tmp_path / "mine.yaml"
    path.write_text(SURE)
    return str(path)


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """The path of runs that were measured."""
    path = tmp_path / "runs.csv"
    path.write_text(MEASURED)
    return str(path)
