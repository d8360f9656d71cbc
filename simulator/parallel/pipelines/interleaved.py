"""Interleaved 1F1B: each device has several chunks of the model."""

from __future__ import annotations

import numpy as np

from simulator.parallel.pipelines.pipeline import (
    BACKWARD,
    FORWARD,
    Actions,
    Pipeline,
    assemble,
    check_sizes,
)
from simulator.parallel.pipelines.pipeline_order import PipelineOrder
from topologies.errors import InputError


def interleaved(devices: int, micro_batches: int, chunks: int = 2) -> Pipeline:
    """1F1B with `chunks` stages on each device, in Megatron's order (Narayanan et al., 2021).

    Micro-batches go in groups of as many as devices through chunk after chunk. Device d first runs
    2 (devices - 1 - d) + (chunks - 1) devices forwards.
    """
    check_sizes("interleaved", devices, micro_batches, chunks)
    if micro_batches % devices:
        raise InputError(
            f"pipeline interleaved: {micro_batches} micro-batches on {devices} devices: take a "
            f"multiple of {devices}"
        )
    device, number = np.arange(devices)[:, None], np.arange(micro_batches * chunks)
    group, within = np.divmod(number, devices * chunks)
    chunk, place = np.divmod(within, devices)
    micro = group * devices + place
    warm = 2 * (devices - 1 - device) + (chunks - 1) * devices
    last = chunks - 1
    actions = [
        Actions(FORWARD, chunk * devices + device, micro, 2 * number),
        Actions(BACKWARD, (last - chunk) * devices + device, micro, 2 * (number + warm) + 1),
    ]
    stages = np.arange(devices * chunks) % devices
    name = "interleaved" if chunks == 2 else f"interleaved:chunks={chunks}"
    return assemble(name, [stages.tolist()], micro_batches, actions)


ORDERS = (
    PipelineOrder("interleaved", interleaved, "1F1B with several chunks a device", {"chunks": 2}),
)
