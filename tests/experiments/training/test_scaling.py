"""Where more workers stop paying, and which strategy is fastest, in words."""

from __future__ import annotations

from experiments.output import Record
from experiments.training.training_table import Scaling, comparison_text, scaling, scaling_text
from grouped_cases import each_case


def record(ranks: int, speed_up: float, strategy: str = "ddp") -> Record:
    """A run of a model of which a worker alone trains 100 samples/s."""
    step = ranks * 0.08 / speed_up
    return {
        "model": "four",
        "batch": 8,
        "strategy": strategy,
        "ranks": ranks,
        "step_s": step,
        "samples_per_s": 100 * speed_up,
        "efficiency": speed_up / ranks,
        "exposed_s": step / 4,
        "computing_s": step / 2,
        "transfer_s": step / 2,
        "twice_bandwidth_s": step / 2,
        "half_latency_s": step,
        "twice_compute_s": step,
    }


@each_case(
    ("speed_ups", "end"),
    [
        ([1.0, 2.0, 4.0, 8.0], None),
        ([1.0, 1.9, 3.0, 4.9], 2),
        ([1.0, 1.4, 1.5, 1.6], 0),
        ([1.0, 1.9, 1.7, 6.0], None),
        ([1.0, 2.0, 1.9, 1.8], 1),
    ],
)
def test_workers_stop_paying_where_no_later_number_adds_half(
    speed_ups: list[float], end: int | None
) -> None:
    assert Scaling([1, 2, 4, 8], speed_ups).end == end


def test_more_workers_may_be_slower() -> None:
    words = str(Scaling([1, 2, 4], [1.0, 2.0, 1.5]))
    assert words == "stops paying beyond 2 workers: 4 are slower"


def test_one_job_is_said_with_what_would_help() -> None:
    records = [record(4, 2.2), record(1, 1.0), record(2, 1.9)]
    assert scaling(records).ranks == [1, 2, 4]
    first, second, *_ = scaling_text(records, "", {}).split("\n")
    assert first.startswith("scaling stops paying beyond 2 workers: up to 4, each")
    assert second == (
        "on 4 workers twice the bandwidth would help most: 72.73ms a step instead of 145.5ms"
    )


def test_each_strategy_has_a_line() -> None:
    records = [
        record(ranks, speed_up, strategy)
        for strategy, speed_ups in {"ddp": (1.0, 1.9), "asgd": (0.9, 1.0)}.items()
        for ranks, speed_up in zip((1, 2), speed_ups, strict=True)
    ]
    names = {"ddp": "ddp", "asgd": "asgd"}
    lines = scaling_text(records, "strategy", names).split("\n")
    assert lines[0].startswith("strategy ddp pays up to 2 workers, the most here")
    assert lines[1].startswith("strategy asgd stops paying beyond 1 worker: up to 2, each")
    assert comparison_text(records, "strategy", names).split("\n") == [
        "1 to 2 workers: ddp is fastest, 100 to 190 samples/s, up to 1.9 times asgd",
        "samples/s do not show the learning of asgd: --learn mlp compares it",
    ]


def test_one_number_of_workers_does_not_scale() -> None:
    records = [record(4, 3.0, "ddp"), record(4, 3.001, "ssgd")]
    names = {"ddp": "ddp", "ssgd": "ssgd"}
    assert scaling_text(records, "strategy", names) == ""
    assert comparison_text(records, "strategy", names) == (
        "4 workers: ssgd is fastest, 300.1 samples/s, ddp is as fast"
    )


def test_batches_that_differ_are_said() -> None:
    records = [
        {**record(4, 3.0, "ddp"), "batch": 16},
        {**record(4, 1.0, "dp=4"), "batch": 0.5},
    ]
    names = {"ddp": "ddp", "dp=4": "dp=4"}
    lines = comparison_text(records, "strategy", names).split("\n")
    assert lines[1:] == ["samples of a worker in a step differ: ddp 16, dp=4 0.5"]
