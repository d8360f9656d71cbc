"""Forward passes of a fused attention, from queries, keys and values to its output, and decodes.

A head's queries are cut into tiles, which pass the keys that they may see in blocks. Tiles run in
waves over all multiprocessors; no pass ends before its longest tile. Queries, keys, values and the
output pass the memory once.

A decode is that of the newest token of each sequence against the KV cache. Keys and values pass the
memory once, but no kernel ends before its longest run over the tokens of a sequence, and none takes
less than its launch. Latent attention multiplies all heads with one vector of the cache, so
arithmetic counts, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from experiments.models.kernel_times.kernel_model import (
    Chip,
    KernelModel,
    Sizes,
    kind_of,
    models,
    norm,
)
from experiments.models.kernel_times.lookup import model_of
from topologies.topology import Floats

TILE = 128.0
"""Queries of a tile, and keys of a block."""
OUTPUT = 2.0
"""Bytes of an element of the output."""
HEAD = 128
"""Elements of the heads of published rates."""


class AttentionSizes(NamedTuple):
    """The sizes of a pass over the heads of a rank."""

    batch: float
    """Sequences."""
    heads: float
    kv_heads: float
    head_size: float
    """Elements of a head: the mean of its key and its value."""
    queries: float
    """Queries of a sequence."""
    keys: float
    window: float = 0.0
    """Keys that a query sees on each side, itself among them; 0: all."""
    causal: float = 1.0
    """1 if a query sees no later keys, otherwise 0."""


def seconds(sizes: Sizes, values: Mapping[str, float], chip: Chip) -> Floats:
    """Seconds of passes, by the fields of :class:`AttentionSizes`, shape (passes,)."""
    queries, keys, size = sizes["queries"], sizes["keys"], sizes["head_size"]
    heads = sizes["batch"] * sizes["heads"]
    window = np.where(sizes["window"] > 0, np.minimum(sizes["window"], keys), keys)
    both = (2 - window / keys) * (1 - sizes["causal"] / 2)
    tiles = np.ceil(queries / TILE)
    # A tile behind others is computed whole.
    computed = np.where(tiles > 1, tiles * TILE, queries)
    pairs = computed * window * (both + sizes["causal"] / (2 * keys))
    pairs = pairs * np.where(window < keys, values["window"], 1.0)
    work = pairs + tiles * TILE * TILE * values["tile"]
    flops = chip.flops * values["reached"] / (1 + values["reached"])
    products = 4 * size / flops * chip.multiprocessors
    pair = products + values["softmax"]
    rounds = heads * tiles / chip.multiprocessors
    lost = 1 + (np.ceil(rounds) / rounds - 1) * values["waves"] / (1 + values["waves"])
    arithmetic = heads * work * pair / chip.multiprocessors * lost
    passed = np.minimum(window + TILE, keys) * TILE * values["longest"]
    longest = passed * pair
    of_queries = heads * queries * (chip.width + OUTPUT)
    shared = 2 * sizes["batch"] * sizes["kv_heads"] * keys * chip.width
    nbytes = (of_queries + values["keys"] * shared) * size
    memory = nbytes / (chip.bandwidth * values["memory"])
    body = norm(1 + values["power"], arithmetic, longest, memory)
    total = norm(1 + values["ramp"], values["launch"], body)
    return total + values["sequence"] * sizes["batch"]


def axes(sizes: Sizes) -> Sequence[Floats]:
    """Heads of a batch, queries, elements of a head, and heads of a head of keys; and 2 under a
    window, else 1."""
    return (
        sizes["batch"] * sizes["heads"],
        sizes["queries"],
        sizes["head_size"],
        sizes["heads"] / sizes["kv_heads"],
        np.where((sizes["window"] > 0) & (sizes["window"] < sizes["keys"]), 2.0, 1.0),
    )


ATTENTION = kind_of("attention", seconds, axes)


@lru_cache(maxsize=8192)
def attention_seconds(device: str, math: str, sizes: AttentionSizes, speed: float = 1.0) -> float:
    """Seconds of a forward pass in the dtype `math`, of the fastest library that was measured, or
    of one with `speed` times its rate at heads of 128.

    >>> sizes = AttentionSizes(1, 32, 8, 128, 8192, 8192)
    >>> round(attention_seconds("h100", "bf16", sizes) * 1e6, -1)
    820.0
    """
    engines = {key.engine for key in models(ATTENTION)}
    return min(_model(device, math, each, speed).of(**sizes._asdict()).expected for each in engines)


@lru_cache(maxsize=256)
def _model(device: str, math: str, engine: str, speed: float) -> KernelModel:
    """The model whose pairs with heads of 128 are `speed` times as fast. Exponentials are not."""
    model = model_of(ATTENTION, device, math, engine)
    chip, softmax, reached = model.chip, model.values["softmax"], model.values["reached"]
    products = 4 * HEAD * chip.multiprocessors * (1 + 1 / reached) / chip.flops
    slower = (products + softmax) / speed - softmax
    return replace(model, chip=chip._replace(flops=chip.flops * products / slower))


def decode_seconds(sizes: Sizes, values: Mapping[str, float], chip: Chip) -> Floats:
    """Seconds of decodes, shape (decodes,), of `batch` sequences by the `heads` and `kv_heads` of a
    rank: `head_size` elements of a key and of a value on average, `elements` of the cache of a
    token and a head of keys, and `tokens` of a sequence that are seen, of its window at most."""
    seen = sizes["batch"] * sizes["tokens"]
    memory = seen * sizes["kv_heads"] * sizes["elements"] * chip.width
    arithmetic = 4 * seen * sizes["heads"] * sizes["head_size"]
    return norm(
        1 + values["ramp"],
        values["launch"],
        memory / (chip.bandwidth * values["memory"]),
        arithmetic / (chip.flops * values["arithmetic"]),
        sizes["tokens"] * values["run"],
    )


def decode_axes(sizes: Sizes) -> Sequence[Floats]:
    """Heads of keys of a batch, tokens, elements of a head, and heads of a head of keys."""
    return (
        sizes["batch"] * sizes["kv_heads"],
        sizes["tokens"],
        sizes["head_size"],
        sizes["heads"] / sizes["kv_heads"],
    )


DECODE_ATTENTION = kind_of("decode_attention", decode_seconds, decode_axes)
LATENT_DECODES = replace(DECODE_ATTENTION, name="latent_decodes")
"""Those whose heads share one vector of the cache a token, which is key and value."""
