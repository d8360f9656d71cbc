"""BERT, GPT-2 and vision transformers, with fused attention and all activations kept.

GPT-3 and MPT are GPT-2s of other sizes. Names are those of Hugging Face's transformers, and of
torchvision for images.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from experiments.models.llama import llama
from experiments.models.model_shapes import Matrix, Shape
from experiments.models.transformer_parts import IDENTIFIER, Tensors, predictions, scores
from experiments.models.work import (
    Architecture,
    LayerWork,
    Operation,
    activation,
    addition,
    dropout,
    embedding,
    linear,
    norm,
    rotary,
)
from simulator.training.model import WIDTHS


def architecture(shape: Shape, seq: int) -> Architecture:
    """The layers of a transformer, for sequences of `seq` tokens."""
    if shape.kind == "encoder":
        return bert(shape, seq)
    if shape.kind == "image":
        return vit(shape, seq)
    return llama(shape, seq) if shape.norm == "rms" else gpt2(shape, seq)


def bert(shape: Shape, seq: int) -> Architecture:
    """BertModel with its pooler and no further head (Devlin et al., NAACL 2019): 109,482,240
    parameters (base) or 335,141,888 (large)."""
    width = shape.width
    rows = {"word": shape.vocabulary, "position": shape.positions, "token_type": shape.segments}
    embedded = (
        *(embedding(seq * width, size * width) for size in rows.values()),
        addition(seq * width, keeps=False),
        addition(seq * width),
        norm(seq * width, keeps=False),
        dropout(seq * width, keeps=True),
    )
    tensors = tuple(
        (f"embeddings.{name}_embeddings.weight", size * width) for name, size in rows.items()
    )
    pooled = (linear(1, width, width), activation(width))
    return Architecture(
        parts=(
            LayerWork("embeddings", embedded, (*tensors, *_normed("embeddings.LayerNorm", shape))),
            *(part for block in range(shape.blocks) for part in _bert_block(block, shape, seq)),
            LayerWork("pooler", pooled, _affine("pooler.dense.", shape.head)),
        ),
        inputs=3 * seq * IDENTIFIER,
        outputs=width,
        state=2,
    )


def _bert_block(block: int, shape: Shape, seq: int) -> Iterator[LayerWork]:
    """Attention and MLP, each with dropout, the sum with its input, and a norm after it."""
    name, width = f"encoder.layer.{block}", shape.width
    *inward, output = shape.attention_matrices
    up, down = shape.mlp_matrices(shape.hidden)
    after = (*_residual(seq * width), norm(seq * width))
    projections = tuple(linear(seq, matrix.inputs, matrix.outputs) for matrix in inward)
    attended = (scores(shape, seq), linear(seq, output.inputs, output.outputs, keeps=False))
    yield LayerWork(
        f"{name}.attention",
        (*projections, *attended, *after),
        (
            *(
                tensor
                for matrix in inward
                for tensor in _affine(f"{name}.attention.self.{matrix.name}.", matrix)
            ),
            *_affine(f"{name}.attention.output.dense.", output),
            *_normed(f"{name}.attention.output.LayerNorm", shape),
        ),
    )
    yield LayerWork(
        f"{name}.mlp",
        (*_mlp(shape, seq), *after),
        (
            *_affine(f"{name}.intermediate.dense.", up),
            *_affine(f"{name}.output.dense.", down),
            *_normed(f"{name}.output.LayerNorm", shape),
        ),
    )


def gpt2(shape: Shape, seq: int) -> Architecture:
    """GPT2LMHeadModel (Radford et al., 2019): 124,439,808 parameters. If the head is the embedding
    once more, its gradient is there when the backward ends."""
    width = shape.width
    rows = {"transformer.wte.weight": shape.vocabulary, "transformer.wpe.weight": shape.positions}
    tables = tuple((name, size * width) for name, size in rows.items() if size)
    embedded = (
        *(embedding(seq * width, size) for _, size in tables),
        *((addition(seq * width, keeps=not shape.dropout),) if shape.positions else ()),
        *((dropout(seq * width, keeps=True),) if shape.dropout else ()),
    )
    head = () if shape.tied else (("lm_head.weight", shape.vocabulary * width),)
    return Architecture(
        parts=(
            LayerWork("embeddings", embedded, tables),
            *_blocks(GPT2_NAMES, shape, seq),
            LayerWork("ln_f", (norm(seq * width),), _normed("transformer.ln_f", shape)),
            LayerWork("lm_head", predictions(shape, seq), head),
        ),
        inputs=2 * seq * IDENTIFIER,
        outputs=seq * shape.vocabulary,
        state=2,
    )


def vit(shape: Shape, seq: int) -> Architecture:
    """VisionTransformer (Dosovitskiy et al., ICLR 2021), large with patches of 16 pixels:
    304,326,632 parameters. The head classifies the class token."""
    width, patches = shape.width, seq - 1
    embedded = (
        linear(patches, shape.patch, width, keeps=False),
        addition(seq * width),
    )
    tables = (
        ("class_token", width),
        *_affine("conv_proj.", Matrix("patches", shape.patch, width, bias=True)),
        ("encoder.pos_embedding", shape.positions * width),
    )
    return Architecture(
        parts=(
            LayerWork("embeddings", embedded, tables),
            *_blocks(VIT_NAMES, shape, seq),
            LayerWork("ln", (norm(seq * width),), _normed("encoder.ln", shape)),
            LayerWork("head", predictions(shape, 1), _affine("heads.head.", shape.head)),
        ),
        inputs=patches * shape.patch * WIDTHS["fp32"],
        outputs=shape.vocabulary,
        state=2,
    )


class _Names(NamedTuple):
    """How a family calls the layers and tensors of a block. {} is the block's number."""

    block: str
    """The block in the names of layers."""
    attention: str
    """The attention in the names of layers."""
    tensors: str
    """The block in the names of tensors."""
    inward: str
    """The matrices of queries, keys and values together."""
    output: str
    up: str
    down: str


GPT2_NAMES = _Names(
    "h.{}", "attn", "transformer.h.{}", "attn.c_attn.", "attn.c_proj.", "mlp.c_fc.", "mlp.c_proj."
)
VIT_NAMES = _Names(
    "encoder_layer_{}",
    "self_attention",
    "encoder.layers.encoder_layer_{}",
    "self_attention.in_proj_",
    "self_attention.out_proj.",
    "mlp.0.",
    "mlp.3.",
)


def _blocks(names: _Names, shape: Shape, seq: int) -> Iterator[LayerWork]:
    """Attention and MLP, each with a norm before it, dropout, and the sum with its input."""
    *inward, output = shape.attention_matrices
    up, down = shape.mlp_matrices(shape.hidden)
    joined = Matrix("inward", shape.width, sum(matrix.outputs for matrix in inward), shape.biases)
    before = norm(seq * shape.width)
    after = _residual(seq * shape.width, dropped=shape.dropout)
    rotated = rotary(seq * (inward[0].outputs + inward[1].outputs))
    for number in range(shape.blocks):
        block, tensors = names.block.format(number), names.tensors.format(number)
        yield LayerWork(
            f"{block}.{names.attention}",
            (
                before,
                linear(seq, joined.inputs, joined.outputs),
                *((rotated,) if shape.rotary else ()),
                scores(shape, seq),
                linear(seq, output.inputs, output.outputs, keeps=False),
                *after,
            ),
            (
                *_normed(f"{tensors}.ln_1", shape),
                *_affine(f"{tensors}.{names.inward}", joined),
                *_affine(f"{tensors}.{names.output}", output),
            ),
        )
        yield LayerWork(
            f"{block}.mlp",
            (before, *_mlp(shape, seq), *after),
            (
                *_normed(f"{tensors}.ln_2", shape),
                *_affine(f"{tensors}.{names.up}", up),
                *_affine(f"{tensors}.{names.down}", down),
            ),
        )


def _mlp(shape: Shape, seq: int) -> tuple[Operation, ...]:
    return (
        linear(seq, shape.width, shape.hidden),
        activation(seq * shape.hidden),
        linear(seq, shape.hidden, shape.width, keeps=False),
    )


def _residual(elements: int, *, dropped: bool = True) -> tuple[Operation, ...]:
    return (*((dropout(elements),) if dropped else ()), addition(elements))


def _affine(prefix: str, matrix: Matrix) -> Tensors:
    weight = (f"{prefix}weight", matrix.inputs * matrix.outputs)
    return (weight, (f"{prefix}bias", matrix.outputs)) if matrix.bias else (weight,)


def _normed(name: str, shape: Shape) -> Tensors:
    kinds = ("weight", "bias") if shape.biases else ("weight",)
    return tuple((f"{name}.{kind}", shape.width) for kind in kinds)
