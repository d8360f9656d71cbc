"""ZB-V: two stages a device in a V, and backwards in two parts."""

from __future__ import annotations

from simulator.parallel.pipelines.device_actions import DeviceActions, join
from simulator.parallel.pipelines.pipeline import Pipeline, check_sizes
from simulator.parallel.pipelines.pipeline_order import PipelineOrder
from simulator.steps.kinds import FORWARD, INPUTS


def zb_v(devices: int, micro_batches: int) -> Pipeline:
    """Device d has stages d and 2 devices - 1 - d, and no device is idle between its first and last
    action if all three parts take equally long (Qi et al., 2024).

    Fewer than 2 devices - 1 micro-batches run as the first ones of so many.
    """
    check_sizes("zb_v", devices, micro_batches, 2)
    place = [min(stage, 2 * devices - 1 - stage) for stage in range(2 * devices)]
    count = max(micro_batches, 2 * devices - 1)
    check_sizes("zb_v", devices, count, 2)
    rows = [row for device in range(devices) for row in _rows(devices, device, count)]
    return join("zb_v", [place], micro_batches, rows)


def _rows(devices: int, device: int, micro_batches: int) -> list[tuple[int, int, int, int]]:
    line, down, up = DeviceActions(), device, 2 * devices - 1 - device
    for _ in range(2 * (devices - device) - 1):
        line.add(FORWARD, down)
    for _ in range(device):
        line.add(FORWARD, up)
        line.add(FORWARD, down)
    for _ in range(devices - device):
        _whole(line, up)
    while line.forwards(up) < micro_batches:
        if line.forwards(down) < micro_batches:
            line.add(FORWARD, down)
        line.add(INPUTS, down)
        line.add_weights(down)
        _whole(line, up)
    for _ in range(device):
        line.add(INPUTS, down)
        line.add(INPUTS, up)
    for _ in range(devices - device):
        line.add(INPUTS, down)
        line.add_weights(down)
    for _ in range(device):
        line.add_weights(up)
    line.add_all_weights()
    return line.rows


def _whole(line: DeviceActions, stage: int) -> None:
    """A forward and the backward of the same micro-batch."""
    line.add(FORWARD, stage)
    line.add(INPUTS, stage)
    line.add_weights(stage)


ORDERS = (PipelineOrder("zb_v", zb_v, "two stages a device in a V, without idle time"),)
