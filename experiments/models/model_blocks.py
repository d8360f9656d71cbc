"""The blocks of a transformer under a plan, in the order in which they run, and what they compute
again before the backward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.models import kernels as passes
from experiments.models.block_cut import BlockCut, modules_of, parse_recomputation
from experiments.models.device_times import DeviceTimes
from experiments.models.kernels import Event
from experiments.models.mixer_shapes import adapter_elements
from experiments.models.mixers import mixture, part
from experiments.models.model_shapes import TransformerShape
from experiments.models.transformer_blocks import Writer
from simulator.parallel.blocks import Block

PYTHON = 2.0
"""How much longer a launch takes in layers of experts, where loops over experts in Python come
between launches. Learnt from steps of Qwen3 that launches bind: 44 us beside B200, and 28 to 56 us
beside H100, by the release. So it is within a factor of 1.5. Steps with a capacity need no more
than other layers do."""
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
    if cut.graphs == "yes":
        times = replace(times, launch=0.0)
    writer = Writer(times, cut, shape, seq, routed)
    layers = _layers(writer)
    if times.narrow and any(ends := cut.wide_ends):
        wide, end = _layers(writer.wide), max(ends[0], shape.blocks - ends[1])
        layers = [*wide[: ends[0]], *layers[ends[0] : end], *wide[end:]]
    embedding = writer.block("embedding", writer.embedding(), shape.embedding / cut.tp)
    last = writer.norm() + writer.head()
    head = writer.block("head", last, shape.head_parameters / cut.tp + shape.width)
    if cut.lora:
        embedding, head = _frozen(embedding), _frozen(head)
    return [embedding, *layers, *_predictions(writer, layers[-1], head) * cut.mtp, head]


def _layers(writer: Writer) -> list[Block]:
    kinds = writer.shape.kinds
    blocks_of = {kind: _layer(writer, kind) for kind in dict.fromkeys(kinds)}
    return [blocks_of[kind] for kind in kinds]


def _predictions(writer: Writer, layer: Block, head: Block) -> list[Block]:
    """The blocks of multi-token prediction for a further token (DeepSeek-V3, arXiv 2412.19437,
    section 2.2): a matrix joins the normed tokens with the embedding of the next ones; then come a
    layer, and the head, whose matrix is that of the model."""
    tp, width = writer.cut.tp, writer.shape.width
    kept = 2 * writer.cut_nbytes
    product = writer.product(writer.tokens, width / tp, 2 * width, kept=kept, later=kept)
    events = [*writer.norm() * 2, *writer.entry(), product, *writer.exit()]
    joined = writer.block("mtp", events, 2 * width * width / tp + 2 * width)
    shared = replace(head, parameters=0.0 if writer.cut.lora else float(width), frozen=0.0)
    return [_frozen(joined) if writer.cut.lora else joined, layer, shared]


def _frozen(block: Block, adapters: float = 0.0, of_experts: float = 0.0) -> Block:
    """The block with frozen parameters, and with elements of adapters that are trained."""
    return replace(
        block,
        parameters=adapters,
        expert_parameters=of_experts,
        frozen=block.parameters,
        frozen_experts=block.expert_parameters,
    )


def _with_adapters(writer: Writer, kind: str, block: Block) -> Block:
    """A layer of which the adapters alone are trained."""
    shape, cut, of_experts, trained = writer.shape, writer.cut, 0.0, 0
    for letter in kind:
        if cut.adapters == "all" or letter in "*w":
            trained += adapter_elements(cut.lora, shape.part_matrices(letter))
            if letter == "E" and shape.experts:
                each = adapter_elements(cut.lora, shape.expert_matrices)
                of_experts = shape.experts.number * each / cut.ep / cut.expert_ranks
    return _frozen(block, trained / cut.tp, of_experts)


def _layer(writer: Writer, kind: str) -> Block:
    """A block with parts of a kind, as those of a shape."""
    shape, cut = writer.shape, writer.cut
    writer = replace(writer, window=shape.window if "w" in kind else 0)
    if "E" in kind and not cut.capacity:
        launch = PYTHON * writer.times.launch
        writer = replace(writer, times=replace(writer.times, launch=launch))
    whole, experts = _events(writer, kind), shape.experts if "E" in kind else None
    block = writer.block("experts" if experts else "layer", whole, *_elements(shape, cut, kind))
    words = _words(cut, kind, shape)
    if cut.lora:
        block = _with_adapters(writer, kind, block)
    if not words:
        return block
    kept, extra, again = block.kept, block.kept, list[Event]()
    if words == ("full",):
        again = whole[: len(whole) - (2 if cut.tp == 1 else 3)] if cut.stops else whole
        kept = writer.cut_nbytes
    elif words == ("op",):
        again, kept = _every_second_product(replace(writer, cut=replace(cut, lora=0)), kind)
        extra = max(0.0, extra - kept)
    else:
        parts = [_module(writer, kind, word) for word in words]
        again = [event for events, _ in parts for event in events]
        # The backward of a module holds what that module gives.
        kept, extra = kept - sum(nbytes for _, nbytes in parts), max(nbytes for _, nbytes in parts)
    seconds = passes.forward(again, writer.times.launch)
    return replace(block, again=seconds, kept=kept, working=block.working + extra)


def _events(writer: Writer, kind: str) -> list[Event]:
    """Each part has a norm before it."""
    return [event for letter in kind for event in (*writer.norm(), *part(writer, letter))]


def _elements(shape: TransformerShape, cut: BlockCut, kind: str) -> tuple[float, float]:
    """Elements of a rank's parameters of a block, and of its experts'."""
    elements, of_experts = float(len(kind) * shape.width), 0.0
    for letter in kind:
        elements += shape.part_parameters(letter) / cut.tp
        if letter == "E" and (experts := shape.experts):
            elements += experts.dense_parameters(shape.width)
            each = shape.expert_parameters
            of_experts = experts.number * each / cut.ep / cut.expert_ranks
    return elements, of_experts


def _words(cut: BlockCut, kind: str, shape: TransformerShape) -> tuple[str, ...]:
    """What a layer computes again."""
    words = parse_recomputation(cut.recompute).words
    modules = modules_of(shape, kind)
    if "moe" in words:
        modules -= {"moe_act", "shared_experts"}
    if "core_attn" in modules:
        modules.add("selective")
    return tuple(word for word in words if word in {*modules, "full", "op"})


def _module(writer: Writer, kind: str, word: str) -> Again:
    """What computing a module of Megatron-Core again takes and saves. Of a norm, an activation and
    the products after a narrow vector the output is not kept; of the others all but the input."""
    kept, experts = writer.cut_nbytes, writer.shape.experts
    if word in ("core_attn", "selective"):
        return [writer.core()], writer.scores
    if word == "layernorm":
        # Their outputs are the inputs of the first product of each part.
        first = [passes.computations(part(writer, letter))[0] for letter in kind]
        return writer.norm() * len(kind), _kept(first)
    if word == "mla_up_proj":
        return writer.expansion(), writer.queries_and_keys
    if word == "mlp" or not experts:
        events = writer.inner()[:-1]
        return events, _kept(events) - kept
    if word == "shared_experts":
        events = writer.shared(experts)
        return events, _kept(events)
    if word == "moe_act":
        _, activation, product = writer.expert_mlps(experts)
        return [activation], _kept([product])
    events = mixture(writer, experts)
    return events, _kept(events) - kept


def _kept(events: Sequence[Event]) -> float:
    return sum(kernel.kept for kernel in passes.computations(events))


def _every_second_product(writer: Writer, kind: str) -> Again:
    """torchtitan's selective recomputation per operator keeps the outputs of every other matrix, of
    attention and of reductions, and computes the rest again (`_get_custom_policy` in
    torchtitan/distributed/activation_checkpoint.py); grouped products of experts are in the rest.
    The second value is the bytes that it keeps."""
    shape, tp, rows = writer.shape, writer.cut.tp, writer.tokens
    experts, core = shape.experts if "E" in kind else None, writer.core()
    matrices = [matrix for letter in kind for matrix in shape.part_matrices(letter)]
    again = [*writer.entry() * len(kind)]
    for event in passes.computations(_events(writer, kind)):
        again += [event] if not event.weights and event != core else []
    kept = writer.cut_nbytes
    if kind[0] in "*w":
        kept += writer.tp_nbytes(shape.heads * shape.value_size)
    for place, matrix in enumerate(matrices):
        narrow = matrix.name in ("output", "down", "out")
        outputs, inputs = (1, tp) if narrow else (tp, 1)
        if place % 2:
            again.append(writer.product(rows, matrix.outputs / outputs, matrix.inputs / inputs))
        elif matrix.name != "down" or not writer.cut.compiled:
            kept += writer.cut_nbytes if narrow else writer.tp_nbytes(matrix.outputs)
    if experts:
        into, *_ = writer.expert_mlps(experts)
        again.append(into)
    return again, kept
