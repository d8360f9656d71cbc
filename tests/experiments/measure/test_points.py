"""Names and sizes become points."""

import re

from experiments.measure.points import MeasurementPlan, MeasurementPoint, parse_names, points
from grouped_cases import each_case
from refusals import refusal


def sizes(name: str, size: float, ranks: int, dtype: str = "float32") -> list[int]:
    return [point.size_bytes for point in points([name], [size], ranks, dtype)]


@each_case(
    ("name", "size", "ranks", "dtype", "expected"),
    [
        ("all_reduce", 4096, 3, "float32", 4096),
        ("all_gather", 4096, 3, "float32", 4092),
        ("ring", 4096, 3, "float32", 4092),
        ("halving_doubling", 4096, 3, "float32", 4096),
        ("ring_reduce_scatter", 4096, 5, "float64", 4080),
        ("pairwise", 1, 5, "float32", 20),
        ("all_reduce", 1, 5, "float64", 8),
        ("all_reduce", 7, 5, "bfloat16", 6),
        ("barrier", 4096, 5, "float32", 0),
    ],
)
def test_sizes_cut_into_whole_chunks(
    name: str, size: float, ranks: int, dtype: str, expected: int
) -> None:
    assert sizes(name, size, ranks, dtype) == [expected]


def test_points_are_in_order_and_once_each() -> None:
    plan = points(["ring", "barrier", "broadcast"], [1.0, 2.0, 64.0], 2, "float32")
    assert plan == (
        MeasurementPoint("all_reduce", "ring", 2, 8),
        MeasurementPoint("all_reduce", "ring", 16, 64),
        MeasurementPoint("barrier", "", 0, 0),
        MeasurementPoint("broadcast", "", 1, 4),
        MeasurementPoint("broadcast", "", 16, 64),
    )
    assert [str(point) for point in plan[1:3]] == ["ring of 64B", "barrier"]


def test_a_plan_survives_its_journey() -> None:
    plan = MeasurementPlan(
        "gloo",
        "cpu",
        "float32",
        2,
        "",
        points(["ring", "reduce"], [64.0], 2, "float32"),
        budget=0.5,
    )
    assert MeasurementPlan.from_json(plan.to_json()) == plan


@each_case(
    ("text", "reason"),
    [
        ("all-reduce", "did you mean 'all_reduce'"),
        ("rnig", "did you mean 'ring'"),
        ("", "'' cannot be measured"),
        ("ring,,tree", "'' cannot be measured"),
        ("parameter_server_apart", "needs a server"),
        ("sharp", "a switch that reduces"),
        ("x" * 10_000, "cannot be measured"),
    ],
)
def test_what_cannot_be_measured_is_refused(text: str, reason: str) -> None:
    message = refusal(parse_names, text)
    assert re.search(reason, message)
    assert len(message) < 400


def test_names_count_once() -> None:
    assert parse_names("ring, all_reduce,ring") == ["ring", "all_reduce"]


def test_send_and_receive_takes_two() -> None:
    assert "2 or more" in refusal(points, ["send_recv"], [64.0], 1, "float32")


@each_case("name", ["incast", "central_barrier", "chain_scan", "ring_all_gatherv"])
def test_collectives_whose_results_nobody_checks_are_refused(name: str) -> None:
    assert refusal(parse_names, name).startswith(f"{name} cannot be measured: it is ")
