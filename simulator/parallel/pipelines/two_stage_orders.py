"""ZB-V and DualPipe: orders in which each device has two stages."""

from __future__ import annotations

from collections import Counter

from simulator.parallel.pipelines.pipeline import Pipeline, assemble, check_sizes
from simulator.parallel.pipelines.pipeline_order import PipelineOrder
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, WEIGHTS
from topologies.errors import InputError

Row = tuple[int, int, int, int]
"""Kind, stage, micro-batch and turn of an action."""


def zb_v(devices: int, micro_batches: int) -> Pipeline:
    """Device d has stages d and 2 devices - 1 - d, and no device is idle between its first and last
    action if all three parts take equally long (Qi et al., 2024).

    Fewer than 2 devices - 1 micro-batches run as the first ones of so many.
    """
    check_sizes("zb_v", devices, micro_batches, 2)
    place = [min(stage, 2 * devices - 1 - stage) for stage in range(2 * devices)]
    count = max(micro_batches, 2 * devices - 1)
    check_sizes("zb_v", devices, count, 2)
    rows = [row for device in range(devices) for row in _v_rows(devices, device, count)]
    return assemble("zb_v", [place], micro_batches, rows)


def _v_rows(devices: int, device: int, micro_batches: int) -> list[Row]:
    line, down, up = _Line(), device, 2 * devices - 1 - device
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


def _whole(line: _Line, stage: int) -> None:
    """A forward and the backward of the same micro-batch."""
    line.add(FORWARD, stage)
    line.add(INPUTS, stage)
    line.add_weights(stage)


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
        for kind, stage, micro, turn in _dual_rows(
            devices, min(device, devices - 1 - device), half
        ):
            # Copy 0 has stage d on device d. The second half of the micro-batches goes
            # through copy 1.
            rows.append((kind, stage, micro + half * (stage != device), turn))
    ends = list(range(devices))
    return assemble("dual_pipe", [ends, ends[::-1]], micro_batches, rows)


def _dual_rows(devices: int, near: int, half: int) -> list[Row]:
    """The actions of a device with stage `near` of the copy that enters at its end."""
    line, far = _Line(), devices - 1 - near
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


class _Line:
    """The actions of a device so far. Each stage takes its micro-batches one after the other."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        """Kind, stage, micro-batch and turn."""
        self._counts: Counter[tuple[bool, int]] = Counter()
        self._waiting: list[tuple[int, int]] = []
        """Stage and micro-batch of the backwards for weights that wait."""

    def forwards(self, stage: int) -> int:
        """Forwards of a stage so far."""
        return self._counts[True, stage]

    def add(self, kind: int, stage: int) -> None:
        """Run the next micro-batch of this stage forward, backward, or backward for inputs."""
        counted = kind == FORWARD, stage
        self.rows.append((kind, stage, self._counts[counted], len(self.rows)))
        if kind == INPUTS:
            self._waiting.append((stage, self._counts[counted]))
        self._counts[counted] += 1

    def add_weights(self, stage: int | None = None) -> None:
        """Run the backward for weights, of this stage or of any, that waits for the longest
        time."""
        number = next(n for n, row in enumerate(self._waiting) if stage in (None, row[0]))
        self.rows.append((WEIGHTS, *self._waiting.pop(number), len(self.rows)))

    def add_all_weights(self) -> None:
        """Run all backwards for weights that wait."""
        while self._waiting:
            self.add_weights()

    def add_pair(self, kind: int, stage: int, backward_stage: int) -> None:
        """Run a forward together with a backward of this kind of another stage."""
        self.add(FORWARD, stage)
        self.add(kind, backward_stage)
        kind, stage, micro, turn = self.rows[-1]
        self.rows[-1] = kind, stage, micro, turn - 1


ORDERS = (
    PipelineOrder("zb_v", zb_v, "two stages a device in a V, without idle time"),
    PipelineOrder("dual_pipe", dual_pipe, "two copies of the model, entered from both ends"),
)
