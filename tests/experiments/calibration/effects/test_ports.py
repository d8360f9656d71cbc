"""Ports that ranks share, and links inside nodes that they pace."""

import numpy as np
import pytest

from experiments.calibration.known_paths import as_nodes
from experiments.calibration.libraries import NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import Points
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
    model = Model(Points(mixed), NCCL)
    with_ports = model.start.copy()
    with_ports[model.index["network 1/β by ranks a node"]] = -1.0
    for inner in (model.start, with_ports):
        model.explore(inner)
    largest = model.points.size == SIZES[-1]
    before, after = (model.predict(inner)[largest] for inner in (model.start, with_ports))
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
