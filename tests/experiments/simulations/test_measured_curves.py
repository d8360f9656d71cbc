"""Measured curves beside a sweep: those of its collectives, numbers of ranks and sizes."""

from pathlib import Path

import pytest

from experiments.simulations.measured_curves import measured_curves
from refusals import refusal
from simulator.collectives import find

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
