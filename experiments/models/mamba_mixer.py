"""The parts of blocks as events, and the Mamba-2 mixer among them."""

from __future__ import annotations

from dataclasses import replace

from experiments.models.expert_mixture import mixture
from experiments.models.kernels import Computation, Event, Gate
from experiments.models.mixer_shapes import Mamba
from experiments.models.transformer_blocks import WIDE, Writer


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
