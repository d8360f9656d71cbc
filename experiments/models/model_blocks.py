"""The blocks of a transformer under a plan, in the order in which they run, and what they compute
again before the backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.models import kernels as passes
from experiments.models.device_times import DeviceTimes
from experiments.models.kernels import Event
from experiments.models.model_shapes import BlockCut, Experts, TransformerShape, WeightMatrix
from experiments.models.recomputation import parse_recomputation
from experiments.models.transformer_blocks import Writer
from simulator.parallel.blocks import Block

Again = tuple[list[Event], float]
"""Events that run again before the backward, and the bytes that they give, which are not kept."""


def blocks(
    shape: TransformerShape,
    seq: int,
    cut: BlockCut,
    times: DeviceTimes,
    name: str = "the model",
    *,
    routed: bool = False,
) -> list[Block]:
    """The blocks of a transformer in the order in which they run, for sequences of `seq` tokens:
    embedding, layers, head. Layers that are alike are the same object. If `routed`, a router says
    what each rank sends to each.

    Raises InputError, with what would be right, if the shape cannot be cut so.
    """
    cut.check(shape, seq, name)
    writer = Writer(times, cut, shape, seq, routed)
    dense, sparse = shape.blocks - shape.expert_blocks, shape.expert_blocks
    layers = [_layer(writer, None)] * dense if dense else []
    layers += [_layer(writer, shape.experts)] * sparse if sparse else []
    embedding = writer.block("embedding", writer.embedding(), shape.embedding / cut.tp)
    last = writer.norm() + writer.head()
    head = writer.block("head", last, shape.head_parameters / cut.tp + shape.width)
    if cut.lora:
        embedding, head = _frozen(embedding), _frozen(head)
    return [embedding, *layers, head]


def _frozen(block: Block, adapters: float = 0.0, of_experts: float = 0.0) -> Block:
    """The block with frozen parameters, and with elements of adapters that are trained."""
    return replace(
        block,
        parameters=adapters,
        expert_parameters=of_experts,
        frozen=block.parameters,
        frozen_experts=block.expert_parameters,
    )


def _adapters(rank: int, matrices: Sequence[WeightMatrix]) -> int:
    """Elements of the adapters of a part. Matrices of the same tokens, but for the last one, are
    one product and have an adapter together, as in Megatron-Bridge."""
    *into, last = matrices
    width = into[0].inputs
    merged = sum(matrix.outputs for matrix in into if matrix.inputs == width)
    single = [last, *(matrix for matrix in into if matrix.inputs != width)]
    return rank * (width + merged + sum(each.inputs + each.outputs for each in single))


def _with_adapters(writer: Writer, experts: Experts | None, block: Block) -> Block:
    """A layer of which the adapters alone are trained."""
    shape, cut, of_experts = writer.shape, writer.cut, 0.0
    trained = _adapters(cut.lora, shape.attention_matrices) / cut.tp
    hidden = experts.shared if experts else shape.hidden
    if cut.adapters == "all" and hidden:
        trained += _adapters(cut.lora, shape.mlp_matrices(hidden)) / cut.tp
    if cut.adapters == "all" and experts:
        each = _adapters(cut.lora, shape.mlp_matrices(experts.hidden))
        of_experts = experts.number * each / cut.ep / cut.expert_ranks
    return _frozen(block, trained, of_experts)


def _layer(writer: Writer, experts: Experts | None) -> Block:
    """A block of attention and MLP, or experts."""
    shape, cut = writer.shape, writer.cut
    whole = _events(writer, experts)
    parameters, of_experts = shape.attention / cut.tp + 2 * shape.width, 0.0
    if experts:
        parameters += experts.number * shape.width + shape.mlp(experts.shared) / cut.tp
        of_experts = experts.number * shape.mlp(experts.hidden) / cut.ep / cut.expert_ranks
    else:
        parameters += shape.mlp(shape.hidden) / cut.tp
    name = "experts" if experts else "layer"
    block, words = writer.block(name, whole, parameters, of_experts), _words(cut, experts, shape)
    if cut.lora:
        block = _with_adapters(writer, experts, block)
    if not words:
        return block
    kept, held, again = block.kept, block.kept, list[Event]()
    if words == ("full",):
        again = whole[: len(whole) - (2 if cut.tp == 1 else 3)] if cut.stops else whole
        kept = writer.cut_nbytes
    elif words == ("op",):
        again, kept = _every_second_product(replace(writer, cut=replace(cut, lora=0)), experts)
        held = max(0.0, held - kept)
    else:
        parts = [_module(writer, experts, word) for word in words]
        again = [event for events, _ in parts for event in events]
        # The backward of a module holds what that module gives.
        kept, held = kept - sum(nbytes for _, nbytes in parts), max(nbytes for _, nbytes in parts)
    seconds = passes.forward(again, writer.times.launch)
    return replace(block, again=seconds, kept=kept, working=block.working + held)


def _events(writer: Writer, experts: Experts | None) -> list[Event]:
    return writer.norm() + writer.attention() + writer.norm() + writer.inner(experts)


def _words(cut: BlockCut, experts: Experts | None, shape: TransformerShape) -> tuple[str, ...]:
    """What a layer computes again."""
    words = parse_recomputation(cut.recompute).words
    inside = experts and "moe" not in words
    has = {
        "none": False,
        "mlp": not experts,
        "moe": experts,
        "moe_act": inside,
        "shared_experts": inside and experts and experts.shared,
        "mla_up_proj": shape.latent,
    }
    return tuple(word for word in words if has.get(word, True))


def _module(writer: Writer, experts: Experts | None, word: str) -> Again:
    """What computing a module of Megatron-Core again takes and saves. Of a norm, an activation and
    the products after a narrow vector the output is not kept; of the others all but the input."""
    kept = writer.cut_nbytes
    if word in ("core_attn", "selective"):
        return [writer.core()], writer.scores
    if word == "layernorm":
        return writer.norm() * 2, 2 * kept
    if word == "mla_up_proj":
        return writer.expansion(), writer.queries_and_keys
    if word == "mlp" or not experts:
        events = writer.inner(None)[:-1]
        return events, _kept(events) - kept
    if word == "shared_experts":
        events = writer.shared(experts)
        return events, _kept(events)
    if word == "moe_act":
        _, activation, product = writer.expert_mlps(experts)
        return [activation], _kept([product])
    events = writer.mixture(experts)
    return events, _kept(events) - kept


def _kept(events: Sequence[Event]) -> float:
    return sum(kernel.kept for kernel in passes.computations(events))


def _every_second_product(writer: Writer, experts: Experts | None) -> Again:
    """torchtitan's selective recomputation per operator keeps the outputs of every other matrix, of
    attention and of reductions, and computes the rest again (`_get_custom_policy` in
    torchtitan/distributed/activation_checkpoint.py); grouped products of experts are in the rest.
    The second value is the bytes that it keeps."""
    shape, tp, rows = writer.shape, writer.cut.tp, writer.tokens
    hidden = experts.shared if experts else shape.hidden
    matrices = [*shape.attention_matrices, *(shape.mlp_matrices(hidden) if hidden else ())]
    core, whole = writer.core(), _events(writer, experts)
    again = [*writer.entry() * 2]
    again += [each for each in passes.computations(whole) if not each.weights and each != core]
    kept = writer.cut_nbytes + rows * shape.heads * shape.value_size / tp * writer.width
    for place, matrix in enumerate(matrices):
        narrow = matrix.name in ("output", "down")
        outputs, inputs = (1, tp) if narrow else (tp, 1)
        if place % 2:
            again.append(writer.product(rows, matrix.outputs / outputs, matrix.inputs / inputs))
        elif matrix.name != "down" or not writer.cut.compiled:
            kept += writer.cut_nbytes if narrow else rows * matrix.outputs / tp * writer.width
    if experts:
        into, *_ = writer.expert_mlps(experts)
        again.append(into)
    return again, kept
