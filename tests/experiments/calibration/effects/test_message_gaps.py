"""Messages hold a port for a time of their own where a library sends segments."""

import numpy as np
import pytest

from experiments.calibration.known_paths import as_nodes
from experiments.calibration.libraries import MPI
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.prediction import predict
from made_up_curves import SIZES, curve


def _broadcast(version: str) -> FitCurve:
    """A broadcast on two nodes of four ranks by a version of Open MPI."""
    rule = MPI.rule("broadcast", 8, version)
    assert rule is not None
    names = tuple(dict.fromkeys(map(rule, SIZES.tolist())))
    return FitCurve(**(vars(curve("broadcast", names)) | {"rule": rule}))


def test_a_gap_in_segments_is_simulated_as_it_is_predicted() -> None:
    series = _broadcast("Open MPI 4.0.5")
    model = Model(FitPoints([series]), MPI)
    longer = model.start.copy()
    for name in ("node g", "network g", "node g of rendezvous", "network g of rendezvous"):
        longer[model.index[name]] += np.log(20.0)
    for inner in (model.start, longer):
        model.explore(inner)
        assert model.explore(inner) < 1e-9
    predicted, profile = model.predict(longer), model.profile(longer, "made up", "nodes")
    eager, rendezvous = (
        {kind: link.gap for kind, link in protocol.links.items()}
        for protocol in profile.protocols[1:]
    )
    assert eager == pytest.approx({"node": 20 * 0.2e-6, "network": 20 * 0.5e-6})
    assert rendezvous == pytest.approx({"node": 80 * 0.2e-6, "network": 80 * 0.5e-6})
    rows = predict(profile, MPI, series, as_nodes(8, 4))
    assert [row.seconds for row in rows] == pytest.approx(predicted, rel=1e-9)
    many = np.array([":segments=1" not in row.algorithm for row in rows])
    assert (predicted[many] > 1.5 * model.predict(model.start)[many]).any()


@pytest.mark.parametrize(
    "series", [_broadcast("Open MPI 4.1.6"), curve("broadcast", ("chain_broadcast",))]
)
def test_a_run_without_segments_by_a_rule_shows_no_gap(series: FitCurve) -> None:
    assert "node g" not in Model(FitPoints([series]), MPI).index
