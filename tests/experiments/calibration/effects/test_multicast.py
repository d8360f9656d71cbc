"""All-reduces by switches that multicast have a latency and a 1/β that no other collective has."""

import numpy as np
import pytest

from experiments.calibration.calibrated_profile import points
from experiments.calibration.fit import explore
from experiments.calibration.known_paths import as_nodes
from experiments.calibration.libraries import NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.prediction import predict
from experiments.measurements import Curve
from experiments.measurements.curve import Point
from made_up_curves import curve

CHOSEN = NCCL.algorithms("all_reduce", multicast=True)
LARGE = np.geomspace(2.0**25, 2.0**34, 4)


def test_nvls_is_a_choice_only_where_switches_multicast() -> None:
    assert CHOSEN == ("ring", "double_tree", "nvls")
    assert "nvls" not in NCCL.algorithms("all_reduce")
    assert NCCL.algorithms("all_gather", multicast=True) == NCCL.algorithms("all_gather")


def test_it_has_no_parameters_without_curves_of_nvls() -> None:
    model = Model(FitPoints([curve("all_reduce", ("ring",), 8, 1)]), NCCL)
    assert not any("NVLS" in name for name in model.index)
    profile = model.profile(model.start)
    assert "nvls" not in profile.slower.keys() | profile.launches.keys()


def test_nvls_beside_sends_is_simulated_as_it_is_predicted() -> None:
    shown = (
        ("all_reduce", CHOSEN),
        ("send_recv", ("shift",)),
        ("all_gather", ("ring_all_gather",)),
    )
    model = Model(FitPoints([curve(what, names, 4, 1) for what, names in shown]), NCCL)
    inner = model.start + np.random.default_rng(3).uniform(-0.5, 0.5, len(model.start))
    assert {"latency of NVLS", "node 1/β of NVLS", "node 1/β of sends"} <= model.index.keys()
    model.explore(inner)
    assert model.explore(inner) < 1e-9
    predicted, profile = model.predict(inner), model.profile(inner, "made up", "nodes")
    assert profile.slower.keys() == {"shift", "nvls"}
    assert profile.launches.keys() == {"shift", "pairwise", "nvls"}
    for k, series in enumerate(model.points.curves):
        rows = predict(profile, NCCL, series, as_nodes(series.ranks, series.per_node))
        assert [row.seconds for row in rows] == pytest.approx(
            predicted[model.points.curve == k], rel=1e-9
        )


def busbw(ranks: int, names: tuple[str, ...], rate: float) -> FitCurve:
    """An all-reduce of eight GPUs or fewer whose busbw is `rate` at all sizes."""
    seconds = LARGE * 2 * (ranks - 1) / ranks / rate
    return FitCurve(f"{ranks}", "all_reduce", names, ranks, 1, LARGE, seconds)


def test_four_gpus_predict_the_nvls_of_eight() -> None:
    """On four GPUs, ring and NVLS are as fast; on eight, NVLS is 1.3 times faster."""
    four, eight = busbw(4, CHOSEN, 367e9), busbw(8, CHOSEN, 480e9)
    gather = FitCurve("ag", "all_gather", ("ring_all_gather",), 8, 1, LARGE, LARGE * 0.875 / 361e9)
    profile = explore(Model(FitPoints([four, gather]), NCCL)).profile
    for series, most in ((eight, 0.07), (gather, 0.06)):
        row = predict(profile, NCCL, series, as_nodes(8, 8))[-1]
        assert abs(row.error) < most
    assert predict(profile, NCCL, eight, as_nodes(8, 8))[-1].algorithm.startswith("nvls")


def test_latency_counts_once_whatever_the_pieces() -> None:
    model = Model(FitPoints([curve("all_reduce", ("nvls",), 8, 1)]), NCCL)
    assert [one.unit for one in model.parameters if "NVLS" in one.name] == ["s", "power"]
    model.explore(model.start)
    seconds = model.predict(model.start)
    values = model.values(model.start)
    assert seconds[0] == pytest.approx(values["launch"] + values["latency of NVLS"], rel=0.01)


def test_an_old_profile_has_no_nvls() -> None:
    """A profile that was fitted without NVLS would take it with the figures of rings."""
    measured = tuple(Point(2**size, 1e-3) for size in range(20, 30))
    run = Curve(
        "all_reduce", 8, 1, measured, (), "x.log", device="NVIDIA H100 80GB HBM3", library="NCCL"
    )
    old = Model(FitPoints([curve("all_reduce", ("ring",), 8, 1)]), NCCL)
    new = Model(FitPoints([curve("all_reduce", CHOSEN, 8, 1)]), NCCL)
    for model, known in ((old, False), (new, True)):
        judged, _ = points([run], NCCL, profile=model.profile(model.start))
        assert ("nvls" in judged.curves[0].algorithms) == known
    assert "nvls" in points([run], NCCL)[0].curves[0].algorithms
