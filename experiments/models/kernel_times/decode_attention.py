"""Decodes of attention: the newest token of each sequence against the KV cache.

Keys and values pass the memory once, but no kernel ends before its longest run over the tokens of a
sequence, and none takes less than its launch. Latent attention multiplies all heads with one
vector of the cache, so arithmetic counts, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.models.kernel_times.kernel_model import Chip, Sizes, kind_of, norm
from topologies.topology import Floats


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


DECODE_ATTENTION = kind_of("decode_attention", seconds, axes)
LATENT_DECODES = replace(DECODE_ATTENTION, name="latent_decodes")
"""Those whose heads share one vector of the cache a token, which is key and value."""
