"""Casts of what layers multiply below 16 bits: their time, and the bytes that they leave.

Recipes are those of Transformer Engine (github.com/NVIDIA/TransformerEngine,
transformer_engine/pytorch/tensor) and of float8 in torchao (github.com/pytorch/ao, torchao/float8).
"""

from __future__ import annotations

from experiments.models.accelerators import NARROW, accelerator
from experiments.models.block_cut import Scaling
from experiments.models.device_times import DeviceTimes


def reads(times: DeviceTimes, scaling: Scaling) -> int:
    """How often a cast reads its input: twice where the largest element of the whole tensor, or of
    a row, scales it, with current scaling and in nvfp4. Scales of blocks need one pass."""
    whole = times.math == "nvfp4" or (times.math == "fp8" and scaling != "delayed")
    return 2 if whole else 1


def alone(times: DeviceTimes, scaling: Scaling) -> bool:
    """Whether each of several matrices is cast by kernels of its own. Transformer Engine casts all
    of them at once with delayed scaling alone (pytorch/csrc/extensions/cast.cpp)."""
    return times.math != "fp8" or scaling != "delayed"


def layouts(times: DeviceTimes) -> int:
    """The copies of a tensor that products need, by rows and by columns. Blocks are scaled along
    the inner side of each product. With a scale a tensor, Blackwell multiplies any layout, and
    others one alone."""
    return 1 if times.math == "fp8" and accelerator(times.device).alike == "b200" else 2


def transposes(times: DeviceTimes) -> bool:
    """Whether products need two layouts, and the second one is the transpose of the first one: with
    a scale a tensor."""
    return times.math == "fp8" and layouts(times) == 2


def stored(times: DeviceTimes, once: bool = False) -> float:
    """Bytes of an element in all layouts, or `once` without its transpose."""
    return (layouts(times) - (once and transposes(times))) * NARROW[times.math]


def cast(
    times: DeviceTimes, rows: float, columns: float, scaling: Scaling, products: int = 2
) -> float:
    """Seconds of the cast of a matrix in 16 bits, with all its layouts, for so many products.
    Scales of rows are along the inner side of each product, which then has a cast of its own."""
    seconds = times.quantize(rows, columns, dynamic=reads(times, scaling) > 1)
    if scaling == "rowwise":
        return products * seconds
    more = (layouts(times) - 1) * NARROW[times.math] * rows * columns
    return seconds + times.traffic(more)
