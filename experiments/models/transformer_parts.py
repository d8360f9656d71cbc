"""What the layers of all transformers share."""

from __future__ import annotations

from experiments.models.model_shapes import Shape
from experiments.models.work import Operation, attention, cross_entropy, linear

IDENTIFIER = 8
"""Bytes of a token's number."""

Tensors = tuple[tuple[str, int], ...]


def scores(shape: Shape, seq: int) -> Operation:
    """The attention of a block."""
    return attention(
        seq,
        shape.heads * shape.key_size,
        causal=shape.kind == "decoder",
        keys=shape.kv_heads * shape.key_size,
        values=shape.kv_heads * shape.value_size,
        outputs=shape.heads * shape.value_size,
    )


def predictions(shape: Shape, rows: int) -> tuple[Operation, ...]:
    """The logits of `rows` tokens, and their loss."""
    head = shape.head
    return (linear(rows, head.inputs, head.outputs), cross_entropy(rows * head.outputs))
