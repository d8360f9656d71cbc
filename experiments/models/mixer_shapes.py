"""What blocks of transformers consist of: matrices, experts, latent attention and Mamba-2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


def window_keys(window: int, seq: int) -> float:
    """Keys that a query sees on average in both directions, of which a causal one sees half, in a
    window.

    >>> window_keys(8192, 8192)
    8192.0
    """
    most = min(window, seq)
    return 2.0 * most - most * most / seq


class WeightMatrix(NamedTuple):
    """A matrix that multiplies tokens."""

    name: str
    inputs: int
    """Elements of a token before it."""
    outputs: int
    """Elements of a token after it."""
    bias: bool = False
    """Whether it adds a vector of `outputs` elements."""

    @property
    def parameters(self) -> int:
        """Elements of the matrix and its bias."""
        return self.inputs * self.outputs + self.bias * self.outputs


def adapter_elements(rank: int, matrices: Sequence[WeightMatrix]) -> int:
    """Elements of the adapters of a part (LoRA, Hu et al., arXiv 2106.09685). Matrices of the same
    tokens, but for the last one, are one product and have an adapter together, as in
    Megatron-Bridge."""
    if not matrices:
        return 0
    *into, last = matrices
    width = into[0].inputs
    merged = sum(matrix.outputs for matrix in into if matrix.inputs == width)
    single = [last, *(matrix for matrix in into if matrix.inputs != width)]
    return rank * (width + merged + sum(each.inputs + each.outputs for each in single))


@dataclass(frozen=True)
class Experts:
    """A mixture of experts, in place of the MLP of a block."""

    number: int
    """Experts that a router chooses from."""
    top: int
    """Experts that a token passes."""
    hidden: int
    """Elements of a token inside an expert."""
    shared: int = 0
    """Elements of a token inside the shared experts together; 0: there is none."""
    dense: int = 0
    """First blocks of the model that have an MLP instead of experts."""
    latent: int = 0
    """Elements of a token on its way to experts, which a matrix makes before and another takes back
    (LatentMoE of Nemotron 3); 0: all of them."""

    def latent_matrices(self, width: int) -> tuple[WeightMatrix, ...]:
        """The matrices before and after latent experts; none for others."""
        sizes = {"latent_in": (width, self.latent), "latent_out": (self.latent, width)}
        return tuple(WeightMatrix(name, *size) for name, size in sizes.items() if self.latent)

    def dense_parameters(self, width: int) -> int:
        """Elements of the router and of the matrices around latent experts."""
        matrices = sum(matrix.parameters for matrix in self.latent_matrices(width))
        return self.number * width + matrices


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): queries, and keys with values,
    pass a narrow vector."""

    query_rank: int
    """Elements of the narrow vector of a token's queries; 0: queries have none."""
    key_rank: int
    """Elements of the narrow vector of a token's keys and values."""
    nope: int
    """Elements of a head's query and key without a position."""
    rope: int
    """Elements of a head's query with a rotary position; all heads share this part of a key."""
    value: int
    """Elements of a head's value."""


@dataclass(frozen=True)
class Mamba:
    """A Mamba-2 mixer (Dao and Gu, arXiv 2405.21060), in place of attention."""

    heads: int
    head_size: int
    """Elements of a head's token."""
    state: int
    """Elements of the state for each element of a head."""
    groups: int
    """Groups of heads that share what writes and reads their states."""
    kernel: int = 4
    """Tokens that the convolution sees."""
    chunk: int = 128
    """Tokens of a chunk, inside which the scan is a product of matrices."""

    @property
    def inner(self) -> int:
        """Elements of all heads."""
        return self.heads * self.head_size

    @property
    def convolved(self) -> int:
        """Elements of a token that are convolved: those of heads, and those that write and read
        states."""
        return self.inner + 2 * self.groups * self.state

    @property
    def scan(self) -> int:
        """Multiplications of the scan for a token, which section 6 of the paper counts: scores of a
        chunk, and for each head their sums, states and outputs."""
        inside = self.chunk * (self.groups * self.state + self.inner)
        return inside + 2 * self.inner * self.state

    def matrices(self, width: int) -> tuple[WeightMatrix, WeightMatrix]:
        """The matrices before and after the scan: gates, what is convolved, and a time step for
        each head."""
        outputs = self.inner + self.convolved + self.heads
        return WeightMatrix("in", width, outputs), WeightMatrix("out", self.inner, width)

    def parameters(self, width: int) -> int:
        """Elements of matrices, convolution with its bias, norm, and three numbers of each head."""
        matrices = sum(matrix.parameters for matrix in self.matrices(width))
        return matrices + (self.kernel + 1) * self.convolved + self.inner + 3 * self.heads
