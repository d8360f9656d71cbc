"""The layers of transformers in strategies: the kernels of their blocks, and tensors by name.

GPT-3 and MPT are GPT-2s of other sizes; Mixtral, Qwen3 and DeepSeek-V3 came of Llama. Names are
those of Hugging Face's transformers, and of torchvision for images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from experiments.models.kernels import Tensors
from experiments.models.model_shapes import Experts, TransformerShape, WeightMatrix
from experiments.models.transformer_blocks import Writer
from simulator.parallel.blocks import Block
from simulator.training.model import WIDTHS, Layer, Model

IDENTIFIER = 8
"""Bytes of a token's number."""


class _Names(NamedTuple):
    """Names of layers and tensors in a family. {} is the number of a block."""

    tables: tuple[str, ...]
    """The tables of tokens, positions and segments."""
    layer: str
    """A block in the names of layers."""
    tensor: str
    """A block in the names of tensors."""
    parts: Mapping[str, str]
    """The matrices and norms of a block; without "query", queries, keys and values are one matrix,
    "inward". Attention is the part in which its output is."""
    last: str
    """The norm after the last block. Its layer has the last word of this."""
    head: tuple[str, str]
    """The matrix after the last block: its layer, and its tensors."""


BERT = _Names(
    tuple(f"embeddings.{table}_embeddings.weight" for table in ("word", "position", "token_type")),
    "encoder.layer.{}",
    "encoder.layer.{}",
    {name: f"attention.self.{name}." for name in ("query", "key", "value")}
    | {
        "output": "attention.output.dense.",
        "attention_norm": "attention.output.LayerNorm",
        "up": "intermediate.dense.",
        "down": "output.dense.",
        "mlp_norm": "output.LayerNorm",
    },
    "embeddings.LayerNorm",
    ("pooler", "pooler.dense."),
)
GPT2 = _Names(
    ("transformer.wte.weight", "transformer.wpe.weight"),
    "h.{}",
    "transformer.h.{}",
    {
        "attention_norm": "ln_1",
        "inward": "attn.c_attn.",
        "output": "attn.c_proj.",
        "mlp_norm": "ln_2",
        "up": "mlp.c_fc.",
        "down": "mlp.c_proj.",
    },
    "transformer.ln_f",
    ("lm_head", "lm_head."),
)
VIT = _Names(
    (),
    "encoder_layer_{}",
    "encoder.layers.encoder_layer_{}",
    {
        **GPT2.parts,
        "inward": "self_attention.in_proj_",
        "output": "self_attention.out_proj.",
        "up": "mlp.0.",
        "down": "mlp.3.",
    },
    "encoder.ln",
    ("head", "heads.head."),
)
LLAMA = _Names(
    ("model.embed_tokens.weight",),
    "layers.{}",
    "model.layers.{}",
    {name: f"self_attn.{name[0]}_proj." for name in ("query", "key", "value", "output")}
    | {name: f"mlp.{name}_proj." for name in ("gate", "up", "down")}
    | {f"shared_{name}": f"mlp.shared_experts.{name}_proj." for name in ("gate", "up", "down")}
    | {
        "query_narrow": "self_attn.q_a_proj.",
        "query_wide": "self_attn.q_b_proj.",
        "key_narrow": "self_attn.kv_a_proj_with_mqa.",
        "key_wide": "self_attn.kv_b_proj.",
        "attention_norm": "input_layernorm",
        "mlp_norm": "post_attention_layernorm",
        "query_narrow_norm": "self_attn.q_a_layernorm.weight",
        "key_narrow_norm": "self_attn.kv_a_layernorm.weight",
        "query_norm": "self_attn.q_norm.weight",
        "key_norm": "self_attn.k_norm.weight",
        "router": "mlp.gate.weight",
        "experts_up": "mlp.experts.gate_up_proj",
        "experts_down": "mlp.experts.down_proj",
    },
    "model.norm",
    ("lm_head", "lm_head."),
)


def transformer(writer: Writer) -> Model:
    """A transformer that nothing cuts: BertModel with its pooler and no further head,
    GPT2LMHeadModel, LlamaForCausalLM and its relatives, or VisionTransformer, whose head classifies
    the class token.

    If the head is the embedding once more, its gradient is there when the backward ends.
    """
    shape, seq = writer.shape, writer.seq
    names = LLAMA if shape.norm == "rms" else GPT2
    inputs, outputs = 2.0 * seq * IDENTIFIER, seq * shape.vocabulary
    if shape.kind == "encoder":
        names, inputs, outputs = BERT, 3.0 * seq * IDENTIFIER, shape.width
    elif shape.kind == "image":
        names, inputs, outputs = VIT, (seq - 1) * shape.patch * WIDTHS["fp32"], shape.vocabulary
    # A block of Llama runs norm, attention, norm, MLP, and registers attention, MLP and the norms.
    last = 4 * shape.blocks + 1
    blocks = (first + k for first in range(1, last, 4) for k in (1, 3, 0, 2))
    registration = (0, *blocks, last, last + 1)
    return writer.model(
        _layers(names, writer),
        inputs=inputs,
        outputs=outputs,
        state=2,
        registration=registration if shape.norm == "rms" else (),
    )


def with_tensors(blocks: Sequence[Block], writer: Writer) -> list[Block]:
    """The blocks of a plan, embedding and head at the ends, with the parameters of the strategy's
    layers. Tensor parallel cuts all of them, although it should leave norms whole."""
    shape, model = writer.shape, transformer(writer)
    width = WIDTHS[model.dtype] * writer.cut.tp
    each = 4 if shape.norm == "rms" else 2
    ends = [0, *range(1, each * shape.blocks + 2, each), len(model.layers)]

    @cache
    def with_sizes(block: Block, sizes: tuple[float, ...]) -> Block:
        return replace(block, tensors=sizes)

    return [
        with_sizes(
            block,
            tuple(
                tensor.nbytes / width
                for layer in reversed(model.layers[begin:end])
                for tensor in layer.arriving
            ),
        )
        for block, (begin, end) in zip(blocks, pairwise(ends), strict=True)
    ]


def _layers(names: _Names, writer: Writer) -> Iterator[Layer]:
    """The layers in the order in which they run. A norm comes first in attention, in the MLP and
    behind the blocks, or last in BERT; those of Llama are layers."""
    shape, norm, attention = writer.shape, writer.norm(), writer.attention()
    is_last = shape.kind == "encoder"
    last_norm, of_attention = _normed(names.last, shape), names.parts["output"].partition(".")[0]
    embedding = writer.embedding() + (norm if is_last else [])
    tables = (*_tables(names, shape), *(last_norm if is_last else ()))
    yield writer.layer("embed_tokens" if names is LLAMA else "embeddings", embedding, tables)
    inner = {experts: writer.inner(experts) for experts in (None, shape.experts)}
    for number in range(shape.blocks):
        experts = shape.experts if number >= shape.blocks - shape.expert_blocks else None
        layer, tensor = names.layer.format(number), names.tensor.format(number)
        tensors = {part: f"{tensor}.{name}" for part, name in names.parts.items()}
        parts = (
            (of_attention, "attention_norm", attention, _attention(tensors, shape)),
            ("mlp", "mlp_norm", inner[experts], _inner(tensors, shape, experts)),
        )
        for name, norm_of, events, mine in parts:
            of_norm = _normed(tensors[norm_of], shape)
            if is_last:
                yield writer.layer(f"{layer}.{name}", events + norm, (*mine, *of_norm))
            elif shape.norm == "rms":
                yield writer.layer(f"{layer}.{names.parts[norm_of]}", norm, of_norm)
                yield writer.layer(f"{layer}.{name}", events, mine)
            else:
                yield writer.layer(f"{layer}.{name}", norm + events, (*of_norm, *mine))
    if not is_last:
        yield writer.layer(names.last.rpartition(".")[2], norm, last_norm)
    head = () if shape.tied else _affine(names.head[1], shape.head)
    yield writer.layer(names.head[0], writer.head(), head)


def _tables(names: _Names, shape: TransformerShape) -> Tensors:
    """The tensors of the embedding."""
    if shape.kind == "image":
        return (
            ("class_token", shape.width),
            *_affine("conv_proj.", WeightMatrix("patches", shape.patch, shape.width, bias=True)),
            ("encoder.pos_embedding", shape.positions * shape.width),
        )
    rows = (shape.vocabulary, shape.positions, shape.segments)
    sizes = zip(names.tables, rows, strict=False)
    return tuple((name, size * shape.width) for name, size in sizes if size)


def _attention(names: Mapping[str, str], shape: TransformerShape) -> Tensors:
    """The narrow vectors of latent attention have norms."""
    *inward, output = shape.attention_matrices
    latent, tensors = shape.latent, list[tuple[str, int]]()
    if "inward" in names:
        outputs = sum(matrix.outputs for matrix in inward)
        inward = [WeightMatrix("inward", shape.width, outputs, shape.biases)]
    narrow = {"query_narrow": latent.query_rank, "key_narrow": latent.key_rank} if latent else {}
    for matrix in inward:
        tensors += _affine(names[matrix.name], matrix)
        if size := narrow.get(matrix.name):
            tensors.append((names[f"{matrix.name}_norm"], size))
    tensors += _affine(names["output"], output)
    if shape.head_norms:
        tensors += [(names[f"{of}_norm"], shape.head_size) for of in ("query", "key")]
    return tensors


def _inner(names: Mapping[str, str], shape: TransformerShape, experts: Experts | None) -> Tensors:
    """An MLP, or a router, all experts together in two tensors, and the shared expert."""
    if experts is None:
        return _mlp(names, shape.mlp_matrices(shape.hidden))
    *into, out = (matrix.parameters for matrix in shape.mlp_matrices(experts.hidden))
    number, shared = experts.number, shape.mlp_matrices(experts.shared)
    return (
        (names["router"], number * shape.width),
        (names["experts_up"], number * sum(into)),
        (names["experts_down"], number * out),
        *(_mlp(names, shared, "shared_") if experts.shared else ()),
    )


def _mlp(names: Mapping[str, str], matrices: tuple[WeightMatrix, ...], kind: str = "") -> Tensors:
    return [each for matrix in matrices for each in _affine(names[kind + matrix.name], matrix)]


def _affine(prefix: str, matrix: WeightMatrix) -> Tensors:
    weight = (f"{prefix}weight", matrix.inputs * matrix.outputs)
    return (weight, (f"{prefix}bias", matrix.outputs)) if matrix.bias else (weight,)


def _normed(name: str, shape: TransformerShape) -> Tensors:
    kinds = ("weight", "bias") if shape.biases else ("weight",)
    return tuple((f"{name}.{kind}", shape.width) for kind in kinds)
