"""A curve that is abnormal, and causes that explain it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from experiments.diagnosis import Diagnosis, Expected, diagnose
from experiments.diagnosis.library_expectation import LibraryExpectation, measured_on
from experiments.measurements import Curve, Point
from grouped_cases import each_case
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


SIZES = np.array([2.0**power for power in range(28, 34)])


def judged(machine: str, faulty: str, factor: float = 1.0) -> tuple[Diagnosis, tuple[str, ...]]:
    """The diagnosis on a machine, and its causes, of what a faulty one gives."""
    sick, whole = LibraryExpectation(find(faulty)), LibraryExpectation(find(machine))
    curve = measured_on(find(faulty), "all_reduce", find(machine).whole().ranks)
    expected = sick(curve, SIZES)
    assert expected is not None
    seconds = (expected.seconds * factor).tolist()
    points = tuple(Point(int(size), time) for size, time in zip(SIZES, seconds, strict=True))
    diagnosis = diagnose(replace(curve, points=points), whole)
    return diagnosis, whole.causes(diagnosis)


@each_case(
    ("machine", "faulty", "words"),
    [
        ("hgx_h100:nodes=4", "hgx_h100:nodes=4,nics=4", "4 of 8 NICs of a node would give"),
        ("hgx_h100:nodes=2", "hgx_h100:nodes=2,nics=2", "2 of 8 NICs of a node would give"),
        ("dgx_a100:nodes=4", "dgx_a100:nodes=4,nics=2", "2 of 8 NICs of a node would give"),
        (
            "hgx_h200:nodes=2",
            "hgx_h200:nodes=2,nics=1,port=ethernet25",
            "TCP over one port would give 2.",
        ),
    ],
)
def test_a_fault_that_is_put_in_is_the_first_cause(machine: str, faulty: str, words: str) -> None:
    diagnosis, causes = judged(machine, faulty)
    assert diagnosis.verdict == "below expectation"
    assert causes[0].startswith(f"may be: {words}")
    assert len(causes) <= 3


def test_what_no_fault_explains_has_no_cause() -> None:
    _, causes = judged("hgx_h100:nodes=2", "hgx_h100:nodes=2", factor=2000.0)
    assert [line.partition(":")[0] for line in causes] == ["cannot tell the cause"]


def test_a_healthy_machine_has_no_cause() -> None:
    diagnosis, causes = judged("hgx_h100:nodes=2", "hgx_h100:nodes=2", factor=1.05)
    assert (diagnosis.verdict, causes) == ("healthy", ())


@pytest.mark.parametrize("factor", [3.0, 8.0, 30.0])
def test_causes_of_one_node_are_of_its_links(factor: float) -> None:
    diagnosis, causes = judged("hgx_h100", "hgx_h100", factor)
    assert diagnosis.verdict == "below expectation"
    assert not any("NICs" in line or "TCP" in line for line in causes)


def test_gpus_of_amd_have_links_of_their_own() -> None:
    diagnosis, causes = judged("mi300x", "mi300x", 2.1)
    assert diagnosis.verdict == "below expectation"
    assert causes[0].startswith("may be: a GPU with half of its links of kind xgmi would give")


def test_shapes_have_no_faults_to_simulate() -> None:
    machine = find("nodes:per_node=4")
    curve = Curve("all_reduce", 8, 2, (Point(2**30, 10.0),), ())
    expectation = LibraryExpectation(machine, "nccl")
    (line,) = expectation.causes(diagnose(curve, expectation))
    assert line.startswith("cannot tell the cause: simctl knows no fault")
