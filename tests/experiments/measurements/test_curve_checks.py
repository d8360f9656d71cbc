"""Runs of several set-ups, and doubts about times and nodes."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements import Curve, Point, doubts, read, read_all
from experiments.measurements.curve_checks import (
    SETUP_FACTOR,
    chosen_curves,
    contradictions,
    setups,
    warnings,
)
from grouped_cases import each_case
from nccl_logs import log
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


SHARED = Path(__file__).parents[4] / "shared" / "measured"


def doubts_about(
    *points: Point, collective: str = "all_reduce", ranks: int | None = 4
) -> list[str]:
    return list(doubts([Curve(collective, ranks, None, points, (), "folder/runs.csv")]))


def test_a_time_of_almost_nothing_is_named_with_its_file_and_row() -> None:
    (line,) = doubts_about(Point(4, 5e-9), Point(8, 1e-5))
    asked = "which is impossible: is its time in microseconds?"
    assert line == f"runs.csv, row of 4B: it takes 5ns, {asked}"


def test_a_bandwidth_beyond_all_memory_is_named() -> None:
    (line,) = doubts_about(Point(8, 1e-5), Point(2**30, 5e-5), Point(2**31, 1e-4))
    assert line.startswith("runs.csv, row of 1GiB: it moves 21.47TB/s, ")
    assert line.endswith("(and 1 more)")


def test_what_many_pairs_move_together_is_more() -> None:
    assert doubts_about(Point(2**30, 5e-5), collective="send_recv", ranks=64) == []
    assert doubts_about(Point(2**30, 5e-5), collective="send_recv", ranks=None) != []


@pytest.mark.parametrize(("ranks", "count"), [(1, 0), (2, 1)])
def test_one_rank_does_nothing_in_place(ranks: int, count: int) -> None:
    curve = Curve("all_reduce", ranks, 1, (Point(2**30, 1.0),), (Point(2**30, 2e-7),), "runs.csv")
    assert len(list(doubts([curve]))) == count


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared measurements are not here")
def test_no_real_machine_is_doubted() -> None:
    assert list(doubts(read_all([SHARED]).curves)) == []


def logged(path: Path, hosts: int, model: str = "NVIDIA GB200", before: str = "") -> Curve:
    """What is read of a log of `hosts` hosts with four GPUs each."""
    file, ranks = path / "nccl.log", 4 * hosts
    text = log(*map(_row, (2**20, 2**24)), name="sendrecv", ranks=ranks)
    listed = [_device(rank, model) for rank in range(ranks)]
    head, _, rest = text.partition("#  Rank")
    table = rest[rest.index("#\n") :]
    file.write_text(before + head + "\n".join(listed) + "\n" + table)
    (curve,) = read(file).curves
    assert curve.ranks == ranks
    return curve


def _device(rank: int, model: str) -> str:
    host, place = divmod(rank, 4)
    return (
        f"#  Rank {rank:2d} Group  0 Pid {rank:6d} on tray{host} device {place:2d} [0x01] {model}"
    )


def _row(size: int) -> str:
    bandwidth = f"{size / 1e5:7.2f}"
    cells = f"  100.0  {bandwidth}  {bandwidth}      0"
    return f"{size:12d}  {size // 4:12d}     float    none      -1{2 * cells}"


@pytest.mark.parametrize(
    ("hosts", "model", "nodes", "per_node"),
    [
        (18, "NVIDIA GB200", 1, 72),
        (2, "NVIDIA GB300", 1, 8),
        (32, "NVIDIA GB200", 2, 64),
        (19, "NVIDIA GB200", 2, 38),
        (18, "NVIDIA GH200 120GB", 18, 4),
        (18, "NVIDIA B200", 18, 4),
        (18, "NVIDIA GB200 NVL4", 18, 4),
    ],
)
def test_trays_of_a_domain_are_one_node(
    tmp_path: Path, hosts: int, model: str, nodes: int, per_node: int
) -> None:
    curve = logged(tmp_path, hosts, model)
    assert (curve.nodes, curve.gpus_per_node) == (nodes, per_node)
    notes = list(doubts([curve]))
    assert len(notes) == (nodes < hosts)
    assert all(f"{hosts} hosts with {model} taken as trays of {nodes} NVLink" in n for n in notes)


@pytest.mark.parametrize(
    "line",
    [
        "export NCCL_MNNVL_ENABLE=0\n",
        "tray0:1:2 [0] NCCL INFO comm nNodes 18 localRank 0 MNNVL 0\n",
    ],
)
def test_a_log_says_that_hosts_are_nodes(tmp_path: Path, line: str) -> None:
    curve = logged(tmp_path, 18, before=line)
    assert (curve.nodes, list(doubts([curve]))) == (18, [])


def test_the_nodes_of_a_csv_are_what_it_says() -> None:
    point = (Point(2**20, 1e-4),)
    curve = Curve("all_reduce", 72, 18, point, (), "runs.csv", device="NVIDIA GB200")
    (line,) = doubts([curve])
    assert line == (
        "runs.csv: 18 nodes with NVIDIA GB200: if they are trays of NVLink domains, write 1 under "
        "nodes"
    )
