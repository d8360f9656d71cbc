"""ZB-V and DualPipe: orders in which each device has two stages."""

from __future__ import annotations

import re
from collections import Counter

from simulator.parallel.pipelines.pipeline import (
    LETTERS,
    Pipeline,
    PipelineOrder,
    assemble,
    check_sizes,
)
from simulator.steps.kinds import FORWARD, INPUTS, WEIGHTS
from topologies.errors import InputError


def zb_v(devices: int, micro_batches: int) -> Pipeline:
    """Device d has stages d and 2 devices - 1 - d, and no device is idle between its first and last
    action if all three parts take equally long (Qi et al., 2024).

    Fewer than 2 devices - 1 micro-batches run as the first ones of so many.
    """
    check_sizes("zb_v", devices, micro_batches, 2)
    place = [min(stage, 2 * devices - 1 - stage) for stage in range(2 * devices)]
    count, rows = max(micro_batches, 2 * devices - 1), []
    check_sizes("zb_v", devices, count, 2)
    for device in range(devices):
        left = devices - device
        text = "F" * (2 * left - 1) + "fF" * device + "fiw" * left
        text += "FIWfiw" * (count - devices - left + 1) + "IWfiw" * (left - 1)
        text += "Ii" * device + "IW" * left + "w" * device
        rows += _rows(text, device, 2 * devices - 1 - device)
    return assemble("zb_v", [place], micro_batches, rows)


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
        near = min(device, devices - 1 - device)
        inner = devices // 2 - 1 - near
        text = "F" * (2 * inner) + "Ff" * (near + 1) + "i*f" * inner
        text += "(Fb)(fB)" * (half - devices + near + 1) + "b(fB)" * inner
        # The second half of the last backwards runs in two parts, which fills the end of the step.
        last = range(2 * (near + 1))
        text += "".join("bBiI"[number % 2 + 2 * (number > near)] for number in last)
        text += "*I" * inner
        for kind, stage, micro, turn in _rows(text, near, devices - 1 - near):
            # Copy 0 has stage d on device d. The second half of the micro-batches goes
            # through copy 1.
            rows.append((kind, stage, micro + half * (stage != device), turn))
    ends = list(range(devices))
    return assemble("dual_pipe", [ends, ends[::-1]], micro_batches, rows)


def _rows(text: str, upper: int, lower: int) -> list[tuple[int, int, int, int]]:
    """Kind, stage, micro-batch and turn of the actions of a device, from a letter for each: those
    of stage `upper` in capitals. Each stage takes its micro-batches one after the other.

    "*" is the backward for weights that waits for the longest time, and those that still wait come
    last. Two actions in brackets run together.
    """
    rows, waiting = list[tuple[int, int, int, int]](), list[tuple[int, int]]()
    counts: Counter[tuple[bool, int]] = Counter()
    for actions in re.findall(r"\(..\)|.", text):
        turn = len(rows)
        for letter in actions.strip("()"):
            stage = upper if letter.isupper() else lower
            if letter in "Ww*":
                stage, micro = next(row for row in waiting if letter == "*" or row[0] == stage)
                waiting.remove((stage, micro))
                rows.append((WEIGHTS, stage, micro, turn))
                continue
            kind = LETTERS.index(letter.upper())
            micro = counts[kind == FORWARD, stage]
            counts[kind == FORWARD, stage] += 1
            waiting += [(stage, micro)] if kind == INPUTS else []
            rows.append((kind, stage, micro, turn))
    last = len(rows)
    return rows + [(WEIGHTS, *row, last + number) for number, row in enumerate(waiting)]


ORDERS = (
    PipelineOrder("zb_v", zb_v, "two stages a device in a V, without idle time"),
    PipelineOrder("dual_pipe", dual_pipe, "two copies of the model, entered from both ends"),
)
