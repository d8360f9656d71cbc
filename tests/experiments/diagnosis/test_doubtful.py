"""What cannot be judged, or cannot be: few points, times that stand still, a profile of another
machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from experiments.diagnosis import Diagnosis, Expected, diagnose
from experiments.measurements import Curve, Point
from grouped_cases import each_case
from simulator.uncertainty.interval import Interval
from topologies.shapes import star
from topologies.topology import Floats


def curve(times: dict[int, float], wrong: int = 0) -> Curve:
    points = tuple(Point(size, seconds, wrong) for size, seconds in times.items())
    return Curve("all_reduce", 8, 2, points, (), "made.csv", device="NVIDIA H100")


def against_profile(measured: Curve, factor: float, profile: str = "mine, of nodes") -> Diagnosis:
    """Measured against a profile that expects `factor` times its time."""

    def expect(_: Curve, sizes: Floats) -> Expected:
        seconds = factor * np.array([point.time_s for point in measured.points])
        names, machine = ("ring, LL",) * len(sizes), star(8, bandwidth=50e9)
        about = (machine, "the profile mine", profile)
        return Expected(sizes, seconds, names, lambda: seconds / 4, *about)

    return diagnose(measured, expect)


@each_case(
    "times",
    [
        {8: 1e-5},
        {8: 1e-5, 16: 1e-5},
        {8: 9e-4, 2**20: 1e-4},
        {2**20: 1e-4, 2**21: 9e-3},
        {8: 1e-5, 2**30: 1e-2},
    ],
)
def test_one_or_two_points_are_too_few_to_judge(times: dict[int, float]) -> None:
    diagnosis = diagnose(curve(times))
    assert (diagnosis.verdict, diagnosis.abnormal, diagnosis.facts, diagnosis.plateau) == (
        "too few points to judge",
        False,
        (),
        None,
    )
    assert set(diagnosis.regimes) == {""}


def test_a_wrong_result_is_one_however_few_the_points_are() -> None:
    assert diagnose(curve({8: 1e-5}, wrong=3)).verdict == "abnormal"


def test_three_points_are_judged() -> None:
    assert diagnose(curve({8: 1e-5, 16: 1e-5, 32: 1.1e-5})).verdict == "healthy"


def test_time_that_stands_still_while_size_grows_is_worth_a_note() -> None:
    diagnosis = diagnose(curve({8 << 2 * k: 2e-5 for k in range(14)}))
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.alarm, diagnosis.verdict) == (
        "time stands still",
        False,
        "healthy",
    )
    assert finding.text == "2MiB to 512MiB: size grows 256 times, time 1 times"
    assert "from 8B to 512MiB: 20us whatever the size" in diagnosis.facts


def test_latency_may_stand_still(healthy: Curve) -> None:
    assert diagnose(healthy).findings == ()
    assert diagnose(curve({8 << k: 2e-5 for k in range(17)})).findings == ()


def test_a_machine_that_is_slower_than_its_profile_everywhere_gets_no_cause(healthy: Curve) -> None:
    diagnosis = against_profile(healthy, 0.3)
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.alarm, diagnosis.advice) == ("profile does not fit", True, ())
    message = (
        "3.33 to 3.33 times as long as by the profile mine, of nodes: it is of another machine, "
        "or this one is slow"
    )
    assert finding.text.startswith(f"8B to 1GiB: {message}")
    assert diagnosis.plateau is not None
    assert (diagnosis.plateau.links, ":" in diagnosis.plateau.text) == (None, False)


def test_a_machine_that_is_faster_than_its_profile_is_another_one(healthy: Curve) -> None:
    diagnosis = against_profile(healthy, 5.0)
    assert [(finding.kind, finding.alarm) for finding in diagnosis.findings] == [
        ("profile does not fit", False)
    ]
    assert diagnosis.findings[0].text.endswith(
        "0.2 to 0.2 times as long as by the profile mine, of nodes: it is of another machine"
    )
    assert diagnosis.verdict == "healthy"


def test_a_machine_near_its_profile_and_one_without_are_judged_as_ever(healthy: Curve) -> None:
    assert against_profile(healthy, 0.9).findings == ()
    assert [finding.kind for finding in against_profile(healthy, 0.3, profile="").findings] == [
        "far below"
    ]


def test_where_the_ranks_are_is_not_guessed_for_an_alarm(healthy: Curve) -> None:
    host = replace(healthy, device="host memory")
    assert not against_profile(host, 0.3).abnormal


def sure(measured: Curve, factor: float, half: float) -> Diagnosis:
    """Measured against a profile that expects `factor` times its time, and is sure to `half` in
    log."""

    def expect(_: Curve, sizes: Floats) -> Expected:
        seconds = factor * np.array([point.time_s for point in measured.points])
        intervals = tuple(
            Interval(each, each / np.exp(half), each * np.exp(half)) for each in seconds.tolist()
        )
        names = ("ring, LL",) * len(sizes)
        machine = star(8, bandwidth=50e9)
        about = (machine, "the profile mine", "mine, of nodes")
        return Expected(sizes, seconds, names, lambda: seconds / 9, *about, intervals=intervals)

    return diagnose(measured, expect)


def test_times_inside_their_intervals_are_normal(healthy: Curve) -> None:
    """Also where a fixed factor would call them far below, or of another machine."""
    assert sure(healthy, 0.55, half=0.7).findings == ()
    assert sure(healthy, 0.3, half=1.3).findings == ()


def test_times_outside_their_intervals_are_named(healthy: Curve) -> None:
    (note,) = sure(healthy, 0.95, half=0.03).findings
    assert (note.kind, note.alarm, len(note.places)) == (
        "outside the interval",
        False,
        len(healthy.points),
    )
    assert "by the interval of 80% of runs" in note.text
    assert "takes 1.05 times the expected time" in note.text


def test_sizes_outside_their_wider_interval_are_below_expectation(healthy: Curve) -> None:
    diagnosis = sure(healthy, 0.7, half=0.1)
    assert [finding.kind for finding in diagnosis.findings] == ["below expectation"]
    assert diagnosis.verdict == "below expectation"
    assert against_profile(healthy, 0.7).findings == ()
