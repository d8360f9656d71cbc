"""The host copies short and eager messages, more slowly than the network moves them."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.calibration.libraries import MPI
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from made_up_curves import curve


def made(forced: str, *counts: int) -> Model:
    """All-gathers by rings on nodes of one rank."""
    curves = [curve("all_gather", ("ring_all_gather",), count, count) for count in counts]
    return Model(FitPoints([replace(each, forced=forced) for each in curves]), MPI)


def test_more_nodes_slow_the_rate_of_rendezvous_alone() -> None:
    model = made("ring", 2, 16)
    slow = model.start.copy()
    slow[model.index["network 1/β by nodes"]] = 0.5
    profiles = [model.profile(inner) for inner in (model.start, slow)]
    jobs = model.paths.jobs
    before, after = (each.link_costs(jobs, each.protocols, ["network"]) for each in profiles)
    slowed = before.bandwidth / after.bandwidth
    assert slowed[:-1] == pytest.approx(1.0)
    assert slowed[-1, 0] == pytest.approx(np.sqrt(jobs.nodes / model.data.typical))


def test_only_forced_algorithms_on_several_numbers_of_nodes_show_it() -> None:
    chosen, forced = made("", 2, 16), made("ring", 2)
    assert chosen.profile(chosen.start).crowding["network"].protocol == ""
    assert forced.profile(forced.start).crowding == {}
