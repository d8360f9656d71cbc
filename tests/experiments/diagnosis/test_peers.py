"""A small step that most curves have is the library's choice; a larger one, or one of a single
curve, is not."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from experiments.diagnosis import diagnose
from experiments.diagnosis.peers import among
from experiments.measurements import Curve

Spoil = Callable[[Curve, Iterable[int], float], Curve]
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
