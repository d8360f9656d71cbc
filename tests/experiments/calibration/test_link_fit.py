"""Fits recover what they were made from, say how sure they are, and admit what the data do not
say."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from experiments.calibration import LinkFit, fit_links, solve
from law_cases import tries
from simulator.collectives import find
from simulator.engines import simulate
from topologies.errors import InputError
from topologies.shapes import ring, star
from topologies.topology import Topology

SIZES = [2.0**k for k in range(3, 33, 3)]


def links(latency: float, bandwidth: float) -> Topology:
    return star(4, bandwidth=bandwidth, latency=latency)


def measured(
    algorithm: str, latency: float, bandwidth: float, noise: float = 0.0, seed: int = 0
) -> list[float]:
    schedule = find(algorithm).build(4, 1.0)
    exact = [simulate(schedule.scaled(size), links(latency, bandwidth)).makespan for size in SIZES]
    return list(exact * np.random.default_rng(seed).lognormal(0.0, noise, len(SIZES)))


@tries(6, 20)
@given(
    algorithm=st.sampled_from(["ring", "tree", "naive", "parameter_server", "halving_doubling"]),
    latency=st.floats(1e-7, 1e-3),
    bandwidth=st.floats(1e8, 1e12),
)
def test_exact_times_give_the_links_back(algorithm: str, latency: float, bandwidth: float) -> None:
    fit = fit_links(
        find(algorithm).build(4, 1.0), SIZES, measured(algorithm, latency, bandwidth), links
    )
    assert fit.latency == pytest.approx(latency, rel=1e-6)
    assert fit.bandwidth == pytest.approx(bandwidth, rel=1e-6)
    assert fit.notes == []


@pytest.mark.exhaustive
def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    schedule, covered = find("ring").build(4, 1.0), 0
    for seed in range(60):
        fit = fit_links(schedule, SIZES, measured("ring", 2e-6, 200e9, 0.03, seed), links)
        low, high = fit.latency_interval
        covered += low <= 2e-6 <= high
        assert fit.latency == pytest.approx(2e-6, rel=0.15)
    assert covered >= 50  # 95% of 60 is 57, with a standard deviation of 1.7


def test_large_sizes_alone_do_not_identify_the_latency() -> None:
    sizes = [2.0**30, 2.0**31, 2.0**32, 2.0**33]
    seconds = [
        size * 1.5 / 1e9 * (1 + wobble)
        for size, wobble in zip(sizes, (0.01, -0.01, 0.01, -0.02), strict=True)
    ]
    fit = fit_links(find("ring").build(4, 1.0), sizes, seconds, links)
    assert fit.latency >= 0
    assert any("α is not bounded" in note for note in fit.notes)


def test_two_points_fit_exactly_and_have_no_interval() -> None:
    fit = fit_links(find("ring").build(4, 1.0), SIZES[:2], measured("ring", 2e-6, 1e9)[:2], links)
    assert fit.latency == pytest.approx(2e-6)
    assert np.isnan(fit.latency_interval).all()


def test_one_size_is_too_few() -> None:
    with pytest.raises(InputError, match="too few sizes to fit, 1"):
        fit_links(find("ring").build(4, 1.0), [1024.0, 1024.0], [1e-3, 1e-3], links)


def test_another_topology_gives_another_link() -> None:
    schedule, seconds = find("ring").build(4, 1.0), measured("ring", 2e-6, 1e9)
    fit = fit_links(schedule, SIZES, seconds, lambda a, b: ring(4, bandwidth=b, latency=a))
    assert fit.latency == pytest.approx(4e-6)  # one link a step instead of the two through a switch


@given(st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)), min_size=2, max_size=8))
@example([(0.0, 1e-223), (1e-223, 1e-223)])
@example([(0.0, 0.0), (0.0, 5e-324)])
def test_the_solution_is_never_negative_and_never_beaten(rows: list[tuple[float, float]]) -> None:
    design = np.array(rows)
    best = solve(design, np.ones(len(design)))
    misfit = ((design @ best - 1) ** 2).sum()
    assert np.all(best >= 0)
    for candidate in (
        [0.0, 0.0],
        best * [1.01, 1.0],
        best * [1.0, 1.01],
        best * [0.99, 1.0],
        best * [1.0, 0.99],
    ):
        assert misfit <= ((design @ candidate - 1) ** 2).sum() * (1 + 1e-9) + 1e-12


def test_relative_weights_make_small_sizes_count() -> None:
    fit: LinkFit = fit_links(
        find("ring").build(4, 1.0), SIZES, measured("ring", 20e-6, 200e9, 0.03), links
    )
    low, high = fit.latency_interval
    assert high - low < 0.2 * fit.latency


def test_what_is_given_is_not_fitted() -> None:
    """With the gap told, α and β come out as they were; a fit that overlooks it would put it into
    α."""

    def gapped(latency: float, bandwidth: float) -> Topology:
        return star(4, bandwidth=bandwidth, latency=latency, gap=10e-6, reduction=1e-12)

    schedule = find("ring").build(4, 1.0)
    seconds = [simulate(schedule.scaled(size), gapped(2e-6, 1e9)).makespan for size in SIZES]
    fit = fit_links(schedule, SIZES, seconds, gapped)
    assert fit.latency == pytest.approx(2e-6, rel=1e-6)
    assert fit.bandwidth == pytest.approx(1e9, rel=1e-9)
