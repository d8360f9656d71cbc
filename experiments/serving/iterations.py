"""What an iteration of an engine does on the GPUs of each stage, block by block.

Products, experts and attention take what the fastest engine was measured to take
(:mod:`experiments.models.kernel_times`). Collectives are simulated on the machine, with what the
engine's kernels, or NCCL across nodes, add to the links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from math import ceil, floor
from typing import NamedTuple

import numpy as np

from experiments.models.accelerators import accelerator
from experiments.models.kernel_times.attention import (
    DECODE_ATTENTION,
    LATENT_DECODES,
    AttentionSizes,
    attention_seconds,
)
from experiments.models.kernel_times.grouped_products import GROUPED_PRODUCTS, UNPACKED_PRODUCTS
from experiments.models.kernel_times.lookup import fastest
from experiments.models.kernel_times.nccl_calls import ENGINE_ALGORITHMS, engine_seconds, laws
from experiments.models.kernel_times.products import PRODUCTS
from experiments.serving.deployment import Cut, Deployment
from experiments.serving.engines import Engine
from simulator.parallel.blocks import Block, BlockPart
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.pipelines.pipeline import Pipeline
from simulator.parallel.step import Step, write
from simulator.parallel.step_work import Work
from simulator.steps.kinds import ATTENTION, FORWARD, HEAD, INNER, LAUNCH, SMALL
from simulator.steps.kinds import PRODUCTS as OF_ATTENTION
from simulator.steps.step_graph import MESSAGE
from topologies.topology import Topology

EXCHANGED = 2.0
"""Bytes of an element that GPUs exchange."""
UNEVEN = 1.01
"""The exponent of the power law of the popularity of experts: that of most measured layers."""
PARTS = OF_ATTENTION, ATTENTION, INNER, HEAD
"""The kinds of what is computed, in the order of an :class:`Iteration`."""
EXCHANGES = "all_reduce", "all_gather", "reduce_scatter", "all_to_all", MESSAGE
"""What GPUs exchange."""
MEASURED_GROUP = 8
"""The most GPUs of an all-reduce that engines have themselves."""
ROUNDS = 3
"""So many rounds of a pipeline are simulated: the last one is like those behind it."""


class Iteration(NamedTuple):
    """Seconds of the parts of an iteration in all blocks."""

    attention: float
    """Products of attention."""
    context: float
    """Attention: over the KV cache in a decode, among tokens in a prefill."""
    inner: float
    """MLPs, or experts with routers and shared experts."""
    head: float
    exchange: float
    """Collectives, without what they wait for each other."""


@dataclass(frozen=True, eq=False)
class Forward:
    """An iteration for as many sequences as a stage of a pipeline works on at once."""

    times: GroupTimes
    kinds: Sequence[str]
    """The kind of each block. Those that draft tokens come last."""
    parts: Mapping[str, Sequence[BlockPart]]
    """The parts of a block of each kind."""
    head: float
    """Seconds of the head."""
    sent: float
    """Bytes of a message between stages."""
    chunks: float = 1.0
    """How often it runs: for each chunk of a prompt."""
    prompts: float = 1.0
    """Prompts that are prefilled at once."""
    parts_of_round: int = 1
    """Parts of the sequences on which stages work at once."""

    @cached_property
    def seconds(self) -> Iteration:
        """The seconds of each part for a prompt, all chunks together."""
        total = dict.fromkeys(PARTS, 0.0) | {HEAD: self.head}
        for kind, count in Counter(self.kinds).items():
            for part in self.parts[kind]:
                total[part.kind] = total.get(part.kind, 0.0) + count * part.seconds
        share = self.chunks / self.prompts
        attention, context, inner, head = (share * total[kind] for kind in PARTS)
        return Iteration(attention, context, inner, head, sum(self.collectives.values()))

    @cached_property
    def collectives(self) -> dict[str, float]:
        """Those of each collective, and of messages between stages."""
        total, stages = dict.fromkeys(EXCHANGES, 0.0), self.times.degrees.pp
        if stages > 1:
            total[MESSAGE] = (stages - 1) * self.times.seconds("0 to 1", MESSAGE, self.sent)
        for kind, count in Counter(self.kinds).items():
            for part in self.parts[kind]:
                if part.group:
                    total[part.collective] += count * self.times.seconds(*part[1:4])
        return {name: self.chunks / self.prompts * seconds for name, seconds in total.items()}

    def step(self, block: float, host: float) -> Step:
        """The graph of some rounds of all stages, with what the engine adds to each block and to
        each stage of an iteration."""
        small = BlockPart(block, kind=SMALL)

        def made(name: str, *parts: BlockPart) -> Block:
            return Block(name, parts, (), (), (), output=self.sent)

        known = {kind: made("layer", *parts, small) for kind, parts in self.parts.items()}
        stages = self.times.degrees.pp
        bounds = [round(len(self.kinds) * stage / stages) for stage in range(stages + 1)]
        head = made("head", BlockPart(self.head, kind=HEAD))
        launches = made("host", BlockPart(host, kind=LAUNCH))
        blocks = [
            (launches, *(known[kind] for kind in self.kinds[begin:end]))
            for begin, end in pairwise(bounds)
        ]
        blocks[-1] += (head,)
        work = Work(tuple(blocks), _rounds(stages, self.parts_of_round), self.times)
        return write(work, together=True)  # each exchange has all ranks

    def round_seconds(self, step: Step) -> float:
        """Seconds in which each sequence gets a token by a step of it: those of a pass through all
        stages, or those until its stages have worked on all others."""
        finish = np.append(step.timeline.finish, 0.0)
        ends = finish[step.tails[-step.work.pipeline.micro_batches :]].max(axis=1)
        again = ends[-1] - ends[-1 - self.parts_of_round] if len(ends) > 1 else 0.0
        return float(max(ends[0], again))


@lru_cache
def _rounds(stages: int, parts: int) -> Pipeline:
    """Forwards of so many parts of the sequences, again and again."""
    forwards = ROUNDS * parts if stages > 1 else 1
    stage = np.repeat(np.arange(stages, dtype=np.int32), forwards)
    micro = np.tile(np.arange(forwards, dtype=np.int32), stages)
    kind, place = np.full(len(stage), FORWARD, dtype=np.int32), np.arange(stages)[None]
    paired = np.zeros(len(stage), dtype=np.int8)
    return Pipeline("rounds", forwards, place.astype(np.int32), kind, stage, micro, paired)


def decode(deployment: Deployment, machine: Topology, sequences: float, tokens: float) -> Forward:
    """A decode of each of `sequences`, which have `tokens` tokens on average.

    Stages of a pipeline work on as many parts of the sequences, if there are so many. Drafted
    tokens are rows like others, and each is drafted by a block and the head.
    """
    cut, drafts = deployment.cut, 1 + deployment.cut.mtp
    parts = min(cut.pp, max(1, floor(sequences)))
    each = max(sequences / cut.dp / parts, 1.0)
    rows = sequences / parts * drafts

    def context(window: float) -> float:
        return _reading(deployment, each, drafts, min(tokens, window or tokens))

    made = _forward(deployment, machine, (rows, each * drafts, rows), context)
    return replace(made, parts_of_round=parts)


def prefill(
    deployment: Deployment,
    machine: Topology,
    tokens: float,
    *,
    chunk: float = 0,
    prompts: float = 1,
) -> Forward:
    """A prefill of a prompt, or of several at once, or of the mean chunk of so many tokens: each
    chunk sees the keys of those before it."""
    rows = min(chunk or tokens, tokens)
    ends = np.minimum(rows * np.arange(1, ceil(tokens / rows) + 1), tokens)

    def context(window: float) -> float:
        each = [_prompt(deployment, prompts, rows, float(end), window) for end in ends]
        return sum(each) / len(each)

    every = prompts * rows
    made = _forward(deployment, machine, (every, every, prompts), context)
    return replace(made, chunks=tokens / rows, prompts=prompts)


def _forward(
    deployment: Deployment,
    machine: Topology,
    rows: tuple[float, float, float],
    context: Callable[[float], float],
) -> Forward:
    """An iteration with so many rows of MLPs, of attention in each group, and of the head.
    `context` is the attention of a block with a window; 0: without one."""
    shape, cut = deployment.shape, deployment.cut
    every, own, heads = rows
    device, nbytes = deployment.device, _padded(every) * shape.width * EXCHANGED
    attention = sum(_product(device, deployment.attention, own, *n) for n in deployment.products)
    window = {"*": 0, "w": shape.window}
    kinds = [*shape.kinds, *shape.kinds[-1:] * cut.mtp]
    parts = dict[str, list[BlockPart]]()
    for kind in dict.fromkeys(kinds):
        parts[kind] = row = []
        for letter in kind:
            if letter in window:
                row += [
                    BlockPart(attention, kind=OF_ATTENTION),
                    BlockPart(context(window[letter]), kind=ATTENTION),
                ]
                row += _summed(cut, nbytes)
            else:
                before, behind = _around(deployment, letter, every, nbytes)
                inner = BlockPart(_inner(deployment, letter, every), kind=INNER)
                row += [*before, inner, *behind]
    head = _product(device, "bf16", heads, shape.vocabulary / cut.tp, shape.width)
    times = _times(machine, cut, device, deployment.engine)
    return Forward(times, kinds, parts, (1 + cut.mtp) * head, nbytes / cut.dp)


@lru_cache
def _times(machine: Topology, cut: Cut, device: str, engine: Engine) -> GroupTimes:
    """Engines have all-reduces of their own inside a node, and call NCCL across nodes and in larger
    groups."""
    known = laws(device)
    across = len({*machine.node[machine.placement[: cut.tp]].tolist()}) > 1
    if across or cut.tp > MEASURED_GROUP:
        return GroupTimes(machine, cut.degrees, laws=known)
    known["all_reduce"] = partial(engine_seconds, device, str(engine))
    return GroupTimes(machine, cut.degrees, ENGINE_ALGORITHMS, laws=known)


def _summed(cut: Cut, nbytes: float) -> list[BlockPart]:
    """The all-reduce of what the GPUs of a group of attention have."""
    if cut.tp == cut.dp:
        return []
    return [BlockPart(0.0, "tp", "all_reduce", nbytes / cut.dp)]


def _around(
    deployment: Deployment, letter: str, rows: float, nbytes: float
) -> tuple[list[BlockPart], list[BlockPart]]:
    """The collectives before and behind MLPs or experts. Groups with attention of their own gather
    all tokens and scatter what comes back; where each GPU has attention and experts of its own,
    tokens travel to their experts and back."""
    cut, experts = deployment.cut, deployment.shape.experts
    if cut.dp == 1:
        return [], _summed(cut, nbytes)
    if letter == "E" and experts and cut.sends:
        sent = rows / cut.tp * experts.top * deployment.shape.expert_width * EXCHANGED
        exchanged = BlockPart(0.0, "ep", "all_to_all", sent)
        return [exchanged], [exchanged]
    scatter = BlockPart(0.0, "data", "reduce_scatter", nbytes)
    return [BlockPart(0.0, "data", "all_gather", nbytes)], [scatter, *_summed(cut, nbytes)]


def _reading(deployment: Deployment, rows: float, drafts: int, tokens: float) -> float:
    """Attention of a block of so many sequences to the KV cache, `tokens` of each. Queries of
    drafted tokens share keys with that of the newest one, as heads do."""
    shape, ranks = deployment.shape, deployment.ranks_of_heads
    heads, math = drafts * shape.heads / ranks, "fp8" if deployment.kv_width == 1 else "bf16"
    kind, groups = DECODE_ATTENTION, max(1.0, shape.kv_heads / ranks)
    elements = shape.key_size + shape.value_size
    size = elements / 2
    if latent := shape.latent:
        kind, groups, elements = LATENT_DECODES, 1.0, latent.key_rank + latent.rope
        size = elements - latent.rope / 2
    sizes = {
        "batch": rows,
        "heads": heads,
        "kv_heads": groups,
        "head_size": size,
        "elements": elements,
        "tokens": tokens,
    }
    # small caches were measured in those of the chip
    least = rows * tokens * deployment.kv_elements * deployment.kv_width
    least /= accelerator(deployment.device).bandwidth
    return max(least, fastest(kind, deployment.device, math, sizes))


def _prompt(
    deployment: Deployment, prompts: float, rows: float, tokens: float, window: float
) -> float:
    """Attention of a block among so many tokens of each prompt, of which the last `rows` are the
    queries."""
    shape, ranks = deployment.shape, deployment.ranks_of_heads
    heads = shape.heads / ranks
    groups = heads if shape.latent else max(1.0, shape.kv_heads / ranks)
    size = (shape.key_size + shape.value_size) / 2
    keys = min(tokens, rows + window) if window else tokens
    # the last queries see all keys before them
    sizes = AttentionSizes(prompts, heads, groups, size, rows, keys, window, causal=rows / keys)
    return attention_seconds(deployment.device, "bf16", sizes)


def _inner(deployment: Deployment, letter: str, rows: float) -> float:
    """The MLP of a block, or its router, shared expert and experts."""
    shape, experts, cut = deployment.shape, deployment.shape.experts, deployment.cut
    device, ups = deployment.device, 2 if shape.gated else 1

    def mlp(hidden: int) -> float:
        inside = hidden / cut.tp
        sizes = (ups * inside, shape.width), (shape.width, inside)
        return sum(_product(device, deployment.dense, rows, *size) for size in sizes)

    if letter == "-" or not experts:
        return mlp(shape.hidden)
    shared = mlp(experts.shared) if experts.shared else 0.0
    grouped = {
        "tokens": max(rows, 1.0),
        "hidden": shape.expert_width,
        "inter": experts.hidden,
        "topk": experts.top,
        "experts": experts.number,
        "tp": cut.tp / cut.ep,
        "ep": cut.ep,
        "ups": float(ups),
        "uneven": UNEVEN,
    }
    math = deployment.multiplied
    kind = UNPACKED_PRODUCTS if math == "mxfp4" else GROUPED_PRODUCTS
    router = _product(device, "bf16", rows, experts.number, shape.width)
    wide = fastest(GROUPED_PRODUCTS, device, "bf16", grouped)
    return router + shared + min(wide, fastest(kind, device, math, grouped))


def _padded(rows: float) -> int:
    """The rows that an engine takes for so many: its CUDA graphs have such sizes."""
    return next((few for few in (1, 2, 4) if rows <= few), 8 * ceil(rows / 8))


def _product(device: str, math: str, rows: float, outputs: float, inputs: float) -> float:
    return _product_of(device, math, _padded(rows), round(outputs), round(inputs))


@lru_cache(maxsize=16384)
def _product_of(device: str, math: str, m: int, n: int, k: int) -> float:
    """Kernels below 16 bits were measured with their launches, which CUDA graphs hide: small ones
    take no longer than in 16."""
    sizes = {"m": m, "n": n, "k": k, "quantised": 0.0}
    return min(fastest(PRODUCTS, device, each, sizes) for each in {"bf16", math})
