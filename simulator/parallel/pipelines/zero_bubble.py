"""ZB-H1 and ZB-H2: backwards for weights wait, and fill what would be idle time."""

from __future__ import annotations

import numpy as np

from simulator.parallel.pipelines.pipeline import (
    FORWARD,
    INPUTS,
    WEIGHTS,
    Actions,
    Pipeline,
    assemble,
    check_sizes,
)
from simulator.parallel.pipelines.pipeline_order import PipelineOrder


def zb_h1(devices: int, micro_batches: int) -> Pipeline:
    """1F1B in two parts: device d runs the backward for weights d micro-batches late, and so holds
    no more than in 1F1B (Qi et al., 2023)."""
    return _delayed("zb_h1", devices, micro_batches, 1)


def zb_h2(devices: int, micro_batches: int) -> Pipeline:
    """As :func:`zb_h1`, with twice as many forwards first, and twice the delay: no idle time
    between the first and the last action of a device if all three parts take equally long."""
    return _delayed("zb_h2", devices, micro_batches, 2)


def _delayed(name: str, devices: int, micro_batches: int, factor: int) -> Pipeline:
    check_sizes(name, devices, micro_batches)
    stage, micro = np.arange(devices)[:, None], np.arange(micro_batches)
    backward = micro + factor * (devices - 1 - stage)
    actions = [
        Actions(FORWARD, stage, micro, 3 * micro),
        Actions(INPUTS, stage, micro, 3 * backward + 1),
        Actions(WEIGHTS, stage, micro, 3 * (backward + factor * stage) + 2),
    ]
    return assemble(name, [range(devices)], micro_batches, actions)


ORDERS = (
    PipelineOrder("zb_h1", zb_h1, "1F1B with late backwards for weights, in the same memory"),
    PipelineOrder("zb_h2", zb_h2, "the same with twice the memory"),
)
