"""What links cost by each protocol."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.calibration.effects.protocols import protocols
from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from made_up_curves import curve


def test_every_protocol_has_a_latency_and_a_rate_for_each_kind_of_link() -> None:
    model = Model(FitPoints([curve("all_reduce", ("ring",))]), MPI, gaps=[("eager", "network")])
    names = {
        f"{prior.name} {kind} {what}"
        for prior in MPI.protocols
        for kind in ("node", "network")
        for what in ("α", "1/β")
    }
    assert {*names, "eager network g"} <= model.index.keys()
    assert "short network g" not in model.index


def test_a_single_warp_has_one_rate_for_all_links() -> None:
    model = Model(FitPoints([curve("all_reduce", ("ring",))]), NCCL)
    assert "short 1/β" in model.index
    links = model.profile(model.start).protocols[0].links
    assert links["node"].bandwidth == links["network"].bandwidth == pytest.approx(0.15e9)


def test_jobs_on_one_node_have_their_own_rate_of_ll() -> None:
    """Jobs over several nodes have as many channels as their network feeds."""
    curves = [curve("all_reduce", ("ring",), 8, nodes) for nodes in (1, 4)]
    model = Model(FitPoints(curves), NCCL)
    model.explore(model.start)
    faster = model.start.copy()
    faster[model.index["LL node 1/β"]] -= 0.1
    changed = model.predict(faster) < model.predict(model.start)
    assert changed[model.points.nodes == 1].any()
    assert not changed[model.points.nodes > 1].any()


@pytest.mark.parametrize("library", [NCCL, MPI])
@given(shifts=st.lists(st.floats(-6, 6), min_size=24, max_size=24))
def test_protocols_keep_their_roles(library: Library, shifts: list[float]) -> None:
    model = Model(FitPoints([curve("all_reduce", ("ring",))]), library)
    profile = model.profile(model.start + np.array(shifts)[: len(model.start)])
    ordered = [
        protocol.links
        for protocol, prior in zip(profile.protocols, library.protocols, strict=True)
        if not prior.kind_of
    ]
    for kind in model.kinds:
        latencies = [links[kind].latency for links in ordered]
        assert latencies == sorted(latencies)
        for protocol, prior in zip(profile.protocols, library.protocols, strict=True):
            most = prior.share * profile.protocols[-1].links[kind].bandwidth
            assert protocol.links[kind].bandwidth <= most * (1 + 1e-9)


def test_short_messages_of_cray_mpich_have_at_most_192_bytes() -> None:
    """On Slingshot. Runs of several libraries have no limit together."""
    measured = curve("all_reduce", ("ring",))
    cray, other = (
        FitCurve(**(vars(measured) | {"library": name})) for name in ("Cray MPICH 8.1.29", "MPICH")
    )
    limits = []
    for curves in ([cray], [other], [cray, other]):
        model = Model(FitPoints(curves), MPI)
        limits.append([each.most for each in model.profile(model.start).protocols])
    assert limits == [[192.0, inf, inf], [inf, inf, inf], [inf, inf, inf]]


def test_a_protocol_with_flags_reaches_no_more_than_its_share_of_a_link() -> None:
    model = Model(FitPoints([curve("all_reduce", ("ring",))]), NCCL)
    values = model.values(model.start) | {"LL128 network 1/β": 1e-12, "Simple network 1/β": 2e-11}
    links = protocols(model.data).write(model.profile(model.start), values).protocols[2].links
    assert links["network"].bandwidth == pytest.approx(0.92 * 50e9)
