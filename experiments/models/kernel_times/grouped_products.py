"""Grouped products of experts: a layer's share on a device, and its products alone.

A layer routes `tokens`, multiplies the rows of each local expert twice, with an activation between,
and adds up what the experts of a token return. The formula is that of dense products, but tiles
are of single experts: an expert with few rows still fills a tile. Weights of experts without rows
are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from experiments.models.kernel_times.kernel_model import Chip, Sizes, kind_of, norm
from experiments.models.kernel_times.products import OUTPUT, tile_seconds
from topologies.topology import Floats

_SHAPES = [(16, 128), (32, 128), (64, 128), (128, 128), (128, 256)]
TILES = np.array(_SHAPES, float).T
"""Rows and columns that an engine chooses from."""

QUANTILES = (np.arange(8) + 0.5) / 8
"""Experts are as popular as those at these quantiles."""


def rows_of(sizes: Sizes, values: Mapping[str, float]) -> Floats:
    """The rows of a local expert at each quantile of popularity, shape (layers, quantiles).

    Uneven routing draws the popularity of experts from a power law with the exponent `uneven`, up
    to all tokens. The device is the busiest of `ep` with as many experts.
    """
    tokens, share = sizes["tokens"][:, None], (sizes["topk"] / sizes["experts"])[:, None]
    power = 1 - np.where(sizes["uneven"] > 0, sizes["uneven"], 2.0)[:, None]
    most = np.maximum(0.8 * tokens, 1.0) ** power
    drawn = (1 + (most - 1) * QUANTILES) ** (1 / power)
    popular = np.where(sizes["uneven"][:, None] > 0, drawn / drawn.mean(axis=1, keepdims=True), 1.0)
    rows = np.minimum(tokens * share * popular, tokens)
    rows = rows * tokens * share / rows.mean(axis=1, keepdims=True)
    rows = rows * sizes["ep"][:, None] ** (1 - values["division"])
    local = (sizes["experts"] / sizes["ep"])[:, None]
    fuller = popular.std(axis=1, keepdims=True) * np.sqrt(2 * np.log(sizes["ep"][:, None]) / local)
    return np.asarray(rows * (1 + values["skew"] * fuller))


def product_seconds(
    rows: Floats, local: Floats, n: Floats, k: Floats, values: Mapping[str, float], chip: Chip
) -> Floats:
    """Seconds of grouped products of `local` experts, shape (products,), with these `rows` at each
    quantile, shape (products, quantiles)."""
    tall, wide = TILES
    filled = -np.expm1(-rows)
    active = local * filled.mean(axis=1)
    tiles = (
        np.where(rows[:, :, None] < 1, filled[:, :, None], np.ceil(rows[:, :, None] / tall)).mean(
            axis=1
        )
        * local[:, None]
        * np.ceil(n[:, None] / wide)
    )
    waves = np.ceil(tiles / chip.multiprocessors)
    arithmetic = tile_seconds(waves, (tall, wide), k[:, None], values, chip)
    total = local * rows.mean(axis=1)
    nbytes = active * n * k * chip.width + total * (k * chip.width + OUTPUT * n)
    memory = (nbytes / (chip.bandwidth * values["memory"]))[:, None]
    return np.asarray(norm(values["power"], arithmetic, memory).min(axis=1))


def seconds(sizes: Sizes, values: Mapping[str, float], chip: Chip) -> Floats:
    """Seconds of layers, shape (layers,): `tokens`, `hidden`, `inter`, `topk`, `experts`, `tp`,
    `ep`, `ups` (2: gated), and 1 where routing is `uneven`."""
    rows, local = rows_of(sizes, values), sizes["experts"] / sizes["ep"]
    inner = sizes["inter"] / sizes["tp"]
    up = product_seconds(rows, local, sizes["ups"] * inner, sizes["hidden"], values, chip)
    down = product_seconds(rows, local, inner * 0 + sizes["hidden"], inner, values, chip)
    moved = local * rows.mean(axis=1) * (sizes["hidden"] * 2 + (sizes["ups"] + 1) * inner) * OUTPUT
    moved = moved * values["passes"] / (chip.bandwidth * values["memory"])
    return np.asarray(values["launch"] + values["expert"] * local + up + down + moved)


def axes(sizes: Sizes) -> Sequence[Floats]:
    """Tokens an expert, local experts, and the elements of an expert's matrix."""
    return (
        sizes["tokens"] * sizes["topk"] / sizes["experts"],
        sizes["experts"] / sizes["ep"],
        sizes["hidden"] * sizes["inter"] / sizes["tp"],
    )


GROUPED_PRODUCTS = kind_of("grouped_products", seconds, axes)
UNPACKED_PRODUCTS = replace(GROUPED_PRODUCTS, name="unpacked_products")
"""Those of weights in mxfp4 that kernels unpack to 16 bits."""
