"""The layers of transformers, with fused attention and all activations kept.

GPT-3 and MPT are GPT-2s of other sizes; Mixtral, Qwen3 and DeepSeek-V3 came of Llama. Names are
those of Hugging Face's transformers, and of torchvision for images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from experiments.models.model_shapes import Experts, Matrix, Shape
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
from simulator.training.model import WIDTHS

IDENTIFIER = 8
"""Bytes of a token's number."""

Tensors = tuple[tuple[str, int], ...]
"""Names and elements."""
Work = tuple[tuple[Operation, ...], Tensors]
"""The operations of a part of a block, and its parameters."""


class _Names(NamedTuple):
    """Names of layers and tensors in a family. {} is the number of a block."""

    tables: tuple[str, ...]
    """The tables of tokens, positions and segments."""
    layer: str
    """A block in the names of layers."""
    tensor: str
    """A block in the names of tensors."""
    attention: str
    """The attention of a block in the names of layers."""
    parts: Mapping[str, str]
    """The matrices and norms of a block; without "query", queries, keys and values are one matrix,
    "inward"."""
    last: tuple[str, str]
    """The norm after the last block: its layer, and its tensors."""
    head: tuple[str, str]
    """The matrix after the last block: its layer, and its tensors."""


BERT = _Names(
    tuple(f"embeddings.{table}_embeddings.weight" for table in ("word", "position", "token_type")),
    "encoder.layer.{}",
    "encoder.layer.{}",
    "attention",
    {name: f"attention.self.{name}." for name in ("query", "key", "value")}
    | {
        "output": "attention.output.dense.",
        "attention_norm": "attention.output.LayerNorm",
        "up": "intermediate.dense.",
        "down": "output.dense.",
        "mlp_norm": "output.LayerNorm",
    },
    ("embeddings", "embeddings.LayerNorm"),
    ("pooler", "pooler.dense."),
)
GPT2 = _Names(
    ("transformer.wte.weight", "transformer.wpe.weight"),
    "h.{}",
    "transformer.h.{}",
    "attn",
    {
        "attention_norm": "ln_1",
        "inward": "attn.c_attn.",
        "output": "attn.c_proj.",
        "mlp_norm": "ln_2",
        "up": "mlp.c_fc.",
        "down": "mlp.c_proj.",
    },
    ("ln_f", "transformer.ln_f"),
    ("lm_head", "lm_head."),
)
VIT = _Names(
    (),
    "encoder_layer_{}",
    "encoder.layers.encoder_layer_{}",
    "self_attention",
    {
        "attention_norm": "ln_1",
        "inward": "self_attention.in_proj_",
        "output": "self_attention.out_proj.",
        "mlp_norm": "ln_2",
        "up": "mlp.0.",
        "down": "mlp.3.",
    },
    ("ln", "encoder.ln"),
    ("head", "heads.head."),
)
LLAMA = _Names(
    ("model.embed_tokens.weight",),
    "layers.{}",
    "model.layers.{}",
    "self_attn",
    {
        "query": "self_attn.q_proj.",
        "key": "self_attn.k_proj.",
        "value": "self_attn.v_proj.",
        "output": "self_attn.o_proj.",
        "query_narrow": "self_attn.q_a_proj.",
        "query_wide": "self_attn.q_b_proj.",
        "key_narrow": "self_attn.kv_a_proj_with_mqa.",
        "key_wide": "self_attn.kv_b_proj.",
        "attention_norm": "input_layernorm",
        "mlp_norm": "post_attention_layernorm",
        "gate": "mlp.gate_proj.",
        "up": "mlp.up_proj.",
        "down": "mlp.down_proj.",
        "query_narrow_norm": "self_attn.q_a_layernorm.weight",
        "key_narrow_norm": "self_attn.kv_a_layernorm.weight",
        "query_norm": "self_attn.q_norm.weight",
        "key_norm": "self_attn.k_norm.weight",
        "router": "mlp.gate.weight",
        "experts_up": "mlp.experts.gate_up_proj",
        "experts_down": "mlp.experts.down_proj",
        "shared_gate": "mlp.shared_experts.gate_proj.",
        "shared_up": "mlp.shared_experts.up_proj.",
        "shared_down": "mlp.shared_experts.down_proj.",
    },
    ("norm", "model.norm"),
    ("lm_head", "lm_head."),
)


def architecture(shape: Shape, seq: int) -> Architecture:
    """The layers of a transformer, for sequences of `seq` tokens: BertModel with its pooler and no
    further head, GPT2LMHeadModel, LlamaForCausalLM and its relatives, or VisionTransformer, whose
    head classifies the class token.

    If the head is the embedding once more, its gradient is there when the backward ends.
    """
    width, rows = shape.width, seq
    names = LLAMA if shape.norm == "rms" else GPT2
    inputs, outputs = 2.0 * seq * IDENTIFIER, seq * shape.vocabulary
    if shape.kind == "encoder":
        names, inputs, outputs = BERT, 3.0 * seq * IDENTIFIER, width
    elif shape.kind == "image":
        names, inputs, outputs = VIT, (seq - 1) * shape.patch * WIDTHS["fp32"], shape.vocabulary
        rows = 1
    layer, tensor = names.head
    head = () if shape.tied else _affine(tensor, shape.head)
    if shape.kind == "encoder":
        after = [LayerWork(layer, (linear(1, width, width), activation(width)), head)]
    else:
        product = linear(rows, shape.head.inputs, shape.head.outputs)
        predicted = (product, cross_entropy(rows * shape.head.outputs))
        last = LayerWork(names.last[0], (norm(seq * width),), _normed(names.last[1], shape))
        after = [last, LayerWork(layer, predicted, head)]
    blocks = (part for number in range(shape.blocks) for part in _block(names, number, shape, seq))
    return Architecture(
        parts=(_embeddings(names, shape, seq), *blocks, *after),
        inputs=inputs,
        outputs=outputs,
        state=2,
        registration=tuple(_registration(shape.blocks)) if shape.norm == "rms" else (),
    )


def _registration(blocks: int) -> Iterator[int]:
    """A block of Llama runs norm, attention, norm, MLP, and registers attention, MLP and then the
    norms."""
    yield 0
    for first in range(1, 4 * blocks, 4):
        yield from (first + 1, first + 3, first, first + 2)
    yield from (4 * blocks + 1, 4 * blocks + 2)


def _embeddings(names: _Names, shape: Shape, seq: int) -> LayerWork:
    elements, width = seq * shape.width, shape.width
    if shape.kind == "image":
        tables = (
            ("class_token", width),
            *_affine("conv_proj.", Matrix("patches", shape.patch, width, bias=True)),
            ("encoder.pos_embedding", shape.positions * width),
        )
        patches = linear(seq - 1, shape.patch, width, keeps=False)
        return LayerWork("embeddings", (patches, addition(elements)), tables)
    rows = (shape.vocabulary, shape.positions, shape.segments)
    sizes = zip(names.tables, rows, strict=False)
    tables = tuple((name, size * width) for name, size in sizes if size)
    operations = [embedding(elements, size) for _, size in tables]
    if shape.kind == "encoder":
        operations += (addition(elements, keeps=False), addition(elements))
        operations.append(norm(elements, keeps=False))
        tables += _normed(names.last[1], shape)
    elif shape.positions:
        operations.append(addition(elements, keeps=not shape.dropout))
    if shape.dropout:
        operations.append(dropout(elements, keeps=True))
    return LayerWork("embed_tokens" if names is LLAMA else "embeddings", tuple(operations), tables)


def _block(family: _Names, number: int, shape: Shape, seq: int) -> Iterator[LayerWork]:
    """Attention and MLP, each followed by dropout and the sum with its input. A norm comes before
    each, or after each in BERT; those of Llama are layers of their own."""
    layer, elements = family.layer.format(number), seq * shape.width
    tensor = family.tensor.format(number)
    names = {part: f"{tensor}.{name}" for part, name in family.parts.items()}
    sparse = shape.experts if number >= shape.blocks - shape.expert_blocks else None
    after = (*((dropout(elements),) if shape.dropout else ()), addition(elements))
    for name, norm_of, (operations, tensors) in (
        (family.attention, "attention_norm", _attention(names, shape, seq)),
        (
            "mlp",
            "mlp_norm",
            _experts(names, shape, sparse, seq) if sparse else _mlp(names, shape, seq),
        ),
    ):
        normed, tensors_of_norm = norm(elements), _normed(names[norm_of], shape)
        if shape.kind == "encoder":
            operations, tensors = (*operations, *after, normed), (*tensors, *tensors_of_norm)
        elif shape.norm == "rms":
            yield LayerWork(f"{layer}.{family.parts[norm_of]}", (normed,), tensors_of_norm)
            operations = (*operations, *after)
        else:
            operations, tensors = (normed, *operations, *after), (*tensors_of_norm, *tensors)
        yield LayerWork(f"{layer}.{name}", operations, tensors)


def _attention(names: Mapping[str, str], shape: Shape, seq: int) -> Work:
    """Queries and keys are kept once they are rotated, and before their norms if they have any.

    The narrow vectors of latent attention have norms, and the rotary part of a key is copied to
    each head.
    """
    *inward, output = shape.attention_matrices
    latent, narrow = shape.latent, dict[str, int]()
    rotated = seq * (inward[0].outputs + inward[1].outputs)
    if latent:
        rotated = seq * (shape.heads + 1) * latent.rope
        narrow = {"query_narrow": latent.query_rank, "key_narrow": latent.key_rank}
    elif "inward" in names:
        outputs = sum(matrix.outputs for matrix in inward)
        inward = [Matrix("inward", shape.width, outputs, shape.biases)]
    kept_later = {"query", "key"} if shape.rotary and not shape.head_norms and not latent else ()
    operations, tensors = list[Operation](), list[tuple[str, int]]()
    for matrix in inward:
        keeps = matrix.name not in kept_later
        operations.append(linear(seq, matrix.inputs, matrix.outputs, keeps=keeps))
        tensors += _affine(names[matrix.name], matrix)
        if size := narrow.get(matrix.name):
            operations.append(norm(seq * size))
            tensors.append((names[f"{matrix.name}_norm"], size))
    tensors += _affine(names["output"], output)
    if shape.head_norms:
        operations.append(norm(rotated, keeps=False))
        tensors += [(names[f"{of}_norm"], shape.head_size) for of in ("query", "key")]
    if shape.rotary:
        operations.append(rotary(rotated))
    operations += (scores(shape, seq), linear(seq, output.inputs, output.outputs, keeps=False))
    return tuple(operations), tuple(tensors)


def scores(shape: Shape, seq: int) -> Operation:
    """The attention of a block."""
    queries, outputs = shape.heads * shape.key_size, shape.heads * shape.value_size
    keys, values = shape.kv_heads * shape.key_size, shape.kv_heads * shape.value_size
    return attention(seq, queries, keys, values, outputs, causal=shape.kind == "decoder")


def _mlp(names: Mapping[str, str], shape: Shape, seq: int) -> Work:
    matrices = shape.mlp_matrices(shape.hidden)
    tensors = (tensor for matrix in matrices for tensor in _affine(names[matrix.name], matrix))
    return _expanded(matrices, seq), tuple(tensors)


def _expanded(matrices: tuple[Matrix, ...], rows: int, number: int = 1) -> tuple[Operation, ...]:
    """An MLP of `rows` tokens, or `number` experts that share them."""
    *ups, down = matrices
    inside = rows * down.inputs
    *into, out = (
        linear(rows, matrix.inputs, matrix.outputs, keeps=matrix in ups, number=number)
        for matrix in matrices
    )
    return (*into, gated(inside) if len(ups) > 1 else activation(inside), out)


def _experts(names: Mapping[str, str], shape: Shape, experts: Experts, seq: int) -> Work:
    """A router chooses experts for each token. Tokens are copied to their experts, in the order of
    experts, and the results are added. All experts together are two tensors."""
    width, rows, number = shape.width, seq * experts.top, experts.number
    moved = (seq + rows) * width
    copied = Operation(moved=moved, moved_back=moved, kept=rows * width)
    matrices, shared = shape.mlp_matrices(experts.hidden), shape.mlp_matrices(experts.shared)
    *into, out = (matrix.parameters for matrix in matrices)
    operations = (
        linear(seq, width, number),
        activation(seq * number),
        copied,
        *_expanded(matrices, rows, number),
        copied,
    )
    tensors = (
        (names["router"], number * width),
        (names["experts_up"], number * sum(into)),
        (names["experts_down"], number * out),
    )
    if not experts.shared:
        return operations, tensors
    shared_expert = (*_expanded(shared, seq), addition(seq * width, keeps=False))
    each = (_affine(names[f"shared_{matrix.name}"], matrix) for matrix in shared)
    return (*operations, *shared_expert), (
        *tensors,
        *(tensor for named in each for tensor in named),
    )


def _affine(prefix: str, matrix: Matrix) -> Tensors:
    weight = (f"{prefix}weight", matrix.inputs * matrix.outputs)
    return (weight, (f"{prefix}bias", matrix.outputs)) if matrix.bias else (weight,)


def _normed(name: str, shape: Shape) -> Tensors:
    kinds = ("weight", "bias") if shape.biases else ("weight",)
    return tuple((f"{name}.{kind}", shape.width) for kind in kinds)
