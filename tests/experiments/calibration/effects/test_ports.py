"""Ports that ranks share, and links inside nodes that they pace."""

import numpy as np
import pytest

from experiments.calibration.fit import explore, fit
from experiments.calibration.known_paths import as_nodes
from experiments.calibration.libraries import NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.prediction import predict
from made_up_curves import SIZES, curve


def test_ranks_with_ports_of_their_own_are_told_from_those_that_share_one() -> None:
    """1/β per node falls with the ranks there; a shift, in which one rank sends from node to node,
    is as fast."""
    mixed = [
        curve(what, (name,), ranks, 2)
        for ranks in (4, 8)
        for what, name in (("all_reduce", "ring"), ("send_recv", "shift"))
    ]
    model = Model(FitPoints(mixed), NCCL)
    power = model.index["network 1/β by ranks a node"]
    shared, with_ports = model.start.copy(), model.start.copy()
    shared[power], with_ports[power] = 0.0, -1.0
    for inner in (shared, with_ports):
        model.explore(inner)
    largest = model.points.size == SIZES[-1]
    before, after = (model.predict(inner)[largest] for inner in (shared, with_ports))
    wide = np.sqrt(2 * 4)
    assert after / before == pytest.approx([wide / 2, wide, wide / 4, wide], rel=0.02)
    predicted, profile = (
        model.predict(with_ports),
        model.profile(with_ports, "one number of nodes", "nodes"),
    )
    for k, series in enumerate(model.points.curves):
        rows = predict(profile, NCCL, series, as_nodes(series.ranks, series.per_node))
        assert [row.seconds for row in rows] == pytest.approx(
            predicted[model.points.curve == k], rel=1e-9
        )


def test_without_data_each_rank_has_a_port_of_its_own() -> None:
    """A job of one rank a node does not show whether two would share a port."""
    rates = {1: 1.0, 2: 2.0}
    curves = [
        FitCurve(**(vars(alike) | {"seconds": 1e-5 + SIZES / rates[alike.per_node] / 1e9}))
        for alike in (curve("all_gather", ("ring_all_gather",), 4 * width, 4) for width in rates)
    ]
    whole = explore(Model(FitPoints(curves), NCCL))
    narrow = fit(whole.model, whole.model.points.ranks == 4)
    wide = (whole.model.points.ranks == 8) & whole.model.points.largest
    assert narrow.predicted[wide] == pytest.approx(whole.model.points.seconds[wide], rel=0.25)


def test_on_two_nodes_a_tree_moves_v_over_the_network_and_a_ring_almost_twice_that() -> None:
    """Links inside nodes have the β of the network on four nodes, and twice that on two nodes."""
    mixed = [curve("all_reduce", ("double_tree", "ring"), 4 * count, count) for count in (2, 4)]
    model = Model(FitPoints(mixed), NCCL)
    model.explore(model.start)
    assert model.explore(model.start) < 1e-9
    largest = model.points.size == SIZES[-1]
    rate = model.profile(model.start).protocols[-1].links["network"].bandwidth
    volume = model.predict(model.start)[largest] * rate / SIZES[-1]
    assert volume == pytest.approx([1.03, 1.88], rel=0.1)
    profile = model.profile(model.start, "made up", "nodes")
    for k, series in enumerate(model.points.curves):
        rows = predict(profile, NCCL, series, as_nodes(series.ranks, series.per_node))
        assert [row.seconds for row in rows] == pytest.approx(
            model.predict(model.start)[model.points.curve == k], rel=1e-9
        )


def test_other_channels_on_two_nodes_show_only_beside_larger_jobs() -> None:
    for counts, shown in (((2,), False), ((4, 8), False), ((1, 2), False), ((2, 4), True)):
        curves = [curve("all_reduce", ("ring",), 4 * count, count) for count in counts]
        model = Model(FitPoints(curves), NCCL)
        assert ("node β on two nodes" in model.index) == shown
        assert model.profile(model.start).pace_on_two == pytest.approx(2.0)
