"""How far plans were from measured steps, as reports say it."""

from __future__ import annotations

import csv

from experiments.models.device_times import DeviceTimes
from experiments.parallel.plan_errors import (
    FILE,
    PlanError,
    PlanKind,
    kind_of,
    mean_error,
    plan_errors,
    span_of,
)
from topologies.catalogue import find
from topologies.shapes import star


def test_the_file_has_the_columns_that_the_benchmark_prints() -> None:
    with FILE.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == [*PlanKind._fields, *PlanError._fields]
    assert len(plan_errors()) == len(rows)
    for kind, error in plan_errors().items():
        assert DeviceTimes(kind.device, kind.math).math == kind.math
        assert abs(error.bias) <= error.mean <= error.nine_of_ten + 1e-9
        assert error.steps > 0


def test_a_kind_is_a_device_a_precision_sharding_and_nodes() -> None:
    times = DeviceTimes("h100")
    assert kind_of(times, 3, "one node") == ("h100", "bf16", "zero=3", "one node", "specified")
    fitted = DeviceTimes("h100", scale=1.2)
    assert kind_of(fitted, 1, "several nodes")[2:] == ("zero<3", "several nodes", "calibrated")
    machine = find("hgx_h100:nodes=2").build(16)
    assert [span_of(machine, gpus) for gpus in (1, 8, 9)] == [
        "one node",
        "one node",
        "several nodes",
    ]
    assert span_of(star(4, bandwidth=1e9), 4) == "no nodes"


def test_steps_that_nobody_measured_have_no_error() -> None:
    error, words = mean_error(kind_of(DeviceTimes("mi300x"), 0, "one node"))
    assert error is None
    assert words.startswith("unknown: no measured step of mi300x in bf16, zero<3, one node;")
    error, words = mean_error(PlanKind("a100", "bf16", "zero<3", "one node", "calibrated"))
    assert error == plan_errors()[PlanKind("a100", "bf16", "zero<3", "one node", "calibrated")].mean
    assert words.startswith("on 582 measured steps of a100 in bf16, zero<3, one node; nine of ten ")
