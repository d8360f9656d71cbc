"""Llama and what came of it: Mixtral, Qwen3, DeepSeek-V3. RMS norms, gated MLPs or experts, rotary
positions."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.models.model_shapes import Experts, Latent, Matrix, Shape
from experiments.models.transformer_parts import IDENTIFIER, Tensors, predictions, scores
from experiments.models.work import (
    Architecture,
    LayerWork,
    Operation,
    activation,
    addition,
    embedding,
    gated,
    linear,
    norm,
    rotary,
)

NAMES = {
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "output": "o_proj",
    "query_narrow": "q_a_proj",
    "query_wide": "q_b_proj",
    "key_narrow": "kv_a_proj_with_mqa",
    "key_wide": "kv_b_proj",
    "gate": "gate_proj",
    "up": "up_proj",
    "down": "down_proj",
}
"""The names of matrices in transformers."""


def llama(shape: Shape, seq: int) -> Architecture:
    """LlamaForCausalLM (Touvron et al., arXiv 2307.09288) and its relatives. A block runs norm,
    attention, norm, MLP, and registers attention, MLP and then the norms."""
    width, rows = shape.width, shape.vocabulary * shape.width
    blocks = [_block(number, shape, seq) for number in range(shape.blocks)]
    firsts = range(1, 4 * shape.blocks, 4)
    last = 4 * shape.blocks + 1
    head = () if shape.tied else (("lm_head.weight", rows),)
    return Architecture(
        parts=(
            LayerWork(
                "embed_tokens",
                (embedding(seq * width, rows),),
                (("model.embed_tokens.weight", rows),),
            ),
            *(part for block in blocks for part in block),
            LayerWork("norm", (norm(seq * width),), (("model.norm.weight", width),)),
            LayerWork("lm_head", predictions(shape, seq), head),
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


def _block(number: int, shape: Shape, seq: int) -> tuple[LayerWork, ...]:
    name = f"layers.{number}"
    sparse = shape.experts is not None and number >= shape.blocks - shape.expert_blocks
    return (
        _norm(f"{name}.input_layernorm", shape.width, seq),
        _latent(f"{name}.self_attn", shape, shape.latent, seq)
        if shape.latent
        else _attention(f"{name}.self_attn", shape, seq),
        _norm(f"{name}.post_attention_layernorm", shape.width, seq),
        _experts(f"{name}.mlp", shape, shape.experts, seq)
        if shape.experts and sparse
        else _mlp(f"{name}.mlp", shape, seq),
    )


def _norm(name: str, width: int, seq: int) -> LayerWork:
    return LayerWork(name, (norm(seq * width),), ((f"model.{name}.weight", width),))


def _attention(name: str, shape: Shape, seq: int) -> LayerWork:
    """Queries and keys are kept once they are rotated, and before their norms if they have any."""
    query, key, value, _ = shape.attention_matrices
    rotated, normed = seq * (query.outputs + key.outputs), shape.head_norms
    operations = (
        linear(seq, query.inputs, query.outputs, keeps=normed),
        linear(seq, key.inputs, key.outputs, keeps=normed),
        linear(seq, value.inputs, value.outputs),
        *((norm(rotated, keeps=False),) if normed else ()),
        rotary(rotated),
        *_joined(shape, seq),
    )
    norms = [(f"{name}.{of}_norm", shape.head_size) for of in ("qk" if normed else "")]
    return LayerWork(name, operations, _tensors((*_named(name, shape.attention_matrices), *norms)))


def _latent(name: str, shape: Shape, latent: Latent, seq: int) -> LayerWork:
    """Narrow vectors have norms. The rotary part of a key is copied to each head."""
    norms = {
        "query_narrow": ("q_a_layernorm", latent.query_rank),
        "key_narrow": ("kv_a_layernorm", latent.key_rank),
    }
    operations: list[Operation] = []
    tensors: list[tuple[str, int]] = []
    for matrix in shape.attention_matrices[:-1]:
        operations.append(linear(seq, matrix.inputs, matrix.outputs))
        tensors += _named(name, (matrix,))
        if matrix.name in norms:
            norm_name, size = norms[matrix.name]
            operations.append(norm(seq * size))
            tensors.append((f"{name}.{norm_name}", size))
    operations += (rotary(seq * (shape.heads + 1) * latent.rope), *_joined(shape, seq))
    return LayerWork(
        name,
        tuple(operations),
        _tensors((*tensors, *_named(name, shape.attention_matrices[-1:]))),
    )


def _joined(shape: Shape, seq: int) -> tuple[Operation, ...]:
    """The end of attention: heads are joined and added to the block's input."""
    output = shape.attention_matrices[-1]
    return (
        scores(shape, seq),
        linear(seq, output.inputs, output.outputs, keeps=False),
        addition(seq * shape.width),
    )


def _mlp(name: str, shape: Shape, seq: int) -> LayerWork:
    matrices = shape.mlp_matrices(shape.hidden)
    return LayerWork(
        name,
        (*_expanded(shape, shape.hidden, seq), addition(seq * shape.width)),
        _tensors(_named(name, matrices)),
    )


def _expanded(shape: Shape, hidden: int, rows: int, number: int = 1) -> tuple[Operation, ...]:
    """A gated MLP of `rows` tokens, which `number` experts share."""
    width = shape.width
    into = linear(rows, width, hidden)
    out = linear(rows, hidden, width, keeps=False)
    return (*(_of(number, into) for _ in range(2)), gated(rows * hidden), _of(number, out))


def _of(number: int, work: Operation) -> Operation:
    """The multiplication by `number` matrices, each for some of the rows."""
    return work._replace(weights=number * work.weights, gradients=number * work.gradients)


def _experts(name: str, shape: Shape, experts: Experts, seq: int) -> LayerWork:
    """A router chooses experts for each token. Tokens are copied to their experts, in the order of
    experts, and the results are added. All experts together are two tensors."""
    width, rows = shape.width, seq * experts.top
    copied = Operation(moved=(seq + rows) * width, moved_back=(seq + rows) * width)
    shared = _named(f"{name}.shared_experts", shape.mlp_matrices(experts.shared))
    *into, out = shape.mlp_matrices(experts.hidden)
    return LayerWork(
        name,
        (
            linear(seq, width, experts.number),
            activation(seq * experts.number),
            copied._replace(kept=rows * width),
            *_expanded(shape, experts.hidden, rows, experts.number),
            copied._replace(kept=rows * width),
            *(_expanded(shape, experts.shared, seq) if experts.shared else ()),
            *((addition(seq * width, keeps=False),) if experts.shared else ()),
            addition(seq * width),
        ),
        (
            (f"model.{name}.gate.weight", experts.number * width),
            (
                f"model.{name}.experts.gate_up_proj",
                experts.number * sum(matrix.parameters for matrix in into),
            ),
            (f"model.{name}.experts.down_proj", experts.number * out.parameters),
            *_tensors(shared if experts.shared else []),
        ),
    )


def _named(name: str, matrices: Iterable[Matrix]) -> list[tuple[str, int]]:
    return [(f"{name}.{NAMES[matrix.name]}", matrix.parameters) for matrix in matrices]


def _tensors(elements: Iterable[tuple[str, int]]) -> Tensors:
    return tuple((f"model.{name}.weight", size) for name, size in elements)
