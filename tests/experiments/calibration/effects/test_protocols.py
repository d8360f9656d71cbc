"""What links cost by each protocol."""

import pytest

from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import Points
from made_up_curves import curve


def test_every_protocol_has_a_latency_and_a_rate_for_each_kind_of_link() -> None:
    model = Model(Points([curve("all_reduce", ("ring",))]), MPI, gaps=[("eager", "network")])
    names = {
        f"{prior.name} {kind} {what}"
        for prior in MPI.protocols
        for kind in ("node", "network")
        for what in ("α", "1/β")
    }
    assert {*names, "eager network g"} <= model.index.keys()
    assert "short network g" not in model.index


def test_a_protocol_of_the_gpus_own_stores_has_one_rate_for_all_links() -> None:
    model = Model(Points([curve("all_reduce", ("ring",))]), NCCL)
    assert "LL 1/β" in model.index
    links = model.profile(model.start).protocols[1].links
    assert links["node"].bandwidth == links["network"].bandwidth == pytest.approx(15e9)
