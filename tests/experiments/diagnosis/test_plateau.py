"""Curves taken apart: protocols are found again, and rates of links are named."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.diagnosis.envelope import fit, regimes
from experiments.diagnosis.plateau import leaving, plateau
from experiments.diagnosis.shape import curve_columns
from experiments.measurements import Curve, Point
from experiments.measurements.networks import parse_ports
from grouped_cases import each_case
from topologies.catalogue import find

CURVE = Curve("all_reduce", 16, 4, (Point(8, 1e-5),), (), "made")


@each_case(
    ("network", "busbw", "text"),
    [
        (
            "2x EDR InfiniBand (100 Gb/s each)",
            11.9e9,
            "48% of 2 x EDR at 12.5GB/s, as if 1 of 2",
        ),
        (
            "2x EDR InfiniBand (100 Gb/s each)",
            24.3e9,
            "97% of 2 x EDR at 12.5GB/s, the limit",
        ),
        (
            "4x NDR200 InfiniBand per node",
            90e9,
            "90% of 4 x NDR200 at 25GB/s, the limit",
        ),
        (
            "Slingshot, 400 Gb/s class, 8 per node",
            190e9,
            "95% of 4 x 400 Gbit/s at 50GB/s, the limit",
        ),
        ("10 GbE TCP", 0.3e9, "24% of 1 x 10 Gbit/s at 1.25GB/s: algorithm or protocol"),
        ("10 GbE TCP", 3e9, "more than 1 x 10 Gbit/s"),
        (
            "",
            47e9,
            "94% of 4 x port of 100 Gbit/s (EDR) at 12.5GB/s, likely the limit; a guess by 4 "
            "GPUs a node; ",
        ),
        (
            "",
            23e9,
            "92% of 2 x port of 100 Gbit/s (EDR) at 12.5GB/s, likely the limit; a guess by 4 "
            "GPUs a node; ",
        ),
    ],
)
def test_the_network_is_named(network: str, busbw: float, text: str) -> None:
    limit = plateau(replace(CURVE, ports=parse_ports(network)), busbw / (2 * 15 / 16), None)
    assert limit is not None
    assert text in limit.text
    assert limit.text.startswith(
        f"{busbw / 1e9:.4g}GB/s a node" if busbw > 1e9 else "300MB/s a node"
    )


def test_a_guess_takes_a_nic_a_gpu_and_names_what_gives_the_same() -> None:
    limit = plateau(replace(CURVE, network="Slingshot"), 92.4e9 / (2 * 15 / 16), None)
    assert limit is not None
    assert limit.text == (
        "92.4GB/s a node: 92% of 4 x port of 200 Gbit/s (Slingshot-11) at 25GB/s, likely the "
        "limit; a guess by 4 GPUs "
        "a node; 8 x 100 Gbit/s, 2 x 400 Gbit/s or 1 x 800 Gbit/s would give the same"
    )
    assert limit.links is not None
    assert not limit.links.sure


@pytest.mark.parametrize(
    ("ranks", "nodes", "busbw", "ports"),
    [
        (16, 2, 390e9, "8 x port of 400"),
        (12, 2, 140e9, "6 x port of 200"),
        (2, 2, 48e9, "1 x port of 400"),
    ],
)
def test_a_guess_goes_by_the_gpus_of_a_node(
    ranks: int, nodes: int, busbw: float, ports: str
) -> None:
    curve = replace(CURVE, ranks=ranks, nodes=nodes)
    limit = plateau(curve, busbw / (2 * (ranks - 1) / ranks), None)
    assert limit is not None
    assert ports in limit.text


def test_ranks_on_the_host_have_no_nic_each() -> None:
    limit = plateau(
        replace(CURVE, ranks=256, nodes=2, device="host memory"), 11.9e9 / (2 * 255 / 256), None
    )
    assert limit is not None
    assert "1 x port of 100 Gbit/s (EDR) at 12.5GB/s, likely the limit; a guess" in limit.text
    assert "GPU" not in limit.text


def test_what_an_index_names_is_no_guess() -> None:
    limit = plateau(replace(CURVE, ports=parse_ports("10 GbE TCP")), 1.2e9 / (2 * 15 / 16), None)
    assert limit is not None
    assert "guess" not in limit.text


def test_a_node_alone_has_the_links_of_its_gpus() -> None:
    alone = replace(CURVE, ranks=8, nodes=1, device="NVIDIA H100 80GB HBM3")
    limit = plateau(alone, 367e9 / 1.75, None)
    assert limit is not None
    assert limit.text == "367GB/s a GPU: 77% of 18 x NVLink 4 at 26.6GB/s, likely the limit"


def test_a_topology_knows_its_links() -> None:
    limit = plateau(CURVE, 92e9 / (2 * 15 / 16), find("mn5_acc").build(16))
    assert limit is not None
    assert limit.text == "92GB/s a node: 92% of 4 x ib link at 25GB/s, the limit"


def test_what_leaves_a_node() -> None:
    """An all-to-all's share between nodes: each of 4 ranks sends 12/16 of its buffer to others'
    nodes."""
    assert leaving(replace(CURVE, collective="all_to_all"), 1e9) == pytest.approx(4 * 12 / 16 * 1e9)
    assert leaving(replace(CURVE, collective="broadcast"), 1e9) == 1e9


def test_without_ranks_nothing_is_said() -> None:
    assert plateau(replace(CURVE, ranks=None), 1e9, None) is None


SIZES = 8.0 * 2.0 ** np.arange(28, dtype=float)


@given(st.floats(1e-7, 1e-3), st.floats(1e8, 1e12), st.integers(3, 28))
def test_one_alpha_and_beta_are_one_piece(alpha: float, beta: float, points: int) -> None:
    envelope = fit(SIZES[:points], alpha + SIZES[:points] / beta)
    assert envelope(SIZES[:points]) == pytest.approx(alpha + SIZES[:points] / beta, rel=1e-6)
    assert len(envelope.pieces) == 1


def test_three_protocols_are_three_pieces(healthy: Curve) -> None:
    points = curve_columns(healthy)
    envelope = fit(points.size, points.seconds)
    assert len(envelope.pieces) == 3
    assert [piece.latency for piece in envelope.pieces] == pytest.approx(
        [30e-6, 60e-6, 150e-6], rel=0.1
    )
    assert [1 / piece.per_byte for piece in envelope.pieces[1:]] == pytest.approx(
        [10e9, 49e9], rel=0.05
    )
    assert envelope.pieces[2].half == pytest.approx(150e-6 * 49e9, rel=0.1)


def test_regimes_go_from_latency_to_bandwidth(healthy: Curve) -> None:
    points = curve_columns(healthy)
    words = regimes(points, fit(points.size, points.seconds))
    assert words[:5] == ("latency",) * 5
    assert words[-5:] == ("bandwidth",) * 5
    assert words.count("protocol switch") == 2


def test_time_that_does_not_grow_has_no_bandwidth() -> None:
    envelope = fit(SIZES, np.full(28, 1e-5))
    assert envelope.pieces[0].per_byte == pytest.approx(0.0, abs=1e-20)


def test_a_single_point_is_a_piece() -> None:
    assert fit(SIZES[:1], np.array([1e-5]))(SIZES[:1]) == pytest.approx([1e-5])


def test_many_points_are_thinned() -> None:
    sizes = 1e6 * np.arange(1, 600.0)
    assert fit(sizes, 1e-3 + sizes / 1e9)(sizes) == pytest.approx(1e-3 + sizes / 1e9, rel=1e-6)
