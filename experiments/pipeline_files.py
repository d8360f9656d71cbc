"""Orders of pipelines by name or in a CSV."""

from __future__ import annotations

from pathlib import Path

from simulator.parallel.pipeline_times import StageTimes
from simulator.parallel.pipelines import Pipeline, PipelineOrder, find
from simulator.parallel.pipelines.pipeline import read_pipeline
from topologies.errors import InputError
from topologies.readers.contents import contents, decoded

LIMIT = 32 * 2**20
"""Bytes of a file, at most."""
USUAL = 8, 16
"""Devices and micro-batches, if the user does not say."""


def find_order(text: str) -> PipelineOrder:
    """The order for NAME, NAME:key=value,... or FILE.csv.

    Raises InputError if there is none, or if the file cannot be read.
    """
    return order_of_file(Path(text)) if text.lower().endswith(".csv") else find(text)


def order_of_file(path: Path) -> PipelineOrder:
    """The order in a CSV, which has one number of devices and of micro-batches. Raises InputError
    if the file is no pipeline."""
    pipeline = pipeline_of_file(path)

    def build(devices: int, micro_batches: int) -> Pipeline:
        if (devices, micro_batches) != (pipeline.devices, pipeline.micro_batches):
            raise InputError(
                f"{path.name} has {pipeline.devices} devices and {pipeline.micro_batches} "
                f"micro-batches: plan so many, and not {devices} and {micro_batches}"
            )
        return pipeline

    return PipelineOrder(path.name, build, f"{pipeline.stages} stages from a file")


def pipeline_of_file(path: Path) -> Pipeline:
    """The pipeline in a CSV (:mod:`simulator.parallel.pipelines.pipeline`). Raises InputError
    if the file cannot be read, or is no pipeline."""
    larger = f"{path.name} has more than {LIMIT} bytes: no pipeline is larger"
    return read_pipeline(decoded(contents(path, LIMIT, larger), path.name), path.name)


def named_pipeline(
    name: str, sizes: tuple[int | None, int | None], times: StageTimes, kept: int
) -> Pipeline:
    """The pipeline of an order's name or of a file, for numbers of devices and micro-batches; a
    search takes the times and the percentage of activations that the user gives."""
    if name.lower().endswith(".csv"):
        pipeline = pipeline_of_file(Path(name))
        of_file = pipeline.devices, pipeline.micro_batches
        if any(size not in (None, known) for size, known in zip(sizes, of_file, strict=True)):
            raise InputError(
                f"{name} has {of_file[0]} devices and {of_file[1]} micro-batches: leave out "
                f"--p and --batch"
            )
        return pipeline
    devices, micro_batches = (size or usual for size, usual in zip(sizes, USUAL, strict=True))
    order = find(name)
    if "forward" not in order.options:
        return order.build(devices, micro_batches)
    # A search takes the times of the command, unless its options say otherwise.
    values = {
        "forward": times.forward,
        "inputs": times.inputs,
        "weights": times.weights,
        "transfer": times.transfer,
        "kept": kept,
    }
    free = {key: value for key, value in values.items() if f"{key}=" not in name}
    return order.build(devices, micro_batches, **free)
