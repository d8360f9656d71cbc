"""A transformer as blocks of a plan of parallel training: parts with seconds and collectives.

Blocks keep the activations of Korthikanti et al., arXiv 2205.05198, table 2: sbh(34 + 5as/h) bytes
for a block of a GPT in 16 bits with dropout, of which 10sbh are not cut by tensor parallel alone;
2sbh if all is computed again. What the backward for weights needs, 32sbh, is from Zero Bubble (Qi
et al., arXiv 2401.10241, table 1).

Tensor parallel cuts matrices as Megatron-LM does: an all-reduce after attention and one after the
MLP, in the forward and in the backward. Sequence parallel makes each a reduce-scatter and an
all-gather of the same bytes. Context parallel sends keys and values round a ring, gathers them, or
scatters heads (Ulysses). Tokens reach their experts by an all-to-all and return by another.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from experiments.models import kernels as passes
from experiments.models.kernel_times.attention import AttentionSizes
from experiments.models.kernels import Computation, Event, Gate, Kernels, Ring
from experiments.models.mixer_shapes import Experts
from experiments.models.model_shapes import TransformerShape
from experiments.models.separate_kernels import (
    FUSED_HEADS,
    FUSED_LENGTH,
    GATE,
    LOSSES,
    REPETITION,
    RMS_NORM,
    ROTATION,
    SHARDED_LOSS,
    SOFTMAX,
    UNFUSED_BATCH,
    UNFUSED_EMBEDDING_BACK,
    UNFUSED_MASKS,
    UNFUSED_PART_BACK,
)
from simulator.parallel.blocks import Block

WIDE = 4.0
"""Bytes of an element of what is computed in fp32."""


@dataclass(frozen=True)
class Writer(Kernels):
    """Writes the blocks of a shape that is cut, for sequences of `seq` tokens."""

    shape: TransformerShape
    seq: int
    routed: bool = False
    """Whether a router says what each rank sends to each. Then dispatch and combine are collectives
    of their own. Otherwise they are even, and as large as those of the busiest rank."""
    window: int = 0
    """Tokens that a query sees; 0: all."""

    @property
    def tokens(self) -> float:
        """Tokens of a rank in a micro-batch. Ranks of a tensor-parallel group share them."""
        return self.cut.micro * self.seq / self.cut.cp

    @property
    def nbytes(self) -> float:
        """Bytes of all tokens of a rank between blocks."""
        return self.tokens * self.shape.width * self.width

    @property
    def cut_nbytes(self) -> float:
        """Bytes of a rank's tokens where norms are."""
        return self.nbytes / (self.cut.tp if self.cut.sp else 1)

    def tp_nbytes(self, elements: float) -> float:
        """Bytes of so many elements of each token of a rank, which tensor parallel cuts."""
        return self.tokens * elements / self.cut.tp * self.width

    def entry(self) -> list[Event]:
        """The begin of a part that tensor parallel cuts."""
        return self._gate(("", "all_reduce"), ("all_gather", "reduce_scatter"), kept=False)

    def exit(self) -> list[Event]:
        """The end of a part that tensor parallel cuts."""
        return self._gate(("all_reduce", ""), ("reduce_scatter", "all_gather"))

    def _gate(
        self, whole: tuple[str, str], sequence: tuple[str, str], *, kept: bool = True
    ) -> list[Event]:
        """Collectives of the forward and of the backward on whole tokens, or on those that sequence
        parallel cuts; none without tensor parallel."""
        if self.cut.tp == 1:
            return []
        if not self.cut.sp:
            return [Gate("tp", *whole, self.nbytes)]
        return [Gate("tp", *sequence, self.nbytes, self.cut.pieces, self.wire, kept)]

    def norm(self) -> list[Event]:
        """A norm: its input is read and its output written; backward for inputs and weights."""
        if self.cut.eager and self.shape.norm == "rms":
            return [self.separate(RMS_NORM, self.cut_nbytes)]
        return [self.memory(2 * self.cut_nbytes, 5 * self.cut_nbytes, kept=self.cut_nbytes)]

    def residual(self) -> list[Event]:
        """The sum with the block's input, after dropout if there is some. Its gradient is kept for
        the weights of the product before it."""
        nbytes, mask = self.cut_nbytes, self.mask
        kernel = self.memory(3 * nbytes + mask, 2 * nbytes + mask, kept=mask)
        more = UNFUSED_PART_BACK if self.cut.loss == "unfused" else 0
        return [kernel._replace(later=nbytes, kernels_back=1 + more)]

    @property
    def mask(self) -> float:
        """Bytes of the mask of a dropout: one for an element."""
        return self.cut_nbytes / self.width if self.cut.dropout else 0.0

    def graphed(self, module: str, events: list[Event]) -> list[Event]:
        """The events of a module, without launches if a CUDA graph has its kernels."""
        if module not in self.cut.graphs.split("+"):
            return events
        return [
            event._replace(kernels=0, kernels_back=0) if isinstance(event, Computation) else event
            for event in events
        ]

    def attention(self) -> list[Event]:
        """Queries, keys and values, attention, its output, and the sum."""
        shape, tp, rows = self.shape, self.cut.tp, self.tokens
        *before, after = shape.attention_matrices
        shared = 1 if shape.latent else tp
        wide = [each.outputs / shared for each in before if each.inputs == shape.width]
        first = self.product(
            rows,
            wide,
            shape.width,
            kept=self.cut_nbytes,
            later=self.cut_nbytes + self.queries_and_keys,
            part="attention",
        )
        values, inner = self.tp_nbytes(after.inputs), after.inputs / tp
        return [
            *self.entry(),
            first,
            *self.expansion(),
            *self._context(),
            self.product(rows, after.outputs, inner, kept=values, later=values, part="attention"),
            *self.exit(),
            *self.residual(),
        ]

    def expansion(self) -> list[Event]:
        """The products after the narrow vectors of latent attention. Then queries, keys and values
        are cut apart, transposed, and rotated."""
        shape, tp, rows = self.shape, self.cut.tp, self.tokens
        later = [each for each in shape.attention_matrices[:-1] if each.inputs != shape.width]
        moved = (4 if shape.rotary else 2) * self._moved
        products = [
            self.product(rows, matrix.outputs / tp, matrix.inputs, part="attention")
            for matrix in later
        ]
        if self.cut.eager and shape.rotary and not shape.latent:
            copied = (shape.heads > shape.kv_heads) * 2 * (shape.heads + shape.kv_heads)
            copies = self.separate(REPETITION, self.tp_nbytes(copied * shape.key_size))
            return [*products, self.separate(ROTATION, self._rotated), copies]
        return [*products, self.memory(moved, moved)]

    @property
    def _moved(self) -> float:
        """Bytes of queries, and of keys and values of all heads that have them."""
        return self.tp_nbytes(self.shape.heads * self.shape.key_size + 2 * self._keys)

    @property
    def queries_and_keys(self) -> float:
        """Bytes of the queries, keys and values of a rank."""
        shape = self.shape
        queries = shape.heads * shape.key_size
        return self.tp_nbytes(queries + shape.kv_heads * (shape.key_size + shape.value_size))

    @property
    def _rotated(self) -> float:
        """Bytes of queries and keys after the rotation. Values stay in the output of the product,
        which is kept whole."""
        shape, rotary = self.shape, self.shape.rotary and not self.shape.latent
        return self.tp_nbytes((shape.heads + shape.kv_heads) * shape.key_size * rotary)

    @property
    def _keys(self) -> float:
        shape = self.shape
        return (shape.heads if shape.latent else shape.kv_heads) * shape.key_size

    def _context(self) -> list[Event]:
        core, cp = self.core(), self.cut.cp
        if cp == 1:
            return [core]
        latent = self.shape.latent
        pair = latent.key_rank + latent.rope if latent else 2 * self._keys / self.cut.tp
        keys = self.tokens * pair * self.width
        if self.cut.context == "ring":
            return [Ring("cp", core, cp, keys)]
        if self.cut.context == "gather":
            # Gathered keys and values are not kept: the backward gathers them again.
            first = Gate("cp", "all_gather", "reduce_scatter", cp * keys)
            return [first, core, Gate("cp", "", "all_gather", cp * keys)]
        values = self.tp_nbytes(self.shape.heads * self.shape.value_size)
        return [
            Gate("cp", "all_to_all", "all_to_all", self._moved),
            core,
            Gate("cp", "all_to_all", "all_to_all", values),
        ]

    def core(self) -> Computation:
        """Scores, softmax and values of a rank's heads."""
        shape, cut, times = self.shape, self.cut, self.times.wide
        heads = cut.micro * shape.heads / cut.tp
        rows, columns = self.seq / cut.cp, float(self.seq)
        kept = self.queries_and_keys + self._rotated + self.scores
        if cut.attention != "unfused":
            sizes = AttentionSizes(
                cut.micro,
                shape.heads / cut.tp,
                self._keys / shape.key_size / cut.tp,
                (shape.key_size + shape.value_size) / 2,
                rows,
                columns,
                self.window,
                causal=float(shape.kind == "decoder"),
            )
            seconds = times.attention(cut.attention, sizes, forward=True)
            back = times.attention(cut.attention, sizes, forward=False)
            return Computation(seconds, back, kernels=2, kernels_back=3, kept=kept)
        number, scores = max(1, round(heads)), heads * rows * columns * self.width
        drop = times.memory(2.5 * scores) if cut.dropout else 0.0
        first = times.product(rows, columns, shape.key_size, number)
        second = times.product(rows, shape.value_size, columns, number)
        if number % FUSED_HEADS or columns > FUSED_LENGTH:
            softmax = self.wide.separate(SOFTMAX, scores)
        else:
            softmax = self.wide.memory(2 * scores, 3 * scores)
        back = times.product(rows, columns, shape.value_size, number) + 3 * second
        return softmax._replace(
            forward=first + second + softmax.forward + drop,
            inputs=back + softmax.inputs + drop,
            kernels=5 + softmax.kernels,
            kernels_back=7 + softmax.kernels_back,
            kept=kept + softmax.kept,
        )

    @property
    def scores(self) -> float:
        """Bytes of the softmax, its mask and what dropout leaves; a fused attention keeps none."""
        cut = self.cut
        if cut.attention != "unfused":
            return 0.0
        scores = cut.micro * self.shape.heads / cut.tp * (self.seq / cut.cp) * self.seq
        return scores * (self.width + (1 + self.width if cut.dropout else 0))

    def inner(self) -> list[Event]:
        """The MLP of a block, and the sum."""
        mlp = self.mlp(self.shape.hidden / self.cut.tp, self.tokens, kept=self.cut_nbytes)
        return self.entry() + mlp + self.exit() + self.residual()

    def mlp(
        self, inside: float, rows: float, number: int = 1, *, kept: float, width: int = 0
    ) -> list[Event]:
        """An MLP with `inside` elements of a token inside, or `number` experts that share `rows`
        tokens of `width` elements; 0: the usual ones. It keeps `kept` bytes of its input."""
        ups, width = 2 if self.shape.gated else 1, width or self.shape.width
        share, nbytes = rows / number, rows * inside * self.width
        above = ups * nbytes
        kept_above = above / self.width if self.cut.fp8_activations else above
        # In 8 bits it is written once more, and back in 16 bits before its backward.
        more, back = (kept_above, kept_above + above) if self.cut.fp8_activations else (0.0, 0.0)
        activation = self.memory(
            (ups + 1) * nbytes + more, (2 * ups + 1) * nbytes + back, kept=kept_above
        )
        if self.cut.eager and self.shape.gated:
            activation = self.separate(GATE, nbytes)
        return [
            self.product(
                share, [inside] * ups, width, number, kept=kept, later=kept + above, part="mlp"
            ),
            activation._replace(working=above + self.cut_nbytes),
            self.product(share, width, inside, number, kept=nbytes, later=nbytes, part="mlp"),
        ]

    def even(self, experts: Experts) -> float:
        """Tokens at the experts of a rank with even routing, once for each expert that they
        pass."""
        return self.tokens * (self.cut.expert_ranks / self.cut.tp) * experts.top

    def arriving(self, experts: Experts) -> float:
        """Tokens at the experts of the busiest rank, once for each expert that they pass."""
        even, cut = self.even(experts), self.cut
        if cut.capacity:
            return float(ceil(even / experts.number * cut.capacity) * experts.number)
        return even * cut.imbalance

    def expert_mlps(self, experts: Experts) -> list[Event]:
        """The experts of a rank."""
        arriving, local = self.arriving(experts), experts.number // self.cut.ep
        inside, width = experts.hidden / self.cut.expert_ranks, self.shape.expert_width
        kept = arriving * width * self.width
        return self.mlp(inside, arriving, local, kept=kept, width=width)

    def shared(self, experts: Experts) -> list[Event]:
        """The shared experts, which every token passes."""
        mlp = self.mlp(experts.shared / self.cut.tp, self.tokens, kept=0.0)
        return [*self.entry(), *mlp, *self.exit()]

    def embedding(self) -> list[Event]:
        """The tables of tokens and positions, or the matrix of an image's patches. Its output is
        kept as the input of the first norm."""
        shape, nbytes = self.shape, self.cut_nbytes
        back = 0 if self.cut.lora else 3 * nbytes
        kernel = self.memory(2 * nbytes, back, kept=self.mask)
        if self.cut.loss == "unfused":
            number = UNFUSED_BATCH + (UNFUSED_MASKS if self.cut.tp > 1 else 0)
            kernel = kernel._replace(kernels=number, kernels_back=UNFUSED_EMBEDDING_BACK)
        events: list[Event] = [kernel]
        if shape.patch:
            events.insert(0, self.wide.product(self.tokens, shape.width, shape.patch))
        return events + self.wide.exit()

    def head(self) -> list[Event]:
        """The logits and the loss."""
        shape, nbytes = self.shape, self.cut_nbytes
        rows = self.tokens if shape.kind == "decoder" else float(self.cut.micro)
        outputs = shape.head.outputs / self.cut.tp
        logits = rows * outputs
        events = self.wide.entry()
        events.append(self.wide.product(rows, outputs, shape.width, kept=nbytes, later=nbytes))
        if self.cut.tp > 1 and shape.kind != "encoder":
            # The largest logit, the sum of exponentials and the logit of the target.
            events += [Gate("tp", "all_reduce", "", rows * WIDE)] * 3
        loss = LOSSES[self.cut.loss]
        more = SHARDED_LOSS if self.cut.loss == "eager" and self.cut.tp > 1 else 0.0
        kernel = self.memory(loss.forward * logits, loss.backward * logits, loss.kept * logits)
        working = (loss.working + more) * logits
        kernel = kernel._replace(kernels=loss.kernels, kernels_back=loss.kernels_back)
        return [*events, kernel._replace(working=working)]

    def block(
        self,
        name: str,
        events: list[Event],
        parameters: float,
        of_experts: float = 0.0,
    ) -> Block:
        """The block with these events."""
        kernels = passes.computations(events)
        launch, overlap = self.times.launch, self.cut.overlap_tp
        return Block(
            name,
            forward=passes.forward(events, launch),
            inputs=passes.backward(events, launch, both=False),
            weights=passes.weights(events, launch),
            backward=passes.backward(events, launch, overlap=overlap),
            parameters=parameters,
            expert_parameters=of_experts,
            kept=sum(kernel.kept for kernel in kernels),
            kept_for_weights=sum(kernel.later for kernel in kernels),
            working=max(kernel.working for kernel in kernels),
            output=self.cut_nbytes,
        )
