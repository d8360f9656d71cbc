"""Runs of several set-ups are told apart by what they contradict each other in."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements import Curve, Point
from experiments.measurements.setups import (
    SETUP_FACTOR,
    chosen_curves,
    contradictions,
    setups,
    warnings,
)
from grouped_cases import each_case
from topologies.errors import InputError

SIZES = (1024, 4096, 16384, 65536)


def curve(
    name: str, factor: float = 1.0, collective: str = "all_reduce", ranks: int = 8, **about: object
) -> Curve:
    points = tuple(Point(size, factor * (1e-5 + size / 1e9)) for size in SIZES)
    log = f"/runs/{name}"
    return Curve(collective, ranks, 2, points, (), log, **about)  # type: ignore[arg-type]


RUNS = [
    curve("polaris_cpu_ar_p8.csv"),
    curve("polaris_gpu_ar_p8.csv", 3.0),
    curve("polaris_cpu_ar_p16.csv", ranks=16),
    curve("polaris_gpu_ag_p8.csv", 2.0, "all_gather"),
]


def test_set_ups_are_told_by_the_words_of_those_that_contradict_each_other() -> None:
    (contradiction,) = contradictions(RUNS)
    faster, slower, factor = contradiction
    assert (faster, slower) == (RUNS[0], RUNS[1])
    assert factor == pytest.approx(3.0)
    assert setups(RUNS, [contradiction]) == {"cpu": [RUNS[0], RUNS[2]], "gpu": [RUNS[1], RUNS[3]]}
    assert list(warnings(RUNS)) == [
        "polaris_cpu_ar_p8.csv and polaris_gpu_ar_p8.csv measure the same and are 3 times apart: "
        "one set of parameters cannot fit two set-ups, take each alone: --only cpu, --only gpu"
    ]


def test_an_unknown_number_of_nodes_is_said() -> None:
    unknown = replace(curve("a_ar.csv", ranks=40), nodes=None)
    (line,) = warnings([unknown])
    assert line == (
        "a_ar.csv: 40 ranks on an unknown number of nodes are taken as 40 nodes: write it into a "
        "CSV's column nodes"
    )
    (line,) = warnings([curve("b_ar.csv"), unknown, replace(unknown, ranks=1), unknown])
    assert "40 nodes (and 1 more curve): " in line


@given(st.lists(st.floats(1.0, SETUP_FACTOR - 0.01), min_size=1, max_size=4))
def test_repetitions_are_no_set_ups(factors: list[float]) -> None:
    runs = [curve(f"run{k}_ar.csv", factor) for k, factor in enumerate(factors)]
    assert not list(contradictions(runs))
    assert not list(warnings(runs))
    assert setups(runs, []) == {"": runs}


def test_what_is_not_the_same_is_not_compared() -> None:
    curves = [
        curve("a_x.csv", 9.0, ranks=16),
        curve("b_x.csv", 9.0, "broadcast"),
        curve("c_x.csv", 9.0, algorithm="ring"),
        curve("d_x.csv", 9.0, protocol="LL"),
        curve("g_x.csv", 9.0, dtype="float16"),
        curve("e_x.csv", 9.0, kind="latency"),
    ]
    assert not list(contradictions([curve("f_x.csv"), *curves]))


def test_two_points_in_common_are_too_few() -> None:
    short = Curve("all_reduce", 8, 2, RUNS[1].points[:2], (), "/runs/b_x.csv")
    assert not list(contradictions([RUNS[0], short]))


def test_one_outlier_is_no_set_up() -> None:
    points = tuple(
        Point(point.size, point.time_s * (50 if k == 1 else 1))
        for k, point in enumerate(RUNS[0].points)
    )
    assert not list(
        contradictions([RUNS[0], Curve("all_reduce", 8, 2, points, (), "/runs/again_ar.csv")])
    )


def test_names_without_words_of_their_own_tell_nothing_apart() -> None:
    runs = [
        curve("runs.csv, line 1"),
        curve("runs.csv, line 9", 2.0),
        curve("long_name_of_another.csv", 5.0),
    ]
    pairs = list(contradictions(runs))
    assert len(pairs) == 2
    assert setups(runs, pairs) == {"": runs}
    (warning,) = warnings(runs)
    assert warning.endswith(
        "(and 1 more pair): one set of parameters cannot fit two set-ups, take each alone"
    )


@each_case("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_the_order_of_files_does_not_matter(order: tuple[int, int, int]) -> None:
    runs = [curve("run0_ar.csv", 1.15), curve("run1_ar.csv"), curve("run2_ar.csv", 1 / 1.15)]
    ((faster, slower, _),) = contradictions([runs[k] for k in order])
    assert (faster, slower) == (runs[2], runs[0])


def test_in_place_times_are_judged_where_they_are_meant() -> None:
    runs = [
        Curve("all_reduce", 8, 2, (), curve("x", factor).points, f"/runs/{factor}_x.csv")
        for factor in (1.0, 3.0)
    ]
    assert len(list(contradictions(runs))) == len(list(contradictions(runs, in_place=True))) == 1
    curves = [Curve("all_reduce", 8, 2, RUNS[0].points, run.in_place, run.source) for run in runs]
    assert not list(contradictions(curves))
    assert len(list(contradictions(curves, in_place=True))) == 1


def test_wrong_results_are_not_compared() -> None:
    wrong = tuple(Point(point.size, 9 * point.time_s, wrong=3) for point in RUNS[0].points)
    assert not list(
        contradictions([RUNS[0], Curve("all_reduce", 8, 2, wrong, (), "/runs/y_x.csv")])
    )


def test_few_set_ups_are_named_and_runs_that_are_of_none_are_counted() -> None:
    runs = [curve(f"run_{k}_ar.csv", 2.0**k) for k in range(7)] + [
        curve("other.csv", collective="broadcast")
    ]
    (warning,) = warnings(runs)
    assert warning.endswith(
        "--only 0, --only 1, --only 2, --only 3 and 3 more; 1 run with none of these words"
    )


def test_versions_are_words_too() -> None:
    runs = [curve("alps_ofi-1.9.2_ar.log:12"), curve("alps_ofi-1.14.0_ar.log:9", 3.0)]
    assert list(setups(runs, list(contradictions(runs)))) == ["ofi-1.9.2", "ofi-1.14.0"]


def test_several_words_may_tell_set_ups_apart() -> None:
    runs = [
        curve("a_set4_new_ar.csv"),
        curve("a_set5_old_ar.csv", 2.0),
        curve("a_set5_new_ar.csv", 4.0),
    ]
    pairs = list(contradictions(runs))
    assert list(setups(runs, pairs)) == ["set4 new", "set5 old", "set5 new"]
    (warning,) = warnings(runs)
    assert warning.endswith("--only set4,new, --only set5,new, --only set5,old")
    for only in ("set5,new", "new set5"):
        assert chosen_curves(runs, only, False) == [runs[2]]
    for only in ("set", "set5,a,ne", "none"):
        with pytest.raises(InputError, match="no file's name has that as a word: there are a, "):
            chosen_curves(runs, only, False)
