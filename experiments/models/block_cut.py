"""How a plan cuts the work and the matrices of a transformer among ranks, and what it computes
again before the backward, as the user writes it: full, full:12, op or core_attn+mlp."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, inf
from typing import Annotated, Literal, NamedTuple

from experiments.models.model_shapes import TransformerShape
from topologies.errors import InputError
from topologies.option_text import parse_at_least, parse_within
from topologies.units import parse_number

Degree = Annotated[int, parse_at_least(1)]
Attention = Literal["unfused", "flash", "flash2", "flash3"]
Scaling = Literal["delayed", "current", "rowwise"]
Loss = Literal["fused", "unfused", "eager", "compiled", "chunked"]
GRADIENTS = {"fp32": (4.0, 10.0), "bf16": (2.0, 6.0)}
"""Bytes of an element of a gradient, and those that move when gradients of micro-batches are
added."""


def _parse_imbalance(text: str) -> float:
    if (value := parse_number(text)) < 1:
        raise InputError("1 for even experts, or more")
    return value


def _parse_ends(text: str) -> str:
    if not re.fullmatch(r"\d{1,4}(\+\d{1,4})?", text, re.ASCII):
        raise InputError("a number of layers at both ends, like 1, or 1+4")
    return text


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
    etp: Degree = 0
    """Tensor parallel of experts: ranks that share each expert. By default tp."""
    sp: bool = False
    """Sequence parallel: whether norms and dropout are cut too (Korthikanti et al., arXiv
    2205.05198)."""
    recompute: Annotated[str, _parse_recompute] = "none"
    """What is computed again before the backward: nothing, the scores of attention (selective), the
    block (full), all but every other product (op), or modules, like layernorm+moe_act. full:12: in
    the first 12 layers of each stage; full/2: in every second one."""
    stops: bool = False
    """Whether computing a block again stops at the last operation whose inputs are needed, as
    PyTorch's checkpoint does that is not reentrant."""
    attention: Attention = "flash2"
    """The kernels of attention: unfused, or a version of FlashAttention."""
    context: Literal["ring", "gather", "ulysses"] = "ring"
    """How context parallel exchanges keys and values."""
    overlap_tp: bool = True
    """Whether the collectives of tensor parallel run beside the backward for weights."""
    overlap_ep: bool = False
    """Whether dispatch and combine of a micro-batch run beside computations of another one."""
    pieces: bool = False
    """Whether collectives of sequence parallel run in pieces beside the products next to them, as
    in Transformer Engine. Their first piece is not counted."""
    scaling: Scaling = "delayed"
    """With fp8: whether tensors are scaled by the largest element of steps before, or by that of
    now, for which they are read once more, or each row by its own, for each product anew."""
    bf16_layers: Annotated[str, _parse_ends] = ""
    """Below 16 bits: layers at both ends that multiply in bf16, like 1, or 1+4 at begin and end."""
    fp8_activations: bool = False
    """Whether gated MLPs keep the input of their activation in 8 bits for the backward."""
    grads: Literal["fp32", "bf16"] = "fp32"
    """The dtype of gradients."""
    compiled: bool = False
    """Whether torch.compile compiles the layers: with recompute=op they do not keep the output of
    the last product, which no backward needs."""
    merged: bool = True
    """Whether matrices with the same input are one product: queries, keys and values, and both in
    front of a gate."""
    eager: bool = False
    """Whether norms, rotations and gates run kernel by kernel, as in PyTorch without a compiler."""
    graphs: Annotated[str, parse_graphs] = "no"
    """What CUDA graphs launch: layers (yes), or modules, like attn+moe_router."""
    loss: Loss = "fused"
    """How the loss holds logits and their gradient: as Megatron-LM with fused kernels (fused) or
    without (unfused), as PyTorch in fp32 (eager), as torch.compile in 16 bits (compiled), or in 8
    pieces of the batch (chunked)."""
    imbalance: Annotated[float, _parse_imbalance] = 1.0
    """Tokens of the busiest rank of experts over the mean."""
    capacity: float = 0.0
    """Tokens of an expert, over those of even routing: the rest is dropped, and what is missing is
    filled. 0: each expert takes what comes."""
    dispatch: Literal["bf16", "fp8"] = "bf16"
    """The dtype in which tokens travel to experts. Results and gradients travel in bf16."""
    dispatcher: Literal["all_to_all", "deepep", "nvlink"] = "all_to_all"
    """What sends tokens to experts: an all-to-all, DeepEP, or kernels over NVLink."""
    dropout: bool = False
    """Whether dropout follows attention and MLP."""
    mtp: Annotated[int, parse_within(0, 16)] = 0
    """Further tokens that are predicted (multi-token prediction), each by a layer and the head in
    the last stage."""
    lora: Annotated[int, parse_at_least(0)] = 0
    """The rank of adapters beside frozen matrices (LoRA, arXiv 2106.09685); 0: all are trained."""
    adapters: Literal["attention", "all"] = "attention"
    """With `lora`: the matrices that have adapters, those of attention, or of MLPs and experts
    too."""

    @property
    def expert_ranks(self) -> int:
        """The ranks that share each expert."""
        return self.etp or self.tp

    @property
    def accumulated(self) -> float:
        """Bytes that move for each gradient of a weight when it is added to that of the
        micro-batches before."""
        return GRADIENTS[self.grads][1]

    @property
    def pads(self) -> bool:
        """Whether a vocabulary is padded, as Megatron-LM does, so that its size is even."""
        return self.loss == "fused"

    @property
    def reads_counts(self) -> bool:
        """Whether a device waits while the CPU reads how many tokens go to experts."""
        return not (self.capacity or self.hides_exchanges)

    @property
    def hides_exchanges(self) -> bool:
        """Whether another micro-batch computes beside dispatch and combine."""
        return self.overlap_ep

    @property
    def casts_weights(self) -> bool:
        """Whether each micro-batch casts weights. Otherwise the optimizer does once a step."""
        return False

    @property
    def keeps_casts(self) -> bool:
        """Whether the backward finds the inputs of products cast."""
        return True

    @property
    def holds_once(self) -> bool:
        """Whether frozen matrices are held in one layout alone, and transposed for a backward."""
        return False

    @property
    def wide_ends(self) -> tuple[int, int]:
        """The first and the last layers that multiply in bf16."""
        first, _, last = (self.bf16_layers or "0").partition("+")
        return int(first), int(last or first)

    def check(self, shape: TransformerShape, seq: int, name: str) -> None:
        """Raise InputError with what would be right if the shape cannot be cut so, with sequences
        of `seq` tokens."""
        experts = shape.experts.number if shape.experts else 0
        groups = shape.mamba.groups if shape.mamba else 0
        divided = (
            ("heads", shape.heads, "tp", self.tp),
            ("groups of Mamba-2", groups, "tp", self.tp),
            ("experts", experts, "ep", self.ep),
        )
        for kind, number, key, degree in divided:
            if number % degree:
                raise InputError(
                    f"{name} has {number} {kind}, which {key}={degree} does not divide: take "
                    f"{key}={gcd(number, degree)}"
                )
        if self.mtp and shape.kind != "decoder":
            raise InputError(f"{name} predicts no next token for mtp={self.mtp}: take mtp=0")
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
        if max(self.ep, self.etp) > 1 and not experts:
            key = "ep" if self.ep > 1 else "etp"
            raise InputError(f"{name} has no experts for {key}={getattr(self, key)}: take {key}=1")
        if experts and self.tp > 1 and not self.sp:
            raise InputError(f"{name} has experts: with tp={self.tp} take sp=yes")


WHOLE = ("none", "selective", "full", "op")
"""Words that stand alone."""
MODULES = ("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")
"""The modules that Megatron-Core can compute again (`--recompute-modules`)."""
GRAPHS = ("attn", "mamba", "mlp", "moe_router", "moe_preprocess")
"""The modules of Megatron-Core that can have a CUDA graph (`--cuda-graph-scope`)."""
_MODULE = f"(?:{'|'.join(MODULES)})"
_TEXT = re.compile(
    rf"none|({'|'.join(WHOLE[1:])}|{_MODULE}(?:\+{_MODULE})*)(?::(\d{{1,5}})|/([1-9]\d{{0,4}}))?",
    re.ASCII,
)


def modules_of(shape: TransformerShape, kind: str) -> set[str]:
    """The modules of `MODULES` that a layer of a kind has, as a shape has the kinds."""
    attends, experts = kind[0] in "*w", shape.experts if "E" in kind else None
    has = {
        "core_attn": attends,
        "layernorm": True,
        "mla_up_proj": attends and shape.latent,
        "mlp": "-" in kind,
        "moe": experts,
        "moe_act": experts,
        "shared_experts": experts and experts.shared,
    }
    return {module for module in MODULES if has[module]}


class Recomputation(NamedTuple):
    """What is computed again, and in which layers of a stage."""

    words: tuple[str, ...]
    """A word of `WHOLE`, or words of `MODULES`."""
    first: float = inf
    """How many layers of each stage, from its first one on (Megatron's method block)."""
    every: int = 1
    """In every so many-th layer of a stage (torchtitan's selective option)."""

    @property
    def is_partial(self) -> bool:
        """Whether some layers do not compute again."""
        return self.first < inf or self.every > 1

    def layers(self, count: int) -> list[bool]:
        """Whether each of the `count` layers of a stage computes again.

        >>> parse_recomputation("full/2").layers(5)
        [False, True, False, True, False]
        """
        return [number < self.first and (number + 1) % self.every == 0 for number in range(count)]


@lru_cache(maxsize=64)
def parse_recomputation(text: str) -> Recomputation:
    """What WORDS, WORDS:N or WORDS/N says: N layers of each stage, or every N-th one. Raises
    InputError."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise InputError(
            f"{', '.join(WHOLE)}, or modules joined by + ({', '.join(MODULES)}); then :12 for "
            "the first 12 layers of each stage, or /2 for every second layer"
        )
    words, first, every = match.groups(default="")
    return Recomputation(
        tuple(dict.fromkeys((words or "none").split("+"))),
        int(first) if first else inf,
        int(every or 1),
    )


def parse_graphs(text: str) -> str:
    """What CUDA graphs launch, as the user writes it. Raises InputError for other texts."""
    words = text.split("+")
    if text in ("no", "yes") or (set(words) <= {*GRAPHS} and len({*words}) == len(words)):
        return text
    raise InputError(f"yes, no, or modules joined by + ({', '.join(GRAPHS)})")


def _parse_recompute(text: str) -> str:
    """The text of a recomputation. Raises InputError unless it is one."""
    parse_recomputation(text)
    return text
