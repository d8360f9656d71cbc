"""The parts of blocks as events, among them mixtures of experts and the Mamba-2 mixer."""

from __future__ import annotations

from dataclasses import replace

from experiments.models.accelerators import NARROW
from experiments.models.kernels import Computation, Event, Gate
from experiments.models.mixer_shapes import Experts, Mamba
from experiments.models.transformer_blocks import WIDE, Writer

ROUTING = {"moe_router": (15, 12), "moe_preprocess": (9, 0), "": (6, 8)}
"""Kernels of the forward and of the backward around a router's product, by the module that has
them: scores, the largest ones, and the loss that balances experts; tokens of each expert, which
ranks gather and the CPU reads; places and weights of tokens in each sort. Counted in router.py,
moe_utils.py and token_dispatcher.py of megatron/core/transformer/moe."""


def part(writer: Writer, letter: str) -> list[Event]:
    """A part of a block, by its letter in the kinds of a shape."""
    shape = writer.shape
    if letter == "M":
        return writer.graphed("mamba", mamba(writer))
    if letter == "-":
        return writer.graphed("mlp", writer.inner())
    if letter == "E" and shape.experts:
        return mixture(writer, shape.experts) + writer.residual()
    window = shape.window if letter == "w" else 0
    return writer.graphed("attn", replace(writer, window=window).attention())


def mixture(writer: Writer, experts: Experts) -> list[Event]:
    """A router, experts, and the shared experts beside them."""
    shape, cut, width = writer.shape, writer.cut, writer.width
    tokens = writer.tokens / cut.tp
    sent = tokens * experts.top * shape.expert_width * width
    copies = writer.arriving(experts) * shape.expert_width * width
    to_experts, back = _exchange(writer, experts, sent)
    if cut.expert_ranks > 1:
        group = "tp" if cut.expert_ranks == cut.tp else "etp"
        to_experts.append(Gate(group, "all_gather", "reduce_scatter", copies))
        back.insert(0, Gate(group, "reduce_scatter", "all_gather", copies))
    # Tokens are sorted by their experts before an all-to-all, and so are those that it brings from
    # several ranks. Other kernels take them as they are.
    sorts = cut.ep == 1 or cut.dispatcher == "all_to_all"
    by_rank = [writer.memory(2 * sent, 2 * sent)] if sorts else []
    resorts = cut.ep > 1 and (experts.number > cut.ep or not sorts)
    by_expert = [writer.memory(2 * copies, 2 * copies)] if resorts else []
    events = [
        *_router(writer, experts, tokens),
        *by_rank,
        *to_experts,
        *by_expert,
        *writer.expert_mlps(experts),
        *by_expert,
        *back,
        *by_rank,
    ]
    if experts.latent:
        # The input of the first matrix is that of the router, which is kept.
        narrow = tokens * experts.latent * width
        first = writer.product(tokens, experts.latent, shape.width, later=narrow)
        last = writer.product(tokens, shape.width, experts.latent, kept=narrow, later=narrow)
        events = [events[0], first, *events[1:], last]
    return [*events, *(writer.shared(experts) if experts.shared else ())]


def _router(writer: Writer, experts: Experts, tokens: float) -> list[Event]:
    """The product of a router, and the kernels around it that move next to nothing."""
    kept, width = writer.cut_nbytes, writer.shape.width
    scores = writer.wide.product(tokens, experts.number, width, kept=kept, later=kept)
    events = writer.graphed("moe_router", [scores])
    for module, (kernels, back) in ROUTING.items():
        if module != "moe_preprocess" or not writer.cut.capacity:
            small = Computation(kernels=kernels, kernels_back=back)
            events += writer.graphed(module, [small])
    return events


def _exchange(writer: Writer, experts: Experts, sent: float) -> tuple[list[Event], list[Event]]:
    """What brings tokens, `sent` bytes in all copies, to experts of other ranks, and back."""
    cut = writer.cut
    if cut.ep == 1:
        return [], []
    is_named = writer.routed or cut.dispatcher != "all_to_all"
    dispatch, combine = ("dispatch", "combine") if is_named else ("all_to_all", "all_to_all")
    each = sent if writer.routed else sent * (writer.arriving(experts) / writer.even(experts))
    # As in DeepEP.
    small = NARROW["fp8_block"] / writer.width if cut.dispatch == "fp8" else 1.0
    gate = Gate("ep", combine, dispatch, each, hidden=cut.hides_exchanges)
    first = gate._replace(forward=dispatch, back="", nbytes=each * small, counted=cut.reads_counts)
    return [first, gate._replace(forward="", back=combine)], [gate]


def mamba(writer: Writer) -> list[Event]:
    """A product, a convolution, the scan, a gated norm, a product, and the sum (Dao and Gu, arXiv
    2405.21060, figure 6). Tensor parallel cuts heads, and context parallel exchanges tokens for
    heads, as in Megatron-LM."""
    shape, tp, rows = writer.shape, writer.cut.tp, writer.tokens
    mixer = shape.mamba
    assert mixer is not None
    before, after = mixer.matrices(shape.width)
    inner, kept = mixer.inner / tp, writer.cut_nbytes
    wide, read, values = map(writer.tp_nbytes, (before.outputs, mixer.convolved, mixer.inner))
    shared = writer.cut.cp > 1
    return [
        *writer.entry(),
        writer.product(
            rows, before.outputs / tp, before.inputs, kept=kept, later=kept + wide, part="mamba"
        ),
        *([Gate("cp", "all_to_all", "all_to_all", wide)] if shared else []),
        writer.memory(2 * read, 4 * read),
        _scan(writer, mixer, 2 * read + values, wide),
        writer.memory(3 * values, 6 * values),
        *([Gate("cp", "all_to_all", "all_to_all", values)] if shared else []),
        writer.product(rows, after.outputs, inner, kept=values, later=values, part="mamba"),
        *writer.exit(),
        *writer.residual(),
    ]


def _scan(writer: Writer, mixer: Mamba, moved: float, kept: float) -> Computation:
    """The scan of a rank's heads in five kernels, which move states in fp32 at the end of each
    chunk. Its products are those of section 6 of the paper: scores of a chunk, and for each head
    their sums, states and outputs. The backward computes states again, which attention does with
    scores: 2.5 times the forward."""
    times, tp, rows = writer.times, writer.cut.tp, writer.tokens
    states = rows / mixer.chunk * mixer.inner * mixer.state / tp * WIDE
    forward = (
        times.product(rows * mixer.groups / tp, mixer.chunk, mixer.state)
        + times.product(rows * mixer.heads / tp, mixer.head_size, mixer.chunk + 2 * mixer.state)
        + times.memory(moved + 3 * states)
    )
    return Computation(forward, 2.5 * forward, kernels=5, kernels_back=10, kept=kept)
