"""What is spoilt is found where it was spoilt, and nothing else is."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.diagnosis.anomalies import anomalies, memory
from experiments.diagnosis.findings import Finding
from experiments.diagnosis.shape import curve_columns
from experiments.measurements import Curve, Point
from grouped_cases import each_case
from topologies.errors import InputError

Spoil = Callable[[Curve, Iterable[int], float], Curve]


def alarms(curve: Curve) -> list[Finding]:
    return [finding for finding in anomalies(curve_columns(curve)) if finding.alarm]


def curve_of(times: list[float], first: int = 1024, step: int = 2) -> Curve:
    points = tuple(Point(first * step**k, time * 1e-6) for k, time in enumerate(times))
    return Curve("all_reduce", 8, 2, points, (), "made")


def test_a_healthy_curve_raises_no_alarm(healthy: Curve) -> None:
    assert alarms(healthy) == []


@given(
    alpha=st.floats(1e-7, 1e-3),
    beta=st.floats(1e8, 1e12),
    switches=st.lists(st.tuples(st.floats(1.0, 20.0), st.floats(1.0, 20.0)), max_size=2),
    step=st.sampled_from([2, 8]),
    noise=st.lists(st.floats(-0.03, 0.03), min_size=30, max_size=30),
)
def test_protocols_and_noise_of_three_percent_are_healthy(
    alpha: float, beta: float, switches: list[tuple[float, float]], step: int, noise: list[float]
) -> None:
    protocols = [(alpha, beta)]
    for slower, faster in switches:
        protocols.append((protocols[-1][0] * slower, protocols[-1][1] * faster))
    sizes = [4 * step**k for k in range(30 if step == 2 else 10)]
    times = [
        min(a + size / b for a, b in protocols) * (1 + off)
        for size, off in zip(sizes, noise, strict=False)
    ]
    points = tuple(Point(size, time) for size, time in zip(sizes, times, strict=True))
    assert alarms(Curve("all_reduce", 8, 2, points, (), "made")) == []


@each_case("place", [3, 12, 17, 24])
def test_a_single_slow_size_is_found(healthy: Curve, spoil: Spoil, place: int) -> None:
    (finding,) = alarms(spoil(healthy, [place], 2.5))
    assert (finding.kind, finding.places) == ("bump", (place,))
    assert finding.factor > 1.8


def test_a_bump_is_named_with_its_sizes(healthy: Curve, spoil: Spoil) -> None:
    (finding,) = alarms(spoil(healthy, range(10, 16), 5))
    assert (finding.kind, finding.places) == ("bump", (10, 11, 12, 13, 14, 15))
    assert finding.text.startswith("8KiB to 256KiB: ")


def test_time_that_falls_is_told_by_hand() -> None:
    """Half a size later 20 us: the straight line between 10 us at 2 KiB and 20 us at 8 KiB allows
    13.3 us at 4 KiB, the trend on the right 20 us / 2^0.32 = 16 us."""
    (finding,) = alarms(curve_of([10, 10, 40, 20, 25, 50]))
    assert finding.places == (2,)
    message = (
        "4KiB takes 2.5 times what the sizes on both sides allow, and 4KiB takes 2 times as long "
        "as 8KiB"
    )
    assert finding.text == f"4KiB: {message}"


def test_a_library_may_choose_badly_at_a_switch() -> None:
    findings = anomalies(curve_columns(curve_of([10, 13, 20, 39, 30, 33, 40, 70])))
    assert [(finding.kind, finding.places, finding.alarm) for finding in findings] == [
        ("time falls", (3,), False)
    ]


def test_a_jump_that_stays_is_a_switch_and_no_bump() -> None:
    findings = anomalies(curve_columns(curve_of([30, 31, 35, 140, 150, 186, 265, 414, 820, 1640])))
    assert [(finding.kind, finding.places, finding.alarm) for finding in findings] == [
        ("costly switch", (3,), False)
    ]


def test_a_protocol_below_the_bandwidth_of_smaller_sizes_is_sick() -> None:
    """Time grows 20 times from 32 to 64 KiB, stands still to 512 KiB and grows with size from
    there."""
    times: list[float] = [10, 12, 16, 24, 40, 72, 1440, 1442, 1446, 1455, 1470, 1500, 2900, 5700]
    (finding,) = alarms(curve_of(times))
    assert (finding.kind, finding.places) == ("costly switch", (6, 7, 8))
    assert finding.factor == pytest.approx(10)
    assert finding.text == (
        "32KiB to 64KiB: time grows 20 times, size 2: 64KiB has 10 times less bandwidth than 32KiB"
    )


@each_case(
    ("factor", "host", "alarm"),
    [(1.9, False, False), (2.2, False, True), (3.3, True, False), (4.4, True, True)],
)
def test_a_healthy_library_may_lose_some_bandwidth_at_a_switch(
    factor: float, host: bool, alarm: bool
) -> None:
    """The best bandwidth of smaller sizes is that of 16 KiB, half of the curve's best."""
    slow = 96 * factor
    times = [10, 14, 24, 28, 48, slow, 1.2 * slow, 1.5 * slow, 720, 760, 1400]
    curve = replace(curve_of(times), device="host memory" if host else "")
    assert [
        finding.alarm
        for finding in anomalies(curve_columns(curve))
        if finding.kind == "costly switch"
    ] == [alarm]


@pytest.mark.parametrize(("factor", "alarm"), [(3.4, False), (5.0, True)])
def test_a_switch_between_short_protocols_may_lose_more(factor: float, alarm: bool) -> None:
    times = [
        100,
        101,
        102,
        2 * factor * 102,
        2.05 * factor * 102,
        2.1 * factor * 102,
        2200,
        2300,
        2400,
        2500,
        2600,
    ]
    findings = [
        finding
        for finding in anomalies(curve_columns(curve_of(times)))
        if finding.kind == "costly switch"
    ]
    assert [finding.alarm for finding in findings] == [alarm]


@pytest.mark.parametrize(("first", "alarm"), [(18, False), (30, True)])
def test_a_slow_start_has_no_smaller_size_beside_it(first: float, alarm: bool) -> None:
    (finding,) = anomalies(curve_columns(curve_of([first, 10, 10.5, 11, 13, 17])))
    assert (finding.kind, finding.places, finding.alarm) == ("slow start", (0,), alarm)


@pytest.mark.parametrize(
    ("last", "alarm"), [([80, 160, 700], True), ([80, 260, 520], True), ([80, 160, 500], False)]
)
def test_a_plateau_that_drops_at_the_end(last: list[float], alarm: bool) -> None:
    findings = anomalies(curve_columns(curve_of([10, 12, 20, 40, *last])))
    assert [finding.alarm for finding in findings if finding.kind == "plateau drops"] == [alarm]


def test_memory_is_a_regime_of_the_host() -> None:
    host_columns = curve_columns(
        replace(curve_of([10, 30, 200, 1600, 25600, 204800], step=8), device="CPU ranks")
    )
    assert memory(host_columns).tolist() == [4, 5]
    assert [(finding.kind, finding.alarm) for finding in anomalies(host_columns)] == [
        ("memory", False)
    ]
    assert alarms(curve_of([10, 30, 200, 1600, 25600, 204800], step=8))


def test_not_even_memory_halves_bandwidth_within_a_doubling() -> None:
    sick = replace(curve_of([10, 20, 40, 80, 400, 800]), device="host buffers")
    assert [finding.kind for finding in alarms(sick)] == ["plateau drops"]


def test_wrong_results_are_an_alarm_at_their_size(healthy: Curve) -> None:
    points = (*healthy.points[:5], replace(healthy.points[5], wrong=3), *healthy.points[6:])
    (finding,) = alarms(replace(healthy, points=points))
    assert (finding.kind, finding.places, finding.text) == (
        "wrong result",
        (5,),
        "wrong results at 256B",
    )


def test_times_in_place_should_agree(healthy: Curve, spoil: Spoil) -> None:
    assert alarms(replace(healthy, in_place=spoil(healthy, [7], 1.4).points)) == []
    (finding,) = alarms(replace(healthy, in_place=spoil(healthy, [7], 0.5).points))
    assert (finding.kind, finding.places) == ("in place differs", (7,))


def test_one_rank_has_nothing_to_do_in_place(healthy: Curve, spoil: Spoil) -> None:
    two_places = replace(healthy, in_place=spoil(healthy, range(28), 0.1).points)
    assert alarms(two_places)
    assert alarms(replace(two_places, ranks=1, nodes=1)) == []


def test_noise_that_is_known_excuses(healthy: Curve, spoil: Spoil) -> None:
    sick = spoil(healthy, [12], 2.0)
    assert alarms(sick)
    assert not alarms(replace(sick, points=tuple(replace(point, cv=0.3) for point in sick.points)))


def test_one_or_two_points_say_nothing() -> None:
    assert anomalies(curve_columns(curve_of([10]))) == ()
    assert anomalies(curve_columns(curve_of([10, 9]))) == ()


def test_a_curve_without_times_is_an_error() -> None:
    with pytest.raises(InputError, match="no times"):
        curve_columns(Curve("all_reduce", 8, 1, (), (), "empty.log"))


def test_in_place_alone_is_judged(healthy: Curve) -> None:
    in_place_columns = curve_columns(replace(healthy, points=(), in_place=healthy.points))
    assert len(in_place_columns.size) == len(healthy.points)
    assert np.isnan(in_place_columns.in_place).all()
