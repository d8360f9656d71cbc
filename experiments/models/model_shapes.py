"""The shape of a transformer, its matrices and their parameters, and how a plan cuts it.

A shape knows nothing of time. A matrix of `inputs` x `outputs` elements costs 2 inputs x outputs
FLOPs for each token that passes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from math import gcd
from typing import Annotated, Any, Literal

from experiments.models.mixer_shapes import Experts, Latent, Mamba, WeightMatrix, window_keys
from experiments.models.recomputation import parse_graphs, parse_text
from experiments.option_text import parse_at_least, parse_ends, parse_imbalance, parse_within
from simulator.parallel.degrees import divisor
from topologies.errors import InputError

RMS_DECODER: Mapping[str, Any] = {"gated": True, "norm": "rms", "biases": False, "rotary": True}
"""A decoder like Llama: RMS norms, gated MLPs, rotary positions."""
Degree = Annotated[int, parse_at_least(1)]
Attention = Literal["unfused", "flash", "flash2", "flash3"]
Scaling = Literal["delayed", "current"]
Loss = Literal["fused", "eager", "compiled", "chunked"]
GRADIENTS = {"fp32": (4.0, 10.0), "bf16": (2.0, 6.0)}
"""Bytes of an element of a gradient, and those that move when gradients of micro-batches are
added."""


@dataclass(frozen=True)
class TransformerShape:
    """A transformer."""

    blocks: int
    """Blocks of attention and MLP. The usual name is layers."""
    width: int
    """Elements of a token between blocks. The usual name is hidden size."""
    heads: int
    kv_heads: int
    """Heads of keys and values. Each serves heads / kv_heads heads of queries."""
    head_size: int
    """Elements of a head's query, key and value. Those of latent attention are in `latent`."""
    hidden: int
    """Elements of a token inside an MLP."""
    vocabulary: int
    """Tokens that the model knows; classes of an image model."""
    kind: Literal["decoder", "encoder", "image"] = "decoder"
    """A decoder predicts tokens with causal attention. An encoder reads text in both directions and
    pools the first token. An image model reads patches and a class token."""
    gated: bool = False
    """Whether an MLP has a third matrix: activation(gate) x up, then down."""
    tied: bool = False
    """Whether the head is the table of tokens."""
    positions: int = 0
    """Learned positions; 0: rotary positions or ALiBi, which have no parameters."""
    segments: int = 0
    """Learned kinds of segments in a text (BERT)."""
    norm: Literal["layer", "rms"] = "layer"
    """The kind of norm. An RMS norm never has a bias."""
    biases: bool = True
    """Whether the matrices of blocks and the layer norms have biases."""
    head_norms: bool = False
    """Whether an RMS norm precedes the scores: of each head's query and key (Qwen3)."""
    rotary: bool = False
    """Whether queries and keys are rotated by their positions."""
    dropout: bool = False
    """Whether dropout follows the embedding, attention and MLP."""
    patch: int = 0
    """Elements of an image's patch: channels x side²."""
    experts: Experts | None = None
    latent: Latent | None = None
    window: int = 0
    """Tokens that a query of windowed attention sees, itself and those before it; 0: all."""
    period: int = 1
    """With a window: every so many-th block sees all tokens."""
    sinks: bool = False
    """Whether each head has a learned logit that takes a share of the softmax (GPT-OSS)."""
    pattern: str = ""
    """The blocks of a hybrid, a letter each, as Nemotron-H writes them: M Mamba-2, * attention,
    - MLP, E experts; further blocks begin anew. Empty: each block has attention, and then an MLP
    or experts."""
    mamba: Mamba | None = None

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise InputError(
                f"heads={self.heads} is no multiple of kv_heads={self.kv_heads}: write "
                f"kv_heads={divisor(self.heads, self.kv_heads)}"
            )
        if self.experts and self.experts.top > self.experts.number:
            raise InputError(
                f"a token passes {self.experts.top} of {self.experts.number} experts: write at "
                f"most {self.experts.number}"
            )

    @property
    def kinds(self) -> list[str]:
        """What each block consists of: letters of `pattern`, and w for windowed attention."""
        if self.pattern:
            return [*islice(cycle(self.pattern), self.blocks)]
        dense = self.experts.dense if self.experts else self.blocks
        return [
            ("w" if self.window and (number + 1) % self.period else "*")
            + ("-" if number < dense else "E")
            for number in range(self.blocks)
        ]

    @property
    def parts(self) -> Counter[str]:
        """How many parts of each kind all blocks have."""
        return Counter("".join(self.kinds))

    @property
    def attention_blocks(self) -> int:
        """Blocks with attention."""
        return self.parts["*"] + self.parts["w"]

    def seen(self, seq: int) -> float:
        """Keys that a query sees on average in all blocks together, in both directions, if a
        sequence has `seq` tokens."""
        return self.parts["*"] * seq + self.parts["w"] * window_keys(self.window, seq)

    @property
    def key_size(self) -> int:
        """Elements of a head's query and key."""
        return self.latent.nope + self.latent.rope if self.latent else self.head_size

    @property
    def value_size(self) -> int:
        """Elements of a head's value."""
        return self.latent.value if self.latent else self.head_size

    @property
    def attention_matrices(self) -> tuple[WeightMatrix, ...]:
        """The matrices of attention in a block."""
        latent, queries = self.latent, self.heads * self.key_size
        keys = self.kv_heads * self.head_size
        sizes = {"query": (self.width, queries)}
        if not latent:
            sizes["key"] = sizes["value"] = (self.width, keys)
        else:
            if latent.query_rank:
                sizes = {
                    "query_narrow": (self.width, latent.query_rank),
                    "query_wide": (latent.query_rank, queries),
                }
            sizes["key_narrow"] = (self.width, latent.key_rank + latent.rope)
            sizes["key_wide"] = (latent.key_rank, self.heads * (latent.nope + latent.value))
        sizes["output"] = (self.heads * self.value_size, self.width)
        return tuple(WeightMatrix(name, *size, self.biases) for name, size in sizes.items())

    def mlp_matrices(self, hidden: int, width: int = 0) -> tuple[WeightMatrix, ...]:
        """The matrices of an MLP or a shared expert with `hidden` elements inside, for tokens of
        `width` elements; 0: the usual ones."""
        up, width = ("gate", "up") if self.gated else ("up",), width or self.width
        return (
            *(WeightMatrix(name, width, hidden, self.biases) for name in up),
            WeightMatrix("down", hidden, width, self.biases),
        )

    @property
    def expert_width(self) -> int:
        """Elements of a token at an expert."""
        return (self.experts.latent if self.experts else 0) or self.width

    @property
    def expert_matrices(self) -> tuple[WeightMatrix, ...]:
        """The matrices of an expert; none if there are no experts."""
        hidden = self.experts.hidden if self.experts else 0
        return self.mlp_matrices(hidden, self.expert_width) if hidden else ()

    @property
    def head(self) -> WeightMatrix:
        """The matrix after the last block. An encoder pools one token with it, and an image model
        classifies one."""
        if self.kind == "encoder":
            return WeightMatrix("pooler", self.width, self.width, bias=True)
        return WeightMatrix("head", self.width, self.vocabulary, bias=self.kind == "image")

    @property
    def embedding(self) -> int:
        """Elements of the tables of tokens, positions and segments, and of the matrix of an image's
        patches."""
        rows = self.positions + self.segments + (0 if self.patch else self.vocabulary)
        patches = WeightMatrix("patches", self.patch, self.width, bias=True).parameters + self.width
        return rows * self.width + (patches if self.patch else 0)

    @property
    def attention(self) -> int:
        """Elements of the matrices of attention in a block, and of its sinks."""
        matrices = sum(matrix.parameters for matrix in self.attention_matrices)
        return matrices + self.heads * self.sinks

    def mlp(self, hidden: int) -> int:
        """Elements of an MLP or an expert with `hidden` elements inside; 0: there is none."""
        return sum(matrix.parameters for matrix in self.mlp_matrices(hidden)) if hidden else 0

    @property
    def multiplied(self) -> int:
        """Elements of the matrices in blocks, without those of routers."""
        routers = self.parts["E"] * self.experts.number * self.width if self.experts else 0
        ends = self.embedding + self.norms + self.head_parameters
        return self.parameters - ends - routers

    @property
    def norms(self) -> int:
        """Elements of all norms: one of a token before each part of a block, and another before the
        first block (encoder) or after the last."""
        elements = (self.parts.total() + 1) * self.width
        elements *= 2 if self.biases and self.norm == "layer" else 1
        narrow = self.latent.query_rank + self.latent.key_rank if self.latent else 0
        narrow += 2 * self.head_size * self.head_norms
        return elements + self.attention_blocks * narrow

    @property
    def head_parameters(self) -> int:
        """Elements of the matrix after the last block; 0 if it is the table of tokens once more."""
        return 0 if self.tied else self.head.parameters

    @property
    def parameters(self) -> int:
        """Elements of all parameters."""
        return self._parameters(self.experts.number if self.experts else 0)

    @property
    def active_parameters(self) -> int:
        """Elements of the parameters that a token passes: all but the experts that the router did
        not choose. Embedding and head count."""
        return self._parameters(self.experts.top if self.experts else 0)

    def _parameters(self, number: int) -> int:
        """Elements of all parameters with `number` experts in a block."""
        parts = self.parts
        total = self.embedding + self.norms + self.head_parameters
        total += self.attention_blocks * self.attention + parts["-"] * self.mlp(self.hidden)
        total += parts["M"] * self.mamba.parameters(self.width) if self.mamba else 0
        if experts := self.experts:
            inner = number * sum(matrix.parameters for matrix in self.expert_matrices)
            dense = self.mlp(experts.shared) + experts.dense_parameters(self.width)
            total += self.parts["E"] * (inner + dense)
        return total


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
    """Sequence parallel: whether norms and dropout are cut, too (Korthikanti, arXiv 2205.05198)."""
    recompute: Annotated[str, parse_text] = "none"
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
    now, for which they are read once more."""
    bf16_layers: Annotated[str, parse_ends] = ""
    """Below 16 bits: layers at both ends that multiply in bf16, like 1, or 1+4 at begin and end."""
    fp8_activations: bool = False
    """Whether gated MLPs keep the input of their activation in 8 bits for the backward."""
    grads: Literal["fp32", "bf16"] = "fp32"
    """The dtype of gradients."""
    compiled: bool = False
    """Whether torch.compile compiles the layers: with recompute=op they do not keep the output of
    the last product, which no backward needs."""
    eager: bool = False
    """Whether norms, rotations and gates run kernel by kernel, as in PyTorch without a compiler."""
    graphs: Annotated[str, parse_graphs] = "no"
    """What CUDA graphs launch: layers (yes), or modules, like attn+moe_router."""
    loss: Loss = "fused"
    """How the loss holds logits and their gradient: as Megatron-LM (fused), as PyTorch in fp32
    (eager), as torch.compile in 16 bits (compiled), or in 8 pieces of the batch (chunked)."""
    imbalance: Annotated[float, parse_imbalance] = 1.0
    """Tokens of the busiest rank of experts over the mean."""
    capacity: float = 0.0
    """Tokens of an expert over those of even routing: others are dropped, fewer filled; 0: all."""
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
