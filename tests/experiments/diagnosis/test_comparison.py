"""Set-ups that are slower, and steps that most curves share."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

import nccl_logs
from experiments.diagnosis import compare, diagnose
from experiments.diagnosis.comparison import among
from experiments.measurements import Curve
from experiments.measurements.curve_checks import labels
from experiments.measurements.formats.osu_reader import parse_osu
from grouped_cases import each_case

Spoil = Callable[[Curve, Iterable[int], float], Curve]


def test_the_slower_set_up_is_named(healthy: Curve, spoil: Spoil) -> None:
    slow = replace(spoil(healthy, range(10, 15), 1.6), source="site/lab_set5_ar_p16.csv")
    (difference,) = compare([slow, replace(healthy, source="site/lab_set4_ar_p16.csv")])
    assert difference.slower is slow
    ((low, high, factor),) = difference.ranges
    assert (low, high) == (8 << 10, 8 << 14)
    assert factor == pytest.approx(1.6)
    assert difference.factor == pytest.approx(1.6 ** (5 / 28))
    assert (
        difference.text
        == "all_reduce, 16 ranks: set5 is slower than set4: 1.6 times at 8KiB to 128KiB"
    )


def later(curve: Curve) -> Curve:
    """The curve as if it came from another file."""
    return replace(curve, source="later_ar_p16.csv")


def test_noise_is_no_difference(healthy: Curve, spoil: Spoil) -> None:
    assert compare([healthy, later(spoil(healthy, range(28), 3))])
    assert compare([healthy, later(spoil(healthy, range(28), 1.2))]) == ()
    assert compare([healthy, later(spoil(healthy, [3, 9, 10, 20], 3))]) == ()
    assert compare([healthy]) == ()


@each_case(
    "changes",
    [
        {"ranks": 8},
        {"algorithm": "tree"},
        {"device": "V100"},
        {"collective": "broadcast"},
        {"topology": "another"},
        {"machine": "another"},
        {"backend": "gloo"},
        {"hosts": ("gpu01",)},
    ],
)
def test_only_like_is_compared_with_like(
    healthy: Curve, spoil: Spoil, changes: dict[str, object]
) -> None:
    slow = later(spoil(healthy, range(28), 3))
    assert compare([healthy, replace(slow, **changes)]) == ()  # type: ignore[arg-type]


def test_other_nodes_of_one_cluster_are_compared(healthy: Curve, spoil: Spoil) -> None:
    slow = replace(spoil(healthy, range(28), 3), hosts=("node07", "node08"), source="run.log:90")
    (difference,) = compare(
        [replace(healthy, hosts=("node01", "node02"), source="run.log:10"), slow]
    )
    assert difference.slower is slow


@pytest.mark.parametrize("unknown", [{"ranks": None}, {"collective": "unknown"}])
def test_runs_of_which_too_little_is_known_are_not_compared(
    healthy: Curve, spoil: Spoil, unknown: dict[str, object]
) -> None:
    curves = healthy, later(spoil(healthy, range(28), 3))
    assert compare([replace(curve, **unknown) for curve in curves]) == ()  # type: ignore[arg-type]


def test_a_document_without_hosts_may_be_of_two_machines(healthy: Curve, spoil: Spoil) -> None:
    slow = replace(spoil(healthy, range(28), 3), log="page.txt")
    assert compare([replace(healthy, log="page.txt"), slow]) == ()
    assert compare([replace(healthy, log="other.txt"), slow])
    assert compare([replace(curve, log="") for curve in (healthy, slow)])


def test_logs_name_the_hosts_of_each_test() -> None:
    assert [curve.hosts for curve in nccl_logs.parse(nccl_logs.log()).curves] == [
        ("node1", "node2")
    ]
    command = "$ mpirun -np 2 -H gpu01:1,gpu02:1 osu_latency"
    assert parse_osu(command + OSU, "job.out").curves[0].hosts == ("gpu01", "gpu02")


OSU = """
# OSU MPI Latency Test v7.4
# Size          Latency (us)
1024                    2.00
4096                    3.00
16384                   6.00
65536                  20.00

# OSU MPI Bandwidth Test v7.4
# Size      Bandwidth (MB/s)
1024                 3000.00
4096                 8000.00
16384               16000.00
65536               22000.00
"""


def test_a_latency_is_not_compared_with_a_bandwidth() -> None:
    curves = parse_osu(OSU, "job.out").curves
    assert [curve.kind for curve in curves] == ["latency", "bandwidth"]
    assert compare(curves) == ()


def test_files_of_different_names_keep_them(healthy: Curve) -> None:
    assert labels(
        replace(healthy, source="a/run.log:10"), replace(healthy, source="b/my_other.log")
    ) == (
        "run.log:10",
        "my_other.log",
    )


SIZE = 12
"""The place of 32 KiB."""


def job(curve: Curve, number: int, **about: object) -> Curve:
    log, hosts = f"pair{number}.log:9", (f"node{number}",)
    return replace(curve, source=log, hosts=hosts, **about)  # type: ignore[arg-type]


def verdicts(curves: list[Curve]) -> list[bool]:
    return [diagnosis.abnormal for diagnosis in among([diagnose(curve) for curve in curves])]


def factors(curves: list[Curve]) -> list[float]:
    return [finding.factor for curve in curves for finding in diagnose(curve).findings]


def test_a_step_that_most_share_is_a_note(healthy: Curve, spoil: Spoil) -> None:
    curves = [job(spoil(healthy, [SIZE], 1.6 if k < 4 else 1.0), k) for k in range(5)]
    assert all(1.5 < factor < 1.7 for factor in factors(curves))
    assert verdicts(curves[3:]) == [True, False]
    assert verdicts(curves) == [False] * 5
    (finding,) = among([diagnose(curve) for curve in curves])[0].findings
    assert (finding.kind, finding.alarm) == ("bump", False)
    assert finding.text.endswith("; 3 of 4 other curves share it")
    assert among([diagnose(curve) for curve in curves])[0].advice == ()


def test_a_step_of_a_peer_may_be_too_small_for_an_alarm(healthy: Curve, spoil: Spoil) -> None:
    curves = [job(spoil(healthy, [SIZE], 1.6 if k == 0 else 1.4), k) for k in range(3)]
    assert [diagnosis.abnormal for diagnosis in map(diagnose, curves)] == [True, False, False]
    assert verdicts(curves) == [False] * 3


def test_a_large_step_stays_abnormal_however_many_share_it(healthy: Curve, spoil: Spoil) -> None:
    assert verdicts([job(spoil(healthy, [SIZE], 3.0), k) for k in range(5)]) == [True] * 5


def test_a_step_at_another_size_is_another_step(healthy: Curve, spoil: Spoil) -> None:
    places = (SIZE, SIZE - 6, SIZE - 6)
    curves = [job(spoil(healthy, [place], 1.6), k) for k, place in enumerate(places)]
    assert verdicts(curves)[0]


@pytest.mark.parametrize("changes", [{"device": "NVIDIA A100"}, {"hosts": ("gpu1",)}])
def test_another_machine_is_no_peer(
    healthy: Curve, spoil: Spoil, changes: dict[str, object]
) -> None:
    sick = spoil(healthy, [SIZE], 1.6)
    strangers = [replace(job(sick, k), **changes) for k in range(1, 4)]  # type: ignore[arg-type]
    assert verdicts([job(sick, 0), *strangers])[0]


def test_other_collectives_of_one_file_are_peers_where_there_are_no_nearer_ones(
    healthy: Curve, spoil: Spoil
) -> None:
    kinds = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
    assert (
        verdicts([job(spoil(healthy, [SIZE], 1.6), 1, collective=kind) for kind in kinds])
        == [False] * 4
    )
