"""Shapes of transformers from the number of their heads."""

from __future__ import annotations

from typing import Any

from experiments.models.model_shapes import TransformerShape
from simulator.parallel.degrees import divisor
from topologies.errors import InputError


def multi_head(blocks: int, width: int, heads: int, **more: Any) -> TransformerShape:
    """A shape with as many heads of keys as of queries, which share the width, unless `more` says
    otherwise. Raises InputError if they cannot.

    >>> multi_head(12, 768, 12, hidden=3072, vocabulary=50257).head_size
    64
    """
    head_size = more.pop("head_size", None) or share(width, heads)
    kv_heads = more.pop("kv_heads", None) or heads
    return TransformerShape(blocks, width, heads, kv_heads, head_size, **more)


def share(width: int, heads: int) -> int:
    """The elements of each of `heads` heads. Raises InputError if they do not divide the width."""
    if width % heads:
        above = -(-width // heads) * heads
        raise InputError(
            f"hidden={width} is no multiple of heads={heads}: write hidden={above} or "
            f"heads={divisor(width, heads)}"
        )
    return width // heads
