"""A whole diagnosis: by itself, and beside what a machine should give."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from experiments.diagnosis import Expected, diagnose
from experiments.diagnosis.library_expectation import LibraryExpectation
from experiments.measurements import Curve, Point
from topologies.catalogue import find
from topologies.topology import Floats

HGX = find("hgx_h100").build(8)
ON_HGX = LibraryExpectation(find("hgx_h100"))

Spoil = Callable[[Curve, Iterable[int], float], Curve]


def at(factor: float) -> Curve:
    """Large all-reduces on eight H100 at `factor` of the 478 GB/s that NVLS gives."""
    sizes = [1 << k for k in range(26, 34)]
    points = tuple(Point(size, 20e-6 + size * 1.75 / (478e9 * factor)) for size in sizes)
    return Curve("all_reduce", 8, 1, points, (), "made.csv", device="H100")


def test_a_machine_that_gives_what_it_should(healthy: Curve) -> None:
    diagnosis = diagnose(at(0.9), ON_HGX)
    assert not diagnosis.abnormal
    assert diagnosis.fraction is not None
    assert diagnosis.fraction[-1] == pytest.approx(0.9, abs=0.03)
    assert diagnosis.expected is not None
    assert diagnosis.expected.algorithm[-1].startswith("nvls")
    assert (diagnosis.expected.bound <= diagnosis.expected.seconds).all()


def test_a_plateau_far_below_is_an_alarm_with_advice() -> None:
    diagnosis = diagnose(at(0.3), ON_HGX)
    assert diagnosis.findings[0].kind == "below expectation"
    assert diagnosis.verdict == "below expectation"
    assert any("NCCL_P2P_LEVEL" in line for line in diagnosis.advice)


def test_only_a_low_plateau_has_advice_about_links() -> None:
    sizes = [2**power for power in range(20, 34)]
    small = few({size: 3.0 if size < 2**23 else 1.0 for size in sizes})
    below = diagnose(small, ON_HGX)
    assert below.verdict in ("below expectation", "abnormal")
    assert not any("NCCL_P2P_LEVEL" in line for line in below.advice)
    two = LibraryExpectation(find("hgx_h100:nodes=2"))
    between = diagnose(few({2**33: 10.0}, ranks=16, nodes=None), two)
    assert any("every NIC is used" in line for line in between.advice)


def test_what_is_expected_is_passed_in(healthy: Curve) -> None:
    def expected(curve: Curve, sizes: Floats) -> Expected:
        seconds = np.array([point.time_s for point in curve.points]) / 2
        return Expected(sizes, seconds, ("ring",) * len(sizes), lambda: seconds / 2, HGX)

    diagnosis = diagnose(healthy, expected)
    assert diagnosis.fraction == pytest.approx(np.full(28, 0.5))
    assert diagnosis.abnormal


def test_points_that_beat_the_bound_ask_for_another_machine() -> None:
    diagnosis = diagnose(at(3.0), ON_HGX)
    assert "beats the bound" in [finding.kind for finding in diagnosis.findings]


def test_a_forced_algorithm_is_expected_to_be_that_one() -> None:
    diagnosis = diagnose(replace(at(0.7), algorithm="ring"), ON_HGX)
    assert diagnosis.expected is not None
    assert {name.partition(",")[0] for name in diagnosis.expected.algorithm} == {"rings"}


def test_a_better_algorithm_is_named_where_a_forced_one_is_slow() -> None:
    diagnosis = diagnose(replace(at(0.3), algorithm="ring"), ON_HGX)
    (line,) = [line for line in diagnosis.advice if line.startswith("nvls should take")]
    assert line.endswith("repeat without forcing ring, or with NCCL_ALGO=NVLS")


def test_no_better_algorithm_is_named_where_nothing_is_slow_or_forced() -> None:
    for curve in (replace(at(0.7), algorithm="ring"), at(0.3)):
        diagnosis = diagnose(curve, ON_HGX)
        assert not any("should take" in line for line in diagnosis.advice)


def test_without_ranks_nothing_is_expected() -> None:
    assert diagnose(replace(at(1.0), ranks=None), ON_HGX).expected is None


def test_facts_tell_latency_a_step_and_the_plateau(healthy: Curve) -> None:
    facts = diagnose(replace(healthy, algorithm="ring")).facts
    assert facts[0].startswith("α 30.")
    assert "a step of a ring (30 steps)" in facts[0]
    assert facts[-1].startswith("plateau 91.6")


def test_sick_sizes_do_not_bend_the_protocols(healthy: Curve, spoil: Spoil) -> None:
    diagnosis = diagnose(spoil(healthy, range(10, 15), 6))
    assert diagnosis.abnormal
    clean = np.array([point.time_s for point in healthy.points])
    assert diagnosis.envelope(diagnosis.columns.size) == pytest.approx(clean, rel=0.1)


def test_slingshot_gets_its_own_advice(healthy: Curve, spoil: Spoil) -> None:
    sick = spoil(replace(healthy, network="Slingshot"), range(10, 15), 6)
    assert any("FI_CXI" in line for line in diagnose(sick).advice)
    assert any(
        "UCX_RNDV_THRESH" in line for line in diagnose(replace(sick, library="OpenMPI 4")).advice
    )


def few(factors: dict[int, float], **changes: object) -> Curve:
    """All-reduces on eight H100 at factors of the time that is expected, by size."""
    curve = replace(at(1.0), points=tuple(Point(size, 1.0) for size in factors))
    expected = ON_HGX(curve, np.array([*factors], dtype=float))
    assert expected is not None
    pairs = zip(factors.items(), expected.seconds.tolist(), strict=True)
    points = tuple(Point(size, factor * seconds) for (size, factor), seconds in pairs)
    return replace(curve, points=points, **changes)  # type: ignore[arg-type]


def test_of_few_sizes_each_is_judged() -> None:
    diagnosis = diagnose(few({2**20: 1.0, 2**33: 10.0}), ON_HGX)
    assert (diagnosis.verdict, diagnosis.abnormal) == ("below expectation", True)
    assert diagnose(few({2**20: 1.0, 2**33: 1.05}), ON_HGX).verdict == "as expected"


def test_a_number_that_no_link_allows_is_not_as_expected() -> None:
    diagnosis = diagnose(few({2**33: 1e-3}), ON_HGX)
    assert (diagnosis.verdict, diagnosis.abnormal) == ("faster than the links allow", False)


def test_ranks_that_fill_the_machine_are_no_guess() -> None:
    slow = few({2**33: 10.0}, ranks=16, nodes=None)
    two = LibraryExpectation(find("hgx_h100:nodes=2"))
    assert diagnose(slow, two).verdict == "below expectation"
    assert diagnose(slow, ON_HGX).verdict == "below a guess: name the machine"


def test_what_is_expected_never_beats_the_bound() -> None:
    sizes = [2**power for power in range(3, 34, 6)]
    for name in ("broadcast", "reduce", "all_gather", "send_recv"):
        curve = few(dict.fromkeys(sizes, 1.0), collective=name)
        expected = ON_HGX(curve, np.array(sizes, dtype=float))
        assert expected is not None
        assert (expected.bound <= expected.seconds).all()
