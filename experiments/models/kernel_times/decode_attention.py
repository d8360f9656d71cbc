"""Decodes of attention: the newest token of each sequence against the KV cache.

Keys and values pass the memory once, but no kernel ends before its longest run over the tokens of a
sequence, and none takes less than its launch. Latent attention multiplies all heads with one
vector of the cache, so arithmetic counts, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.models.kernel_times.kernel_model import Chip, Kind, Sizes, Value, norm
from topologies.topology import Floats

VALUES = {
    "launch": Value(8e-6, 0.5),
    "memory": Value(0.85, 0.2),
    "arithmetic": Value(0.3, 1.0),
    "run": Value(1e-9, 1.5),
    "ramp": Value(0.5, 0.7),
}
"""Seconds of a launch; the shares of the bandwidth and of the peak; seconds of a token of a
sequence; the power of the norm of all of these, less 1."""


def seconds(sizes: Sizes, values: Mapping[str, float], chip: Chip) -> Floats:
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


def axes(sizes: Sizes) -> Sequence[Floats]:
    """Heads of keys of a batch, tokens, elements of a head, and heads of a head of keys."""
    return (
        sizes["batch"] * sizes["kv_heads"],
        sizes["tokens"],
        sizes["head_size"],
        sizes["heads"] / sizes["kv_heads"],
    )


DECODE_ATTENTION = Kind(
    "decode_attention",
    VALUES,
    seconds,
    axes,
    (
        (0, 2, 4, 6, 8, 10, 12),
        (0, 3, 5, 7, 9, 10, 11, 12, 13, 14, 16),
        (6, 7, 8, 9),
        (0, 2, 4, 7),
    ),
)
LATENT_DECODES = replace(DECODE_ATTENTION, name="latent_decodes")
"""Those whose heads share one vector of the cache a token, which is key and value."""
