"""How a model is served: its engine, its precision, how GPUs share it, and workers that prefill for
others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import NamedTuple

from experiments.models.accelerators import ACCELERATORS, accelerator
from experiments.models.kernel_times.lookup import WIDTHS as KERNEL_WIDTHS
from experiments.models.model_shapes import TransformerShape
from experiments.serving.engines import Engine, ServedPrecision
from simulator.collectives.layouts import ranks_of_a_node
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.steps.step_graph import MESSAGE
from topologies.catalogue import Blueprint
from topologies.errors import InputError, naming, nearest_name
from topologies.option_text import parse_at_least, parse_pairs
from topologies.topology import Topology
from topologies.units import parse_whole

WIDTHS = KERNEL_WIDTHS | {"fp8_block": 1 + 4 / 128**2}
"""Bytes of an element of a weight, with its share of a scale: blocks of weights are squares."""
MOST_DRAFTED, MOST_WORKERS = 8, 1024
AMD = "mi"
"""How the names of its GPUs begin, on which TensorRT-LLM does not run."""
MARGIN = 0.9
"""The share of a GPU's memory that weights and the KV cache have: what engines take unless they are
told otherwise (gpu_memory_utilization of vLLM)."""


class Cut(NamedTuple):
    """How the GPUs of a deployment share a model."""

    tp: int = 1
    """GPUs that share each layer."""
    dp: int = 1
    """Groups of these that have attention of sequences of their own."""
    ep: int = 1
    """Groups that have experts of their own."""
    pp: int = 1
    """Stages that share the blocks, each of `tp` GPUs."""
    mtp: int = 0
    """Tokens that are drafted at once, with a block each."""

    @property
    def gpus(self) -> int:
        """Those of an instance."""
        return self.tp * self.pp

    @property
    def sends(self) -> bool:
        """Whether each GPU has attention and experts of its own, so that tokens travel."""
        return self.tp == self.dp == self.ep > 1

    @property
    def degrees(self) -> Degrees:
        """The same as a plan of training has it, where `tp` shares attention."""
        ep = self.ep if self.sends else 1
        return Degrees(tp=self.tp // self.dp, dp=self.dp, pp=self.pp, ep=ep)

    def __str__(self) -> str:
        return ",".join(
            f"{name}={value}" for name, value in self._asdict().items() if value > (name != "mtp")
        )


def parse_cut(text: str) -> Cut:
    """A cut as the user writes it: tp=8,dp=8,ep=8. Raises InputError."""

    def unknown(key: str) -> str:
        hint = nearest_name(key, Cut._fields, f"it has {', '.join(Cut._fields)}")
        return f"a deployment has no {key[:40]!r}: {hint}"

    parsers = {name: parse_at_least(int(name != "mtp")) for name in Cut._fields}
    cut = text.replace(" ", "")
    return Cut(**parse_pairs(cut, "plan", parsers, unknown=unknown, example="tp=8"))


def parse_workers(name: str, text: str) -> tuple[int, Cut]:
    """A number of workers and the cut of each: 2:tp=8. Raises InputError with the `name` of the
    option."""
    number, colon, cut = text.strip().rpartition(":")
    if "=" not in cut:
        raise InputError(f"{name} {text[:40]!r}: write it like tp=8, or 2:tp=8")
    with naming(f"{name} {text[:40]}"):
        count = parse_whole(number) if colon else 1
    if not 1 <= count <= MOST_WORKERS:
        raise InputError(f"{name} {text[:40]}: 1 to {MOST_WORKERS} workers")
    return count, parse_cut(cut)


@dataclass(frozen=True)
class Deployment:
    """A model on the GPUs of an instance. Raises InputError for a cut that does not fit it."""

    model: str
    shape: TransformerShape
    device: str
    """A name of :data:`experiments.models.accelerators.ACCELERATORS`."""
    engine: Engine
    precision: ServedPrecision
    cut: Cut
    accepted: float = 0.7
    """The share of drafted tokens that are accepted, each if those before it are."""

    def __post_init__(self) -> None:
        if self.shape.kind != "decoder" or self.shape.mamba:
            raise InputError(f"{self.model} cannot be served here: take a decoder with attention")
        tp, dp, ep, pp, mtp = self.cut
        if self.shape.blocks < pp:
            raise InputError(f"pp={pp}: {self.model} has {self.shape.blocks} blocks")
        if mtp > MOST_DRAFTED or not 0 <= self.accepted <= 1:
            raise InputError(
                f"mtp={mtp}, {self.accepted:g} of them accepted: expected up to {MOST_DRAFTED} "
                "tokens, and a share of them"
            )
        for name, value in (("dp", dp), ("ep", ep)):
            if tp % value:
                raise InputError(f"{name}={value} does not divide tp={tp}")
        if self.shape.heads % self.ranks_of_heads:
            raise InputError(
                f"tp={tp}: {self.model} has {self.shape.heads} heads, which "
                f"{self.ranks_of_heads} GPUs do not share evenly"
            )
        experts = self.shape.experts
        if ep > 1 and (experts is None or experts.number % ep):
            has = f"{experts.number} experts" if experts else "no experts"
            raise InputError(f"ep={ep}: {self.model} has {has}")
        peaks = accelerator(self.device).peak
        if self.device == "cpu" or (self.engine == "trtllm" and self.device.startswith(AMD)):
            raise InputError(f"engine {self.engine} does not run on {self.device}")
        for math in (self.attention, self.inner):
            if math != "mxfp4" and math not in peaks:
                raise InputError(
                    f"precision {self.precision}: {self.device} has no {math}: it has "
                    f"{', '.join(peaks)}"
                )

    @property
    def tokens(self) -> float:
        """Tokens of a sequence in a decode: one, and those that are drafted and accepted."""
        return sum(self.accepted**number for number in range(self.cut.mtp + 1))

    @property
    def ranks_of_heads(self) -> int:
        """The GPUs that share the heads of a sequence."""
        return self.cut.tp // self.cut.dp

    @property
    def attention(self) -> str:
        """The precision of the matrices of attention: experts in 4 bits leave it in 16."""
        if self.precision == "bf16" or (self.precision == "fp4" and self.shape.experts):
            return "bf16"
        if self.precision == "fp4":
            return "nvfp4"
        return "fp8_block" if self.shape.latent else "fp8"

    @property
    def inner(self) -> str:
        """The precision of MLPs and experts. Models with sinks are trained with experts in mxfp4
        (GPT-OSS)."""
        if self.precision != "fp4":
            return self.attention
        return "mxfp4" if self.shape.sinks else "nvfp4"

    @property
    def dense(self) -> str:
        """The precision of MLPs and shared experts beside experts, or of MLPs."""
        return self.attention if self.shape.experts else self.inner

    @property
    def multiplied(self) -> str:
        """What experts are multiplied in: devices without products in 4 bits unpack mxfp4."""
        native = self.inner == "mxfp4" and "nvfp4" in accelerator(self.device).peak
        return "nvfp4" if native else self.inner

    @property
    def kv_width(self) -> float:
        """Bytes of an element of the KV cache. Published points of TensorRT-LLM and vLLM with such
        weights have it in 8 bits: in 16, vLLM would read it faster than memory allows."""
        return 1.0 if self.engine != "sglang" and self.precision != "bf16" else 2.0

    @cached_property
    def kv_elements(self) -> float:
        """Elements of the KV cache of a token in a block on a GPU. Narrow vectors of latent
        attention are whole on each."""
        latent, ranks = self.shape.latent, self.ranks_of_heads
        if latent:
            return latent.key_rank + latent.rope
        heads = max(1.0, self.shape.kv_heads / ranks)
        return heads * (self.shape.key_size + self.shape.value_size)

    def kv_bytes(self, tokens: float) -> float:
        """Bytes of the KV cache of a sequence of so many tokens on a GPU of each stage."""
        shape, width = self.shape, self.kv_elements * self.kv_width
        seen = shape.parts["w"] * min(tokens, shape.window or tokens) + shape.parts["*"] * tokens
        return seen * width

    @cached_property
    def products(self) -> Sequence[tuple[float, float]]:
        """Outputs and inputs of the products of attention of a block on a GPU. Queries, keys and
        values are one. Narrow matrices of latent attention are whole on each."""
        shape, ranks = self.shape, self.ranks_of_heads
        if not shape.latent:
            queries = shape.heads * shape.key_size / ranks
            return [(queries + self.kv_elements, shape.width), (shape.width, queries)]
        sizes = list[tuple[float, float]]()
        for matrix in shape.attention_matrices:
            if matrix.name == "output":
                sizes.append((matrix.outputs, matrix.inputs / ranks))
            else:
                shared = 1 if matrix.name.endswith("narrow") else ranks
                sizes.append((matrix.outputs / shared, matrix.inputs))
        return sizes

    @cached_property
    def parts(self) -> Mapping[str, float]:
        """Bytes of the weights of a GPU of each stage by part."""
        shape, tp = self.shape, self.cut.tp
        attention = shape.attention_blocks * sum(rows * columns for rows, columns in self.products)
        dense = sum(shape.parts[each] * shape.part_parameters(each) / tp for each in "-E")
        routed = shape.parts["E"] * (shape.experts.number if shape.experts else 0)
        return {
            "attention": attention * WIDTHS[self.attention],
            "dense": dense * WIDTHS[self.dense],
            "routed": routed * shape.expert_parameters / tp * WIDTHS[self.inner],
            "embedding": 2.0 * shape.embedding / tp,
            "head": 2.0 * shape.head_parameters / tp,
        }

    @property
    def stage_share(self) -> float:
        """The share of all blocks that the longest stage has."""
        return ceil(self.shape.blocks / self.cut.pp) / self.shape.blocks

    @property
    def weights(self) -> float:
        """Bytes of the weights of a GPU of the longest stage. Attention is whole in each group of
        `dp`."""
        drafts = 1 + self.cut.mtp / self.shape.blocks
        return drafts * sum(self.parts.values()) * self.stage_share

    def fits(self, tokens: float) -> float:
        """Sequences of so many tokens whose KV caches fit, on all GPUs together; 0 or less if the
        weights leave no room."""
        room = ACCELERATORS[self.device].capacity * MARGIN - self.weights
        return self.cut.dp * room / (self.kv_bytes(tokens) * self.stage_share)


class PrefillWorkers(NamedTuple):
    """Workers that prefill, and nothing else."""

    deployment: Deployment
    """That of each."""
    machine: Topology
    number: int
    decoders: int
    """Workers that decode what these prefill."""
    sent: float
    """Seconds in which the KV cache of a prompt goes to a worker that decodes."""

    @property
    def gpus(self) -> int:
        """Those of all of them."""
        return self.number * self.deployment.cut.gpus


def sent_seconds(
    prefills: Deployment, decodes: Deployment, blueprint: Blueprint, tokens: float
) -> float:
    """Seconds in which the KV cache of a prompt goes from a worker to another one, from all GPUs of
    the one at once. Workers are on nodes of their own where the machine has so many."""
    size = max(prefills.cut.gpus, decodes.cut.gpus)
    times = GroupTimes(_pair(blueprint, size), Degrees(tp=size, pp=2))
    nbytes = max(each.kv_bytes(tokens) * each.stage_share for each in (prefills, decodes))
    return times.seconds("0 to 1", MESSAGE, nbytes)


def _pair(blueprint: Blueprint, size: int) -> Topology:
    """The GPUs of two workers of `size`. Raises InputError if the machine has too few."""
    whole = blueprint.whole()
    nodes = ceil(size / ranks_of_a_node(whole, whole.ranks))
    with suppress(InputError):
        return blueprint.for_job(2 * size, 2 * nodes).build(2 * size)
    return blueprint.build(2 * size)
