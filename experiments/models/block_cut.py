"""How a transformer is cut and computed: the keys of a plan that its blocks depend on."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Annotated, Literal

from experiments.models.device_times import Attention
from experiments.models.model_shapes import TransformerShape
from experiments.option_text import parse_at_least
from topologies.errors import InputError
from topologies.units import parse_number

Recompute = Literal["none", "selective", "full"]
Degree = Annotated[int, parse_at_least(1)]
GRADIENTS = {"fp32": (4.0, 10.0), "bf16": (2.0, 6.0)}
"""Bytes of an element of a gradient, and those that move when gradients of micro-batches are
added."""


def _parse_imbalance(text: str) -> float:
    if (value := parse_number(text)) < 1:
        raise InputError("1 for even experts, or more")
    return value


@dataclass(frozen=True)
class BlockCut:
    """How a micro-batch and the matrices of a transformer are cut. Its fields are keys of a plan,
    and their types say what reads them."""

    micro: Degree = 1
    """Sequences of a micro-batch."""
    tp: Degree = 1
    """Tensor parallel: ranks that share each matrix (Shoeybi et al., arXiv 1909.08053)."""
    cp: Degree = 1
    """Context parallel: ranks that share each sequence."""
    ep: Degree = 1
    """Expert parallel: ranks that share the experts."""
    sp: bool = False
    """Sequence parallel: whether norms and dropout are cut too (Korthikanti et al., arXiv
    2205.05198)."""
    recompute: Recompute = "none"
    """What is computed again before the backward: nothing, the scores of attention (selective), or
    the whole block (full)."""
    stops: bool = False
    """Whether computing a block again stops at the last operation whose inputs are needed, as
    PyTorch's checkpoint does that is not reentrant."""
    attention: Attention = "flash2"
    """The kernels of attention: unfused, or a version of FlashAttention."""
    context: Literal["ring", "gather", "ulysses"] = "ring"
    """How context parallel exchanges keys and values."""
    overlap_tp: bool = True
    """Whether the collectives of tensor parallel run beside the backward for weights."""
    pieces: bool = False
    """Whether collectives of sequence parallel run in pieces beside the products next to them, as
    in Transformer Engine. Their first piece is not counted."""
    grads: Literal["fp32", "bf16"] = "fp32"
    """The dtype of gradients."""
    imbalance: Annotated[float, _parse_imbalance] = 1.0
    """Tokens of the busiest rank of experts over the mean."""
    capacity: float = 0.0
    """Tokens of an expert, over those of even routing: the rest is dropped, and what is missing is
    filled. 0: each expert takes what comes."""
    dispatch: Literal["bf16", "fp8"] = "bf16"
    """The dtype in which tokens travel to experts. Results and gradients travel in bf16."""
    dropout: bool = False
    """Whether dropout follows attention and MLP."""

    @property
    def accumulated(self) -> float:
        """Bytes that move for each gradient of a weight when it is added to that of the
        micro-batches before."""
        return GRADIENTS[self.grads][1]

    def check(self, shape: TransformerShape, seq: int, name: str) -> None:
        """Raise InputError with what would be right if the shape cannot be cut so, with sequences
        of `seq` tokens."""
        experts = shape.experts.number if shape.experts else 0
        divided = ("heads", shape.heads, "tp", self.tp), ("experts", experts, "ep", self.ep)
        for kind, number, key, degree in divided:
            if number % degree:
                raise InputError(
                    f"{name} has {number} {kind}, which {key}={degree} does not divide: take "
                    f"{key}={gcd(number, degree)}"
                )
        if self.sp and seq % (self.tp * self.cp):
            raise InputError(
                f"sp cuts sequences of {seq} tokens in tp x cp = {self.tp * self.cp}, which does "
                f"not divide them: take tp={gcd(seq // self.cp, self.tp)} or sp=no"
            )
        if self.cp > 1 and seq % (2 * self.cp):
            raise InputError(
                f"cp={self.cp} cuts sequences of {seq} tokens in {2 * self.cp} parts: take a seq "
                f"that is a multiple of {2 * self.cp}"
            )
        heads = shape.kv_heads // gcd(shape.kv_heads, self.tp)
        if self.context == "ulysses" and heads % self.cp:
            raise InputError(
                f"ulysses scatters {heads} heads of keys over cp={self.cp} ranks: take "
                f"cp={gcd(heads, self.cp)} or context=ring"
            )
        if self.ep > 1 and not experts:
            raise InputError(f"{name} has no experts for ep={self.ep}: take ep=1")
        if experts and self.tp > 1 and not self.sp:
            raise InputError(f"{name} has experts: with tp={self.tp} take sp=yes")
