"""The layers of transformers in strategies: the kernels of their blocks, and tensors by name.

GPT-3 and MPT are GPT-2s of other sizes; Mixtral, Qwen3 and DeepSeek-V3 came of Llama. Names are
those of Hugging Face's transformers, and of torchvision for images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

from experiments.models.kernels import Tensors
from experiments.models.mixer_shapes import Experts, Mamba, WeightMatrix
from experiments.models.mixers import part
from experiments.models.model_shapes import TransformerShape
from experiments.models.transformer_blocks import Writer
from experiments.shipped_tables import rows_of
from simulator.parallel.blocks import Block
from simulator.training.model import WIDTHS, Layer, Model

IDENTIFIER = 8
"""Bytes of a token's number."""
Names = Mapping[str, str]


@cache
def names_of(family: str) -> Names:
    """The names of layers and tensors in a family: bert, gpt2, vit or llama.

    {} is the number of a block. `layer` and `tensor` are a block in the names of layers and of
    tensors. Without `query`, queries, keys and values are one matrix, `inward`. Attention is the
    part in which its `output` is. The layer of the `last` norm has the last word of its name.
    """
    rows = rows_of(Path(__file__).with_name("tensor_names.csv"))
    return {row["of"]: row[family] for row in rows if row[family]}


def transformer(writer: Writer) -> Model:
    """A transformer that nothing cuts: BertModel with its pooler and no further head,
    GPT2LMHeadModel, LlamaForCausalLM and its relatives, or VisionTransformer, whose head classifies
    the class token.

    If the head is the embedding once more, its gradient is there when the backward ends.
    """
    shape, seq = writer.shape, writer.seq
    family, inputs, outputs = "gpt2", 2.0 * seq * IDENTIFIER, seq * shape.vocabulary
    if shape.norm == "rms":
        family = "llama"
    if shape.kind == "encoder":
        family, inputs, outputs = "bert", 3.0 * seq * IDENTIFIER, shape.width
    elif shape.kind == "image":
        family, inputs, outputs = "vit", (seq - 1) * shape.patch * WIDTHS["fp32"], shape.vocabulary
    model = writer.model(_layers(names_of(family), writer), inputs, outputs, state=2)
    if family != "llama" or shape.pattern:
        return model
    # A block of Llama runs norm, attention, norm, MLP, and registers attention, MLP and the norms.
    last = 4 * shape.blocks + 1
    blocks = (first + k for first in range(1, last, 4) for k in (1, 3, 0, 2))
    return replace(model, registration=(0, *blocks, last, last + 1))


def with_tensors(blocks: Sequence[Block], writer: Writer) -> list[Block]:
    """The blocks of a plan, embedding and head at the ends, with the parameters of the strategy's
    layers. Tensor parallel cuts all of them, although it should leave norms whole."""
    shape, model = writer.shape, transformer(writer)
    width = WIDTHS[model.dtype] * writer.cut.tp
    each = 4 if shape.norm == "rms" and not shape.pattern else 2
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


def _layers(names: Names, writer: Writer) -> Iterator[Layer]:
    """The layers in the order in which they run. A norm comes first in attention, in the MLP and
    behind the blocks, or last in BERT; those of Llama are layers."""
    shape, norm = writer.shape, writer.norm()
    is_last = shape.kind == "encoder"
    last_norm = _normed(names["last"], shape)
    embedding = writer.embedding() + (norm if is_last else [])
    tables = (*_tables(names, shape), *(last_norm if is_last else ()))
    yield writer.layer(names["embedding"], embedding, tables)
    events_of = {letter: part(writer, letter) for letter in shape.parts}
    for number, kind in enumerate(shape.kinds):
        layer, tensor = names["layer"].format(number), names["tensor"].format(number)
        tensors = {part: tensor + name for part, name in names.items()}
        for letter in kind:
            name, norm_of, mine = _part(names, tensors, shape, letter)
            events, of_norm = events_of[letter], _normed(tensors[norm_of], shape)
            if is_last:
                yield writer.layer(f"{layer}.{name}", events + norm, (*mine, *of_norm))
            elif shape.norm == "rms":
                yield writer.layer(f"{layer}.{names[norm_of]}", norm, of_norm)
                yield writer.layer(f"{layer}.{name}", events, mine)
            else:
                yield writer.layer(f"{layer}.{name}", norm + events, (*of_norm, *mine))
    if not is_last:
        yield writer.layer(names["last"].rpartition(".")[2], norm, last_norm)
    head = () if shape.tied else _affine(names["head"], shape.head)
    yield writer.layer(names["head_layer"], writer.head(), head)


def _part(
    names: Names, tensors: Names, shape: TransformerShape, letter: str
) -> tuple[str, str, Tensors]:
    """The names of a part of a block and of its norm, and its tensors."""
    if letter == "M" and shape.mamba:
        return "mixer", "attention_norm", _mamba(tensors["mixer"], shape.mamba, shape.width)
    if letter in "-E":
        return "mlp", "mlp_norm", _inner(tensors, shape, shape.experts if letter == "E" else None)
    return names["output"].partition(".")[0], "attention_norm", _attention(tensors, shape)


def _mamba(prefix: str, mamba: Mamba, width: int) -> Tensors:
    before, after = mamba.matrices(width)
    return (
        *((f"{prefix}{name}", mamba.heads) for name in ("dt_bias", "A_log", "D")),
        (f"{prefix}conv1d.weight", mamba.kernel * mamba.convolved),
        (f"{prefix}conv1d.bias", mamba.convolved),
        (f"{prefix}in_proj.weight", before.parameters),
        (f"{prefix}norm.weight", mamba.inner),
        (f"{prefix}out_proj.weight", after.parameters),
    )


def _tables(names: Names, shape: TransformerShape) -> Tensors:
    if shape.kind == "image":
        return (
            ("class_token", shape.width),
            *_affine("conv_proj.", WeightMatrix("patches", shape.patch, shape.width, bias=True)),
            ("encoder.pos_embedding", shape.positions * shape.width),
        )
    rows = (shape.vocabulary, shape.positions, shape.segments)
    sizes = zip(names["tables"].split(), rows, strict=False)
    return tuple((name, size * shape.width) for name, size in sizes if size)


def _attention(names: Names, shape: TransformerShape) -> Tensors:
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
    if shape.sinks:
        tensors.append((names["sinks"], shape.heads))
    return tensors


def _inner(names: Names, shape: TransformerShape, experts: Experts | None) -> Tensors:
    """An MLP, or a router, all experts together in two tensors, and the shared expert."""
    if experts is None:
        return _mlp(names, shape.part_matrices("-"))
    *into, out = (matrix.parameters for matrix in shape.expert_matrices)
    return (
        (names["router"], experts.number * shape.width),
        (names["experts_up"], experts.number * sum(into)),
        (names["experts_down"], experts.number * out),
        *(
            (names[matrix.name], matrix.parameters)
            for matrix in experts.latent_matrices(shape.width)
        ),
        *_mlp(names, shape.part_matrices("E"), "shared_"),
    )


def _mlp(names: Names, matrices: Sequence[WeightMatrix], kind: str = "") -> Tensors:
    return [each for matrix in matrices for each in _affine(names[kind + matrix.name], matrix)]


def _affine(prefix: str, matrix: WeightMatrix) -> Tensors:
    weight = (f"{prefix}weight", matrix.inputs * matrix.outputs)
    return (weight, (f"{prefix}bias", matrix.outputs)) if matrix.bias else (weight,)


def _normed(name: str, shape: TransformerShape) -> Tensors:
    kinds = ("weight", "bias") if shape.biases and shape.norm == "layer" else ("weight",)
    return tuple((f"{name}.{kind}", shape.width) for kind in kinds)
