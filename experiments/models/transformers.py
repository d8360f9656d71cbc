"""BERT, GPT-2 and Llama 2 as Hugging Face's transformers have them, with fused attention and all
activations kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from experiments.models.work import (
    Architecture,
    LayerWork,
    Operation,
    activation,
    addition,
    attention,
    cross_entropy,
    dropout,
    embedding,
    gated,
    linear,
    norm,
    rotary,
)

IDENTIFIER = 8
"""Bytes of a token's number."""

Tensors = tuple[tuple[str, int], ...]


class Shape(NamedTuple):
    """Blocks, elements of a token, elements between the two matrices of an MLP, tokens known,
    longest sequence."""

    blocks: int
    width: int
    hidden: int
    vocabulary: int
    positions: int


BERT_BASE = Shape(12, 768, 3072, 30522, 512)
BERT_LARGE = Shape(24, 1024, 4096, 30522, 512)
GPT2 = Shape(12, 768, 3072, 50257, 1024)
LLAMA_7B = Shape(32, 4096, 11008, 32000, 4096)


def bert(shape: Shape, seq: int) -> Architecture:
    """BertModel with its pooler and no further head (Devlin et al., NAACL 2019): 109,482,240
    parameters (base) or 335,141,888 (large)."""
    width = shape.width
    embedded = (
        *(embedding(seq * width, rows * width) for rows in (shape.vocabulary, shape.positions, 2)),
        addition(seq * width, keeps=False),
        addition(seq * width),
        norm(seq * width, keeps=False),
        dropout(seq * width, keeps=True),
    )
    tensors = tuple(
        (f"embeddings.{name}_embeddings.weight", rows * width)
        for name, rows in (
            ("word", shape.vocabulary),
            ("position", shape.positions),
            ("token_type", 2),
        )
    )
    pooled = (linear(1, width, width), activation(width))
    return Architecture(
        parts=(
            LayerWork("embeddings", embedded, (*tensors, *_norm("embeddings.LayerNorm", width))),
            *(part for block in range(shape.blocks) for part in _bert_block(block, shape, seq)),
            LayerWork("pooler", pooled, _affine("pooler.dense", width, width)),
        ),
        inputs=3 * seq * IDENTIFIER,
        outputs=width,
        state=2,
    )


def _bert_block(block: int, shape: Shape, seq: int) -> Iterator[LayerWork]:
    """Attention and MLP, each with dropout, the sum with its input, and a norm after it."""
    name, width, hidden = f"encoder.layer.{block}", shape.width, shape.hidden
    after = (*_residual(seq * width), norm(seq * width))
    projections = tuple(linear(seq, width, width) for _ in range(3))
    attended = (attention(seq, width, causal=False), linear(seq, width, width, keeps=False))
    yield LayerWork(
        f"{name}.attention",
        (*projections, *attended, *after),
        (
            *(
                each
                for of in ("query", "key", "value")
                for each in _affine(f"{name}.attention.self.{of}", width, width)
            ),
            *_affine(f"{name}.attention.output.dense", width, width),
            *_norm(f"{name}.attention.output.LayerNorm", width),
        ),
    )
    yield LayerWork(
        f"{name}.mlp",
        (*_mlp(shape, seq), *after),
        (
            *_affine(f"{name}.intermediate.dense", width, hidden),
            *_affine(f"{name}.output.dense", hidden, width),
            *_norm(f"{name}.output.LayerNorm", width),
        ),
    )


def gpt2(shape: Shape, seq: int) -> Architecture:
    """GPT2LMHeadModel (Radford et al., 2019): 124,439,808 parameters. The head is the embedding
    once more, so its gradient is there when the backward ends."""
    width = shape.width
    embedded = (
        *(embedding(seq * width, rows * width) for rows in (shape.vocabulary, shape.positions)),
        addition(seq * width, keeps=False),
        dropout(seq * width, keeps=True),
    )
    tables = (
        ("transformer.wte.weight", shape.vocabulary * width),
        ("transformer.wpe.weight", shape.positions * width),
    )
    return Architecture(
        parts=(
            LayerWork("embeddings", embedded, tables),
            *(part for block in range(shape.blocks) for part in _gpt2_block(block, shape, seq)),
            LayerWork("ln_f", (norm(seq * width),), _norm("transformer.ln_f", width)),
            LayerWork("lm_head", _head(shape, seq)),
        ),
        inputs=2 * seq * IDENTIFIER,
        outputs=seq * shape.vocabulary,
        state=2,
    )


def _gpt2_block(block: int, shape: Shape, seq: int) -> Iterator[LayerWork]:
    """Attention and MLP, each with a norm before it, dropout, and the sum with its input."""
    name, width, hidden = f"h.{block}", shape.width, shape.hidden
    before, after = norm(seq * width), _residual(seq * width)
    attended = (attention(seq, width, causal=True), linear(seq, width, width, keeps=False))
    yield LayerWork(
        f"{name}.attn",
        (before, linear(seq, width, 3 * width), *attended, *after),
        (
            *_norm(f"transformer.{name}.ln_1", width),
            *_affine(f"transformer.{name}.attn.c_attn", width, 3 * width),
            *_affine(f"transformer.{name}.attn.c_proj", width, width),
        ),
    )
    yield LayerWork(
        f"{name}.mlp",
        (before, *_mlp(shape, seq), *after),
        (
            *_norm(f"transformer.{name}.ln_2", width),
            *_affine(f"transformer.{name}.mlp.c_fc", width, hidden),
            *_affine(f"transformer.{name}.mlp.c_proj", hidden, width),
        ),
    )


def llama(shape: Shape, seq: int) -> Architecture:
    """LlamaForCausalLM (Touvron et al., arXiv 2307.09288), 7B: 6,738,415,616 parameters. A block
    runs norm, attention, norm, MLP, and registers attention, MLP and then the norms."""
    width, rows = shape.width, shape.vocabulary * shape.width
    blocks = [_llama_block(block, shape, seq) for block in range(shape.blocks)]
    firsts = range(1, 4 * shape.blocks, 4)
    last = 4 * shape.blocks + 1
    return Architecture(
        parts=(
            LayerWork(
                "embed_tokens",
                (embedding(seq * width, rows),),
                (("model.embed_tokens.weight", rows),),
            ),
            *(part for block in blocks for part in block),
            LayerWork("norm", (norm(seq * width),), (("model.norm.weight", width),)),
            LayerWork("lm_head", _head(shape, seq), (("lm_head.weight", rows),)),
        ),
        inputs=2 * seq * IDENTIFIER,
        outputs=seq * shape.vocabulary,
        state=2,
        registration=(
            0,
            *(first + place for first in firsts for place in (1, 3, 0, 2)),
            last,
            last + 1,
        ),
    )


def _llama_block(block: int, shape: Shape, seq: int) -> tuple[LayerWork, ...]:
    name, width, hidden = f"layers.{block}", shape.width, shape.hidden
    summed = addition(seq * width)
    attended = (
        *(linear(seq, width, width, keeps=False) for _ in range(2)),
        linear(seq, width, width),
        rotary(2 * seq * width),
        attention(seq, width, causal=True),
        linear(seq, width, width, keeps=False),
        summed,
    )
    expanded = (linear(seq, width, hidden), linear(seq, width, hidden), gated(seq * hidden))
    return (
        _llama_norm(f"{name}.input_layernorm", width, seq),
        LayerWork(
            f"{name}.self_attn",
            attended,
            tuple((f"model.{name}.self_attn.{of}_proj.weight", width**2) for of in "qkvo"),
        ),
        _llama_norm(f"{name}.post_attention_layernorm", width, seq),
        LayerWork(
            f"{name}.mlp",
            (*expanded, linear(seq, hidden, width, keeps=False), summed),
            tuple(
                (f"model.{name}.mlp.{of}_proj.weight", width * hidden)
                for of in ("gate", "up", "down")
            ),
        ),
    )


def _llama_norm(name: str, width: int, seq: int) -> LayerWork:
    return LayerWork(name, (norm(seq * width),), ((f"model.{name}.weight", width),))


def _mlp(shape: Shape, seq: int) -> tuple[Operation, ...]:
    return (
        linear(seq, shape.width, shape.hidden),
        activation(seq * shape.hidden),
        linear(seq, shape.hidden, shape.width, keeps=False),
    )


def _residual(elements: int) -> tuple[Operation, ...]:
    return (dropout(elements), addition(elements))


def _head(shape: Shape, seq: int) -> tuple[Operation, ...]:
    return (linear(seq, shape.width, shape.vocabulary), cross_entropy(seq * shape.vocabulary))


def _affine(name: str, inputs: int, outputs: int) -> Tensors:
    return ((f"{name}.weight", inputs * outputs), (f"{name}.bias", outputs))


def _norm(name: str, width: int) -> Tensors:
    return ((f"{name}.weight", width), (f"{name}.bias", width))
