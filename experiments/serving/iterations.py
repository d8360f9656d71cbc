"""What an iteration of an engine does on a GPU, part by part, in seconds of kernels alone.

Products and experts are those that were measured (:mod:`experiments.models.kernel_times`), a decode
reads the KV cache, and collectives are simulated on the machine.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor, log2
from typing import NamedTuple

import numpy as np

from experiments.models.accelerators import accelerator
from experiments.models.kernel_times.attention import AttentionSizes, attention_seconds
from experiments.models.kernel_times.grouped_products import (
    GROUPED_PRODUCTS,
    UNPACKED_PRODUCTS,
    rows_of,
)
from experiments.models.kernel_times.kernel_model import KernelModel
from experiments.models.kernel_times.lookup import model_of
from experiments.models.kernel_times.products import ENGINE, NARROW_ENGINE, PRODUCTS
from experiments.serving.deployment import WIDTHS, Deployment
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.steps.step_graph import MESSAGE
from topologies.topology import Topology

EXCHANGED = 2.0
"""Bytes of an element that GPUs exchange."""
UNEVEN = 1.01
"""The exponent of the power law of the popularity of experts: that of most measured layers."""


class Iteration(NamedTuple):
    """Seconds of the parts of an iteration."""

    attention: float
    """Products of attention."""
    context: float
    """Scores and values: reading the KV cache in a decode, attention among tokens in a prefill."""
    inner: float
    """MLPs, or experts with routers and shared experts."""
    head: float
    exchange: float
    """Collectives on the links, without what they wait for each other."""


def decode(deployment: Deployment, machine: Topology, sequences: float, tokens: float) -> Iteration:
    """A decode of each of `sequences`, which have `tokens` tokens on average.

    Stages of a pipeline work on as many parts of the sequences, so it is the time of a part in all
    stages. Drafted tokens are rows like others, and each is drafted by a block and the head.
    """
    cut, drafts = deployment.cut, 1 + deployment.cut.mtp
    each = max(sequences / cut.dp / cut.pp, 1.0)
    rows = sequences / cut.pp * drafts
    blocks = 1 + cut.mtp / deployment.shape.blocks
    shape, chip = deployment.shape, accelerator(deployment.device)
    context = each * deployment.kv_bytes(tokens) / chip.bandwidth
    if shape.latent:
        ranks = shape.latent.key_rank + shape.latent.rope, shape.latent.key_rank
        flops = 2 * shape.heads / deployment.ranks_of_heads * sum(ranks) * tokens * each * drafts
        context = max(context, shape.attention_blocks * flops / chip.peak["bf16"])
    return Iteration(
        blocks * _attention(deployment, each * drafts),
        blocks * context,
        blocks * _inner(deployment, rows),
        drafts * _product(deployment.device, "bf16", rows, *_head(deployment)),
        blocks * _exchange(deployment, machine, rows),
    )


def reading(deployment: Deployment, sequences: float) -> Iteration:
    """What a decode takes at least: reading its weights at the bandwidth of memory."""
    parts, bandwidth = deployment.parts, accelerator(deployment.device).bandwidth
    used = 0.0
    if deployment.shape.experts:
        rows = sequences / deployment.cut.pp * (1 + deployment.cut.mtp)
        model, sizes = _experts(deployment, rows)
        columns = {name: np.array([size]) for name, size in sizes.items()}
        used = float(-np.expm1(-rows_of(columns, model.values)).mean())
    inner = parts["dense"] + parts["routed"] * used
    attention, head = parts["attention"] / bandwidth, parts["head"] / bandwidth
    return Iteration(attention, 0.0, inner / bandwidth, head, 0.0)


def prefill(deployment: Deployment, machine: Topology, tokens: float) -> Iteration:
    """A prefill of one sequence."""
    return Iteration(
        _attention(deployment, tokens),
        _context(deployment, tokens),
        _inner(deployment, tokens),
        _product(deployment.device, "bf16", 1.0, *_head(deployment)),
        _exchange(deployment, machine, tokens),
    )


def _attention(deployment: Deployment, rows: float) -> float:
    """The products of attention of all blocks."""
    device, math = deployment.device, deployment.attention
    each = sum(_product(device, math, rows, *size) for size in deployment.products)
    return deployment.shape.attention_blocks * each


def _context(deployment: Deployment, tokens: float) -> float:
    shape, ranks = deployment.shape, deployment.ranks_of_heads
    heads = shape.heads / ranks
    groups = heads if shape.latent else max(1.0, shape.kv_heads / ranks)
    size = (shape.key_size + shape.value_size) / 2
    whole = AttentionSizes(1, heads, groups, size, tokens, tokens, 0, causal=1.0)
    seconds = shape.parts["*"] * attention_seconds(deployment.device, "bf16", whole)
    if shape.parts["w"]:
        near = whole._replace(window=shape.window)
        seconds += shape.parts["w"] * attention_seconds(deployment.device, "bf16", near)
    return seconds


def _inner(deployment: Deployment, rows: float) -> float:
    shape, experts, cut = deployment.shape, deployment.shape.experts, deployment.cut
    device, math = deployment.device, deployment.dense

    def mlp(hidden: int) -> float:
        inside, ups = hidden / cut.tp, 2 if shape.gated else 1
        sizes = (ups * inside, shape.width), (shape.width, inside)
        return sum(_product(device, math, rows, *size) for size in sizes)

    seconds = shape.parts["-"] * mlp(shape.hidden) if shape.parts["-"] else 0.0
    if experts:
        block = _product(device, "bf16", rows, experts.number, shape.width)
        block += mlp(experts.shared) if experts.shared else 0.0
        model, sizes = _experts(deployment, rows)
        seconds += shape.parts["E"] * (block + model.of(**sizes).expected)
    return seconds


def _experts(deployment: Deployment, rows: float) -> tuple[KernelModel, dict[str, float]]:
    """The model of the experts of a block, and their sizes."""
    shape, experts, cut = deployment.shape, deployment.shape.experts, deployment.cut
    assert experts
    return _grouped(deployment.device, deployment.multiplied), {
        "tokens": max(rows, 1.0),
        "hidden": shape.expert_width,
        "inter": experts.hidden,
        "topk": experts.top,
        "experts": experts.number,
        "tp": cut.tp / cut.ep,
        "ep": cut.ep,
        "ups": 2.0 if shape.gated else 1.0,
        "uneven": UNEVEN,
    }


def _head(deployment: Deployment) -> tuple[float, float]:
    return deployment.shape.vocabulary / deployment.cut.tp, deployment.shape.width


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
    wide = model_of(PRODUCTS, device, "bf16", ENGINE).of(**sizes).expected
    if WIDTHS[math] == WIDTHS["bf16"]:
        return wide
    return min(wide, model_of(PRODUCTS, device, math, NARROW_ENGINE).of(**sizes).expected)


@lru_cache
def _grouped(device: str, math: str) -> KernelModel:
    """The experts of TensorRT-LLM. Those of SGLang in Triton unpack weights to 16 bits."""
    if math == "mxfp4":
        return model_of(UNPACKED_PRODUCTS, device, math, "sglang")
    return model_of(GROUPED_PRODUCTS, device, math, NARROW_ENGINE)


def _exchange(deployment: Deployment, machine: Topology, rows: float) -> float:
    """The collectives of all blocks: an all-reduce after attention and one after the MLP. Attention
    of groups of their own gathers tokens for experts, and scatters what they return."""
    shape, cut = deployment.shape, deployment.cut
    nbytes = rows * shape.width * EXCHANGED
    degrees, seconds = Degrees(tp=cut.tp, pp=cut.pp), 0.0
    if cut.pp > 1:
        seconds = (cut.pp - 1) * _collective(machine, degrees, "0 to 1", MESSAGE, nbytes)
    if cut.tp == 1:
        return seconds
    if cut.dp == 1:
        return seconds + shape.blocks * 2 * _collective(
            machine, degrees, "tp", "all_reduce", nbytes
        )
    names = "all_gather", "reduce_scatter"
    block = sum(_collective(machine, degrees, "tp", name, nbytes) for name in names)
    if cut.dp < cut.tp:
        inside = Degrees(tp=cut.tp // cut.dp, dp=cut.dp, pp=cut.pp)
        block += _collective(machine, inside, "tp", "all_reduce", nbytes / cut.dp)
    return seconds + shape.blocks * block


def _collective(machine: Topology, degrees: Degrees, group: str, name: str, nbytes: float) -> float:
    """Seconds of a collective: between those of two powers of 2, which are simulated."""
    least = 1 << floor(log2(max(nbytes, 1.0)))
    low, high = (_simulated(machine, degrees, group, name, size) for size in (least, 2 * least))
    return low + (high - low) * (nbytes / least - 1)


@lru_cache
def _group(machine: Topology, degrees: Degrees) -> GroupTimes:
    return GroupTimes(machine, degrees, _SMALL)


@lru_cache(maxsize=4096)
def _simulated(machine: Topology, degrees: Degrees, group: str, name: str, nbytes: int) -> float:
    return _group(machine, degrees).seconds(group, name, float(nbytes))


_SMALL = {"all_reduce": ("rings", "naive")}
"""Engines have all-reduces of one step for small messages: each GPU reads those of all."""
