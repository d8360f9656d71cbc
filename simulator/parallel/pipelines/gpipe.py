"""GPipe: all forwards, then all backwards."""

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


def gpipe(devices: int, micro_batches: int) -> Pipeline:
    """All forwards, then all backwards (Huang et al., 2019)."""
    check_sizes("gpipe", devices, micro_batches)
    stage, micro = np.arange(devices)[:, None], np.arange(micro_batches)
    actions = [
        Actions(FORWARD, stage, micro, micro),
        Actions(BACKWARD, stage, micro, micro_batches + micro),
    ]
    return assemble("gpipe", [range(devices)], micro_batches, actions)


ORDERS = (PipelineOrder("gpipe", gpipe, "all forwards, then all backwards"),)
