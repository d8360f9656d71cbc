"""How a transformer is cut and computed: what a plan says about its blocks."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd
from typing import Literal

from experiments.models.device_times import Attention
from experiments.models.model_shapes import Experts, Shape
from topologies.errors import InputError

Recompute = Literal["none", "selective", "full"]
Context = Literal["ring", "gather", "ulysses"]
Dispatch = Literal["bf16", "fp8"]


@dataclass(frozen=True)
class Cut:
    """How a micro-batch and the matrices of a transformer are cut."""

    seq: int
    """Tokens of a sequence."""
    micro: int = 1
    """Sequences of a micro-batch."""
    tp: int = 1
    """Ranks that share each matrix (Shoeybi et al., arXiv 1909.08053)."""
    cp: int = 1
    """Ranks that share each sequence."""
    ep: int = 1
    """Ranks that share the experts."""
    sp: bool = False
    """Whether norms and dropout are cut too: sequence parallel (Korthikanti et al., arXiv
    2205.05198)."""
    recompute: Recompute = "none"
    """What is computed again before the backward: nothing, the scores of attention, or the whole
    block."""
    stops: bool = False
    """Whether computing a block again stops at the last operation whose inputs are needed, as
    PyTorch's checkpoint does that is not reentrant."""
    attention: Attention = "flash2"
    """The kernels of attention: unfused, or a version of FlashAttention."""
    context: Context = "ring"
    """How context parallel exchanges keys and values."""
    overlap_tp: bool = True
    """Whether the collectives of tensor parallel run beside the backward for weights."""
    pieces: bool = False
    """Whether collectives of sequence parallel run in pieces beside the products next to them, as
    in Transformer Engine. Their first piece is not counted."""
    accumulated: float = 10.0
    """Bytes that move for each gradient of a weight when it is added to that of the micro-batches
    before: 10 for a sum in fp32, 6 for one in 16 bits."""
    dropout: bool = False
    """Whether dropout follows attention and MLP."""
    capacity: float = 0.0
    """Tokens of an expert, over those of even routing: the rest is dropped, and what is missing is
    filled. 0: each expert takes what comes."""
    imbalance: float = 1.0
    """Tokens of the busiest rank of experts over the mean."""
    dispatch: Dispatch = "bf16"
    """The dtype in which tokens travel to experts. Results and gradients travel in bf16."""
    routed: bool = False
    """Whether a router says what each rank sends to each. Then dispatch and combine are collectives
    of their own. Otherwise they are even, and as large as those of the busiest rank."""

    def check(self, shape: Shape, name: str) -> None:
        """Raise InputError with what would be right if the shape cannot be cut so."""
        if shape.heads % self.tp:
            raise InputError(
                f"{name} has {shape.heads} heads, which tp={self.tp} does not divide: take "
                f"tp={gcd(shape.heads, self.tp)}"
            )
        if self.sp and self.seq % (self.tp * self.cp):
            raise InputError(
                f"sp cuts sequences of {self.seq} tokens in tp x cp = {self.tp * self.cp}, which "
                f"does not divide them: take tp={gcd(self.seq // self.cp, self.tp)} or sp=no"
            )
        if self.cp > 1 and self.seq % (2 * self.cp):
            raise InputError(
                f"cp={self.cp} cuts sequences of {self.seq} tokens in {2 * self.cp} parts: take a "
                f"seq that is a multiple of {2 * self.cp}"
            )
        heads = shape.kv_heads // gcd(shape.kv_heads, self.tp)
        if self.context == "ulysses" and heads % self.cp:
            raise InputError(
                f"ulysses scatters {heads} heads of keys over cp={self.cp} ranks: take "
                f"cp={gcd(heads, self.cp)} or context=ring"
            )
        if self.ep > 1 and not shape.experts:
            raise InputError(f"{name} has no experts for ep={self.ep}: take ep=1")
        if shape.experts and shape.experts.number % self.ep:
            raise InputError(
                f"{name} has {shape.experts.number} experts, which ep={self.ep} does not divide: "
                f"take ep={gcd(shape.experts.number, self.ep)}"
            )
        if shape.experts and self.tp > 1 and not self.sp:
            raise InputError(f"{name} has experts: with tp={self.tp} take sp=yes")

    @property
    def tokens(self) -> float:
        """Tokens of a rank in a micro-batch. Ranks of a tensor-parallel group share them."""
        return self.micro * self.seq / self.cp

    def arriving(self, experts: Experts) -> float:
        """Tokens that arrive at the experts of the busiest rank of a micro-batch. A token counts as
        often as there are experts that it passes."""
        even = self.tokens * experts.top
        if not self.capacity:
            return even * self.imbalance
        slots = ceil(even / experts.number * self.capacity)
        return float(slots * experts.number)
