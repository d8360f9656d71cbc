"""Idle time and memory of pipelines in closed form, where all stages take equally long and
transfers take no time. T_F, T_B and T_W are those of a stage.

Sources: Narayanan et al., SC 2021, section 2.2 (GPipe, 1F1B, interleaved); Korthikanti et al.,
2022, section 4 (activations of interleaved); Qi et al., "Zero Bubble Pipeline Parallelism", 2023,
table 2 (ZB-H1, ZB-H2), and the README of sail-sg/zero-bubble-pipeline-parallelism (ZB-V);
the README of deepseek-ai/DualPipe.
"""

from collections.abc import Callable
from typing import NamedTuple


class PipelineSizes(NamedTuple):
    """The sizes of a pipeline."""

    devices: int
    """p."""
    micro_batches: int
    """m."""
    chunks: int
    """v: stages of a device in a copy of the model."""


class PipelineFormula(NamedTuple):
    """What is known of an order."""

    within: bool
    """Whether `bubble` is the idle time between the first and the last action of the most idle
    device. Otherwise it is that of the step, the same on all devices."""
    bubble: Callable[[PipelineSizes, float, float, float], float]
    """From sizes, T_F, T_B and T_W to seconds."""
    kept: Callable[[PipelineSizes, int], tuple[int, int]]
    """From sizes and a device to the most chunks that it keeps for the backward, and for that of
    the weights alone at the same time."""
    least: Callable[[int], int]
    """From p to the fewest micro-batches for which both hold."""
    holds: Callable[[float, float, float], bool]
    """Whether `bubble` holds for these T_F, T_B and T_W."""


def _barrier(sizes: PipelineSizes, forward: float, inputs: float, weights: float) -> float:
    """(p - 1)(T_F + T_B + T_W): the first micro-batch passes all other stages, and back."""
    return (sizes.devices - 1) * (forward + inputs + weights)


def _h1(sizes: PipelineSizes, forward: float, inputs: float, weights: float) -> float:
    """(p - 1)(T_F + T_B - T_W)."""
    return (sizes.devices - 1) * (forward + inputs - weights)


def _h2(sizes: PipelineSizes, forward: float, inputs: float, weights: float) -> float:
    """(p - 1)(T_F + T_B - 2 T_W)."""
    return (sizes.devices - 1) * (forward + inputs - 2 * weights)


def _dual(sizes: PipelineSizes, forward: float, inputs: float, weights: float) -> float:
    """(p / 2 - 1)(F&B + B - 3 W), where B = T_B + T_W is whole and a pair F&B takes F + B."""
    backward = inputs + weights
    return (sizes.devices / 2 - 1) * (forward + backward + backward - 3 * weights)


FORMULAS = {
    "gpipe": PipelineFormula(
        False,
        _barrier,
        lambda sizes, device: (sizes.micro_batches, 0),
        lambda devices: 1,
        lambda forward, inputs, weights: True,
    ),
    "1f1b": PipelineFormula(
        False,
        _barrier,
        lambda sizes, device: (sizes.devices - device, 0),
        lambda devices: devices,
        lambda forward, inputs, weights: True,
    ),
    # As chunks are v times shorter than a device's share of the model, this is a v-th of 1F1B's.
    "interleaved": PipelineFormula(
        False,
        _barrier,
        lambda sizes, device: (sizes.devices * (sizes.chunks + 1) - 1 - 2 * device, 0),
        lambda devices: 2 * devices,
        lambda forward, inputs, weights: True,
    ),
    "zb_h1": PipelineFormula(
        True,
        _h1,
        lambda sizes, device: (sizes.devices - device, device),
        lambda devices: devices,
        lambda forward, inputs, weights: weights <= forward,
    ),
    "zb_h2": PipelineFormula(
        True,
        _h2,
        lambda sizes, device: (2 * (sizes.devices - device) - 1, 2 * device),
        lambda devices: 2 * devices - 1,
        lambda forward, inputs, weights: weights <= min(forward, (forward + inputs) / 2),
    ),
    "zb_v": PipelineFormula(
        True,
        lambda sizes, forward, inputs, weights: 0.0,
        lambda sizes, device: (2 * sizes.devices, 0),
        lambda devices: 2 * devices - 1,
        lambda forward, inputs, weights: forward == inputs == weights,
    ),
    "dual_pipe": PipelineFormula(
        True,
        _dual,
        lambda sizes, device: (sizes.devices + 1, 0),
        lambda devices: 2 * devices,
        lambda forward, inputs, weights: weights <= forward <= inputs,
    ),
}
"""The formulas by the name of the order."""
