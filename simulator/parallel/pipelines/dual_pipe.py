"""DualPipe: two copies of the model, whose micro-batches enter at opposite ends."""

from __future__ import annotations

from simulator.parallel.pipelines.device_actions import DeviceActions, join
from simulator.parallel.pipelines.pipeline import Pipeline, check_sizes
from simulator.parallel.pipelines.pipeline_order import PipelineOrder
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS
from topologies.errors import InputError


def dual_pipe(devices: int, micro_batches: int) -> Pipeline:
    """Half of the micro-batches enter at device 0, the others at the last device. A forward of a
    copy runs together with a backward of the other copy (DeepSeek-AI, 2024)."""
    check_sizes("dual_pipe", devices, micro_batches)
    if devices % 2:
        raise InputError(f"pipeline dual_pipe: {devices} devices: take an even number")
    if micro_batches % 2 or micro_batches < 2 * devices:
        raise InputError(
            f"pipeline dual_pipe: {micro_batches} micro-batches on {devices} devices: take an even "
            f"number, {2 * devices} or more"
        )
    half, rows = micro_batches // 2, []
    for device in range(devices):
        for kind, stage, micro, turn in _rows(devices, min(device, devices - 1 - device), half):
            # Copy 0 has stage d on device d. The second half of the micro-batches goes
            # through copy 1.
            rows.append((kind, stage, micro + half * (stage != device), turn))
    ends = list(range(devices))
    return join("dual_pipe", [ends, ends[::-1]], micro_batches, rows)


def _rows(devices: int, near: int, half: int) -> list[tuple[int, int, int, int]]:
    """The actions of a device with stage `near` of the copy that enters at its end."""
    line, far = DeviceActions(), devices - 1 - near
    inner = devices // 2 - 1 - near
    for _ in range(2 * inner):
        line.add(FORWARD, near)
    for _ in range(near + 1):
        line.add(FORWARD, near)
        line.add(FORWARD, far)
    for _ in range(inner):
        line.add(INPUTS, far)
        line.add_weights()
        line.add(FORWARD, far)
    for _ in range(half - devices + near + 1):
        line.add_pair(BACKWARD, near, far)
        line.add_pair(BACKWARD, far, near)
    for _ in range(inner):
        line.add(BACKWARD, far)
        line.add_pair(BACKWARD, far, near)
    for number in range(2 * (near + 1)):
        # The second half of these backwards runs in two parts, which fills the end of the step.
        line.add(INPUTS if number > near else BACKWARD, near if number % 2 else far)
    for _ in range(inner):
        line.add_weights()
        line.add(INPUTS, near)
    line.add_all_weights()
    return line.rows


ORDERS = (PipelineOrder("dual_pipe", dual_pipe, "two copies of the model, entered from both ends"),)
