"""The pictures of several training runs."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from experiments.output import Record
from experiments.pictures.training_curves import training_drawing
from figure_words import legend

NAMES = {"0": "0", "1.0B": "1B", "ddp": "ddp", "$asgd": "$asgd"}


def record(ranks: int, speed_up: float, **more: str) -> Record:
    step = ranks / speed_up
    times = ("computing_s", "transfer_s", "exposed_s", "twice_bandwidth_s", "half_latency_s")
    return {
        **{"model": "four", "batch": 8, "strategy": "ddp", "ranks": ranks, "step_s": step},
        **{"samples_per_s": 8 * speed_up, "efficiency": speed_up / ranks},
        **dict.fromkeys((*times, "twice_compute_s"), step / 2),
        **more,
    }


def test_a_scaling_curve_shows_the_ideal_and_the_last_number_that_pays() -> None:
    records = [record(1, 1.0), record(2, 1.9), record(8, 2.0)]
    figure = training_drawing(records, "", {}, "star")
    upper, lower = figure.axes
    assert upper.get_title() == "four, batch 8, ddp on star: samples/s by workers"
    figure.draw_without_rendering()
    [speed_up] = upper.child_axes
    assert speed_up.get_ylabel() == "speed-up over one worker"
    assert speed_up.get_ylim() == pytest.approx([rate / 8 for rate in upper.get_ylim()])
    assert (upper.get_xscale(), upper.get_yscale()) == ("log", "log")
    assert legend(figure) == [
        *("ideal: p x one worker", "simulated", "twice the bandwidth", "half the latency"),
        *("twice the compute", "last number that pays"),
    ]
    for axes, value in ((upper, 8 * 1.9), (lower, 0.95)):
        (end,) = (line for line in axes.lines if line.get_markersize() == 12)
        assert (end.get_xdata(), end.get_ydata()) == ([2], [value])


SURE = {"low_s": 0.9, "high_s": 2.0}


@pytest.mark.parametrize("swept", ["", "bucket"])
def test_intervals_are_bands(swept: str) -> None:
    """A step of twice the time has half the rate. One worker alone has no interval."""
    records = [record(1, 1.0, bucket="0"), record(2, 2.0, bucket="0"), record(4, 4.0, bucket="0")]
    if swept:
        records = [{**records[1], "bucket": value} for value in NAMES]
    assert not training_drawing(records, swept, NAMES, "star").axes[0].collections
    sure = [record if record["ranks"] == 1 else {**record, **SURE} for record in records]
    figure = training_drawing(sure, swept, NAMES, "star")
    (band,) = figure.axes[0].collections
    heights = band.get_datalim(figure.axes[0].transData).intervaly
    assert heights.tolist() == pytest.approx([0.9, 2.0] if swept else [8.0, 8 * 4 / 0.9])
    assert "interval of a run" in legend(figure)


def test_a_bar_has_the_interval_of_its_step() -> None:
    records = [{**record(2, 1.0, strategy=name), **SURE} for name in ("ddp", "$asgd")]
    figure = training_drawing(records, "strategy", NAMES, "star")
    (ends,) = figure.axes[0].collections
    assert [np.asarray(path.vertices)[:, 0].tolist() for path in ends.get_paths()] == [
        [0.9, 2.0]
    ] * 2
    assert "interval of a run" in legend(figure)


def test_more_values_than_numbers_of_workers_make_the_axis() -> None:
    records = [record(2, speed, bucket=value) for value, speed in (("0", 1.0), ("1.0B", 1.5))]
    figure = training_drawing(records, "bucket", NAMES, "star")
    (axes,) = figure.axes
    assert axes.get_xlabel() == "bucket"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1B"]
    assert legend(figure) == ["2 workers", "a step", "exposed communication"]
    assert axes.get_title() == "four, batch 8, ddp, p = 2 on star: time a step by bucket"


def test_strategies_are_bars_of_the_parts_of_a_step() -> None:
    records = [record(2, 1.0, strategy="ddp"), record(2, 1.5, strategy="$asgd")]
    figure = training_drawing(records, "strategy", NAMES, "star")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["ddp", "$asgd"]
    widths = [patch.get_width() for patch in axes.patches if isinstance(patch, Rectangle)]
    assert widths == pytest.approx([1, 2 / 3] * 2)
    assert legend(figure) == ["computing", "waiting: transfer"]
    assert axes.texts[0].get_text() == " 2s\n 8 samples/s"


def test_many_strategies_are_left_out_and_counted() -> None:
    records = [record(2, 1.0, strategy=f"ddp:bucket={k}B") for k in range(23)]
    figure = training_drawing(records, "strategy", NAMES, "star")
    assert legend(figure)[-1] == "not drawn: 3 more"
    assert len(figure.axes[0].get_yticks()) == 20


def test_strategies_on_several_numbers_of_workers_are_curves() -> None:
    records = [
        record(ranks, speed_up * ranks, strategy=strategy)
        for strategy, speed_up in (("ddp", 1.0), ("$asgd", 0.9))
        for ranks in (2, 3)
    ]
    figure = training_drawing(records, "strategy", NAMES, "star")
    assert legend(figure) == ["ideal: p x one worker", "ddp", "$asgd"]
    assert figure.axes[0].get_yscale() == "linear"
