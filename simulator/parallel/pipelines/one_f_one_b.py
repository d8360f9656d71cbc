"""1F1B: each device alternates forwards and backwards as soon as it can."""

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


def one_f_one_b(devices: int, micro_batches: int) -> Pipeline:
    """A forward, then a backward, in turn (Narayanan et al., 2021). Device d first runs
    devices - 1 - d forwards."""
    check_sizes("1f1b", devices, micro_batches)
    stage, micro = np.arange(devices)[:, None], np.arange(micro_batches)
    actions = [
        Actions(FORWARD, stage, micro, 2 * micro),
        Actions(BACKWARD, stage, micro, 2 * (micro + devices - 1 - stage) + 1),
    ]
    return assemble("1f1b", [range(devices)], micro_batches, actions)


ORDERS = (PipelineOrder("1f1b", one_f_one_b, "forwards and backwards in turn"),)
