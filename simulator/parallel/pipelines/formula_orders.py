"""GPipe, 1F1B, interleaved 1F1B and Zero Bubble: orders in which the turn of an action is a
formula."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.parallel.pipelines.pipeline import Pipeline, PipelineOrder, assemble, check_sizes
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, WEIGHTS
from topologies.errors import InputError

Whole = npt.NDArray[np.int64]


def gpipe(devices: int, micro_batches: int) -> Pipeline:
    """All forwards, then all backwards (Huang et al., 2019)."""
    return _one_stage_each("gpipe", devices, micro_batches, 0, micro_batches)


def one_f_one_b(devices: int, micro_batches: int) -> Pipeline:
    """A forward, then a backward, in turn (Narayanan et al., 2021). Device d first runs
    devices - 1 - d forwards."""
    return _one_stage_each("1f1b", devices, micro_batches, 1)


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
    stage, back = chunk * devices + device, (last - chunk) * devices + device
    actions = [
        (FORWARD, stage, micro, 2 * number),
        (BACKWARD, back, micro, 2 * (number + warm) + 1),
    ]
    stages = np.arange(devices * chunks) % devices
    name = "interleaved" if chunks == 2 else f"interleaved:chunks={chunks}"
    return assemble(name, [stages.tolist()], micro_batches, _rows(actions))


def zb_h1(devices: int, micro_batches: int) -> Pipeline:
    """1F1B in two parts: device d runs the backward for weights d micro-batches late, and so holds
    no more than in 1F1B (Qi et al., 2023)."""
    return _one_stage_each("zb_h1", devices, micro_batches, 1, split=True)


def zb_h2(devices: int, micro_batches: int) -> Pipeline:
    """As :func:`zb_h1`, with twice as many forwards first, and twice the delay: no idle time
    between the first and the last action of a device if all three parts take equally long."""
    return _one_stage_each("zb_h2", devices, micro_batches, 2, split=True)


def _one_stage_each(
    name: str, devices: int, micro_batches: int, ahead: int, first: int = 0, *, split: bool = False
) -> Pipeline:
    """A pipeline of one stage a device. Forwards, backwards and backwards for weights take turns.
    A device runs `first` forwards before the first backward, and `ahead` more for each device
    behind it."""
    check_sizes(name, devices, micro_batches)
    stage, micro = np.arange(devices)[:, None], np.arange(micro_batches)
    backward = micro + first + ahead * (devices - 1 - stage)
    actions = [
        (FORWARD, stage, micro, 3 * micro),
        (INPUTS if split else BACKWARD, stage, micro, 3 * backward + 1),
        (WEIGHTS, stage, micro, 3 * (backward + ahead * stage) + 2),
    ]
    return assemble(name, [range(devices)], micro_batches, _rows(actions[: 2 + split]))


def _rows(actions: Sequence[tuple[int, Whole, Whole, Whole]]) -> Whole:
    """Kind, stage, micro-batch and turn of actions of each kind, which broadcast to one shape, a
    row an action."""
    tables = [np.stack(np.broadcast_arrays(*columns), axis=-1) for columns in actions]
    return np.concatenate([table.reshape(-1, 4) for table in tables])


ORDERS = (
    PipelineOrder("gpipe", gpipe, "all forwards, then all backwards"),
    PipelineOrder("1f1b", one_f_one_b, "forwards and backwards in turn"),
    PipelineOrder("interleaved", interleaved, "1F1B with several chunks a device", {"chunks": 2}),
    PipelineOrder("zb_h1", zb_h1, "1F1B with late backwards for weights, in the same memory"),
    PipelineOrder("zb_h2", zb_h2, "the same with twice the memory"),
)
