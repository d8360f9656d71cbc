"""Dense products: m x k by k x n elements.

The formula takes the best of a few sizes of tiles and splits of k. Tiles run in waves over all
multiprocessors. Each tile has a prologue; smaller ones reach less; splits are added up. A tile also
waits for each piece of k as long as on slower chips. Long products run slower: their clocks fall,
and their operands leave the caches. Arithmetic and memory overlap as a p-norm. Where the engine
quantises x in the same call, that is a traffic of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.models.accelerators import NARROW
from experiments.models.kernel_times.kernel_model import Chip, Sizes, Span, kind_of, norm
from experiments.models.kernel_times.lookup import WIDTHS, model_of
from topologies.errors import InputError
from topologies.topology import Floats

ENGINE, NARROW_ENGINE = "cublas", "trtllm"
"""The engines whose products a step takes, in 16 bits and more, and below: cuBLAS as three
frameworks call it, and TensorRT-LLM. The latter calls cuBLASLt, as Transformer Engine does, and
DeepGEMM in blocks."""
LONG = 1e-3
"""Seconds of a product that is half long. Clocks fall to a level that the power can hold: products
that last longer are no slower."""
_SHAPES = [(64, 64), (128, 128), (256, 128), (128, 256)]
TILES = np.array([(*shape, split) for shape in _SHAPES for split in (1, 2, 4, 8, 16)], float).T
"""Rows, columns and splits of k that an engine chooses from."""
LEAST = 128.0
"""Elements of k that a split has at least."""
OUTPUT = 2.0
"""Bytes of an element of y, and of x before it is quantised."""


def seconds(sizes: Sizes, values: Mapping[str, float], chip: Chip) -> Floats:
    """Seconds of products, shape (products,): `m`, `n`, `k`, and 1 where x is quantised."""
    m, n, k = (sizes[name][:, None] for name in ("m", "n", "k"))
    rows, columns, splits = TILES
    operands = (m * k + n * k) * chip.width
    nbytes = operands + OUTPUT * m * n
    cached = 1 / (1 + (nbytes / (values["cache"] * chip.multiprocessors)) ** 2)
    hit = values["hit"] / (1 + values["hit"])
    bandwidth = chip.bandwidth * values["memory"] / (1 - hit * cached)
    number = np.ceil(m / rows) * np.ceil(n / columns) * splits
    waves = np.ceil(number / chip.multiprocessors)
    latency = values["latency"] * k * chip.width / splits
    arithmetic = tile_seconds(waves, (rows, columns), k / splits, values, chip, latency)
    sums = np.where(
        splits > 1,
        splits * m * n * 8 / (chip.bandwidth * values["memory"]) + values["split"],
        0.0,
    )
    panels = waves * k * np.sqrt(chip.multiprocessors) * (rows + columns) * chip.width
    memory = (nbytes + values["reread"] * panels * (1 - cached)) / bandwidth
    total = norm(values["power"], arithmetic + sums, memory)
    total = np.where((splits > 1) & (k / splits < LEAST), np.inf, total)
    best, sure = total.min(axis=1, keepdims=True), values["choice"]
    total = best[:, 0] * ((total / best) ** -sure).mean(axis=1) ** (-1 / sure)
    misaligned = values["misaligned"] * ((sizes["m"] % 4 > 0) & (sizes["m"] > 1))
    quantised = values["quantisation"] * sizes["quantised"] * 3 * (m * k / bandwidth)[:, 0]
    return np.asarray(values["launch"] + total + misaligned + quantised)


def tile_seconds(
    waves: Floats,
    shape: Sequence[Floats],
    inner: Floats,
    values: Mapping[str, float],
    chip: Chip,
    latency: Floats | float = 0.0,
) -> Floats:
    """Seconds of the arithmetic in waves of tiles, whose shapes are rows and columns, along `inner`
    elements of k. Each wave also waits for a latency."""
    rows, columns = shape
    smaller = 1 + values["small_tiles"] * (128 * 128 / (rows * columns) - 0.5)
    flops = waves * chip.multiprocessors * 2 * rows * columns * (inner + values["prologue"])
    seconds = flops * smaller / (chip.flops * values["arithmetic"]) + waves * latency
    return seconds * (1 + values["long"] * seconds / (seconds + LONG))


def axes(sizes: Sizes) -> Sequence[Floats]:
    """The sizes m, n and k."""
    return sizes["m"], sizes["n"], sizes["k"]


PRODUCTS = kind_of("products", seconds, axes)


def product_time(
    device: str, m: int, n: int, k: int, precision: str = "bf16", engine: str = ""
) -> Span:
    """Seconds of the product of m x k by k x n elements on a device by an engine: "cublas",
    "trtllm", "sglang" or "vllm"; empty: that of a step. Below 16 bits it quantises x too, but for
    fp8_static.

    Raises InputError for sizes below 1, a device or an engine that there is not, and a precision
    that the device lacks.
    """
    for name, size in (("m", m), ("n", n), ("k", k)):
        if not 1 <= size < 2**31:
            raise InputError(f"{name} is {size}: it is between 1 and 2147483647")
    usual = NARROW_ENGINE if WIDTHS.get(precision, 2.0) < 2 else ENGINE
    model = model_of(PRODUCTS, device, precision, engine or usual)
    return model.of(m=m, n=n, k=k, quantised=precision in NARROW)
