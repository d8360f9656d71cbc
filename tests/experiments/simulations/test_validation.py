"""Validation on measured curves, and measured curves beside a sweep."""

from pathlib import Path

import numpy as np
import pytest

from experiments.calibration.population.library_profile import library_on
from experiments.measurements import Curve, Point, read
from experiments.simulations.measured_curves import measured_curves
from experiments.simulations.rules import Rules
from experiments.simulations.validation import Validation, validate, validate_under
from refusals import refusal
from simulator.collectives import find
from topologies.catalogue import find as find_machine
from topologies.errors import InputError
from topologies.shapes import star
from topologies.topology import Topology

ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared" / "measured"
CURVES = {
    "mn5acc_nccl_ring_ar_p16": ("ring", 0.30),
    "leo_ring_ompi_ar_p128": ("ring", 0.25),
    "mn5_ring_ompi_ar_p32": ("ring", 0.25),
    "lumi_ring_over_ar_p16": ("ring", 0.25),
    "lumi_rabenseifner_over_ar_p16": ("halving_doubling", 0.20),
    "abci_v100_nccl_ar_p8": ("ring", 0.40),
    "h100x_10n_g1_ag_p10": ("ring_all_gather", 0.03),
    "rtx2080ti_10g_ring_ar_p32": ("ring", 0.03),
    "cw_gb200_1rack_ar_p72": ("ring", 0.06),
    "dgxa100_40g_1n_alltoall_p8": ("pairwise", 0.06),
    "h100_4gpu_ring_ar_p4": ("ring", 0.05),
    "mi300x_1n_ar_p8": ("ring", 0.25),
}
"""Curves of as many machines, with a limit on the mean error of unseen sizes: a guard, not a
claim."""


def links(ranks: int, servers: int, latency: float | None, bandwidth: float | None) -> Topology:
    return star(
        ranks + servers, latency=1e-6 if latency is None else latency, bandwidth=bandwidth or 50e9
    )


def fitted(curve: Curve, algorithm: str) -> Validation:
    assert curve.ranks is not None
    return validate(
        curve, find(algorithm), curve.ranks, links, fit=True, in_place=False, rules=Rules()
    )


def test_every_other_size_is_fitted_and_wrong_results_never() -> None:
    points = tuple(Point(2**k, 1e-6 * 2**k, wrong=5 if k == 2 else 0) for k in range(6))
    result = fitted(Curve("all_reduce", 4, 1, points, (), "x.log:1"), "ring")
    assert [point.fitted for point in result.points] == [True, False, False, True, False, True]
    assert [point.wrong for point in result.points] == [False, False, True, False, False, False]
    assert len(result.errors(fitted=False)) == 2


def test_a_curve_of_one_size_cannot_be_fitted() -> None:
    with pytest.raises(InputError, match="to fit"):
        fitted(Curve("all_reduce", 4, 1, (Point(1024, 1e-3),), (), "x.log:1"), "ring")


@pytest.mark.skipif(not SHARED.exists(), reason="the shared measurements are not here")
@pytest.mark.parametrize("name", CURVES)
def test_curves_of_many_families(name: str) -> None:
    algorithm, limit = CURVES[name]
    result = fitted(read(SHARED / "curves" / f"{name}.csv").curves[0], algorithm)
    assert result.fit is not None
    assert result.fit.latency >= 0
    assert float(np.mean(result.errors(fitted=False))) <= limit


@pytest.mark.skipif(not SHARED.exists(), reason="the shared measurements are not here")
@pytest.mark.parametrize("log", ["h100_one_node", "abci_v100_p32", "alps_gh200_p16_aws-ofi-1.9.2"])
def test_logs_from_the_wild(log: str) -> None:
    for curve in read(SHARED / "logs" / f"{log}.log").curves:
        if curve.collective == "all_reduce":
            assert len(fitted(curve, "ring").points) == len(curve.points)


def test_many_sizes_are_told_by_critical_paths_of_some() -> None:
    """As if each were simulated alone; equal points stay two."""
    machine = find_machine("hgx_h100")
    profile = library_on(machine, "nccl", None).profile
    sizes = np.unique(np.geomspace(1024, 2**28, 90).astype(int) // 16 * 16).tolist()
    points = tuple(Point(size, 1e-5) for size in (*sizes, sizes[-1]))
    algorithms = [find("ring"), find("double_tree")]

    def predicted(some: tuple[Point, ...]) -> Validation:
        curve = Curve("all_reduce", 8, 1, some, (), "x.csv")
        rules, build = Rules(), machine.build(8)
        return validate_under(profile, curve, algorithms, 8, build, in_place=False, rules=rules)

    many = predicted(points)
    assert len(many.points) == len(points) > 64
    few = [
        point for k in range(0, len(points), 40) for point in predicted(points[k : k + 40]).points
    ]
    for one, other in zip(many.points, few, strict=True):
        assert one.algorithm == other.algorithm
        assert one.predicted_s == pytest.approx(other.predicted_s, rel=1e-6)
        assert one.high_s == pytest.approx(other.high_s, rel=0.1)


LOG = Path(__file__).parents[3] / "examples" / "alps_gh200_p16_aws-ofi-1.9.2.log"
RING = find("ring").collective
GATHER = find("ring_all_gather").collective


def test_the_points_within_the_sweep_count() -> None:
    (curve,), others = measured_curves(LOG, [RING], [8, 16], [2.0**10, 2.0**20])
    assert curve.ranks == 16
    assert curve.name.startswith(LOG.name)
    assert [point.size for point in curve.points] == [2**power for power in range(10, 21)]
    assert others == []


@pytest.mark.parametrize(
    ("collective", "ranks", "size", "message"),
    [
        (GATHER, 16, 2.0**20, "all_reduce of 16 ranks, 8B to 4GiB; not all_gather: choose"),
        (RING, 8, 2.0**20, "all_reduce of 16 ranks, 8B to 4GiB; not 8 ranks: choose with --p"),
        (RING, 16, 3.0, "no point of 3B, the nearest is 8B: choose with --size"),
    ],
)
def test_a_log_of_something_else(collective: object, ranks: int, size: float, message: str) -> None:
    assert message in refusal(measured_curves, LOG, [collective], [ranks], [size])
