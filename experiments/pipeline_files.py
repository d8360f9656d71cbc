"""Orders of pipelines by name or in a CSV."""

from __future__ import annotations

from pathlib import Path

from simulator.parallel.pipelines import Pipeline, PipelineOrder, find
from simulator.parallel.pipelines.pipeline_csv import read_pipeline
from topologies.errors import InputError
from topologies.readers.contents import contents, decoded

LIMIT = 32 * 2**20
"""Bytes of a file, at most."""


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
    """The pipeline in a CSV (:mod:`simulator.parallel.pipelines.pipeline_csv`). Raises InputError
    if the file cannot be read, or is no pipeline."""
    content = contents(path, LIMIT)
    if len(content) > LIMIT:
        raise InputError(f"{path.name} has more than {LIMIT} bytes: no pipeline is larger")
    return read_pipeline(decoded(content, path.name), path.name)
