"""What an iteration of an engine does on a GPU, part by part, in seconds of kernels alone.

Products and experts are those that were measured (:mod:`experiments.models.kernel_times`), a decode
reads the KV cache, and collectives are simulated on the machine.
"""

from __future__ import annotations

from functools import lru_cache
from math import floor, log2
from typing import NamedTuple

from experiments.models.accelerators import accelerator
from experiments.models.kernel_times.attention import AttentionSizes, attention_seconds
from experiments.models.kernel_times.grouped_products import GROUPED_PRODUCTS, UNPACKED_PRODUCTS
from experiments.models.kernel_times.kernel_model import KernelModel
from experiments.models.kernel_times.lookup import model_of
from experiments.models.kernel_times.products import ENGINE, NARROW_ENGINE, PRODUCTS
from experiments.serving.deployment import WIDTHS, Deployment
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from topologies.topology import Topology

EXCHANGED = 2.0
"""Bytes of an element that GPUs exchange."""


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
    """A decode of a token of each of `sequences`, which have `tokens` tokens on average."""
    each = sequences / deployment.cut.dp
    bandwidth = accelerator(deployment.device).bandwidth
    read = each * deployment.kv_bytes(tokens) / deployment.kv_width
    return Iteration(
        _attention(deployment, each),
        read / bandwidth,
        _inner(deployment, sequences),
        _product(deployment.device, "bf16", sequences, *_head(deployment)),
        _exchange(deployment, machine, sequences),
    )


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
    """The products of attention of all blocks. Queries, keys and values are one."""
    shape, ranks = deployment.shape, deployment.ranks_of_heads
    sizes = []
    if shape.latent:
        for matrix in shape.attention_matrices:
            narrow = matrix.name.endswith("narrow")
            outputs = (
                matrix.outputs if narrow or matrix.name == "output" else matrix.outputs / ranks
            )
            inputs = matrix.inputs / ranks if matrix.name == "output" else matrix.inputs
            sizes.append((outputs, inputs))
    else:
        queries = shape.heads * shape.key_size / ranks
        sizes = [(queries + deployment.kv_elements, shape.width), (shape.width, queries)]
    device, math = deployment.device, deployment.attention
    return shape.attention_blocks * sum(_product(device, math, rows, *size) for size in sizes)


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
    device, wide = deployment.device, deployment.attention if experts else deployment.inner

    def mlp(hidden: int) -> float:
        inside, ups = hidden / cut.tp, 2 if shape.gated else 1
        return _product(device, wide, rows, ups * inside, shape.width) + _product(
            device, wide, rows, shape.width, inside
        )

    seconds = shape.parts["-"] * mlp(shape.hidden) if shape.parts["-"] else 0.0
    if experts:
        block = _product(device, "bf16", rows, experts.number, shape.width)
        block += mlp(experts.shared) if experts.shared else 0.0
        model = _grouped(device, deployment.inner)
        block += model.of(
            tokens=max(rows, 1.0),
            hidden=shape.expert_width,
            inter=experts.hidden,
            topk=experts.top,
            experts=experts.number,
            tp=cut.tp / cut.ep,
            ep=cut.ep,
            ups=2.0 if shape.gated else 1.0,
            uneven=0.0,
        ).expected
        seconds += shape.parts["E"] * block
    return seconds


def _head(deployment: Deployment) -> tuple[float, float]:
    return deployment.shape.vocabulary / deployment.cut.tp, deployment.shape.width


@lru_cache(maxsize=16384)
def _product(device: str, math: str, rows: float, outputs: float, inputs: float) -> float:
    engine = ENGINE if WIDTHS[math] == WIDTHS["bf16"] else NARROW_ENGINE
    sizes = {"m": max(round(rows), 1), "n": round(outputs), "k": round(inputs)}
    return model_of(PRODUCTS, device, math, engine).of(**sizes, quantised=0.0).expected


@lru_cache
def _grouped(device: str, math: str) -> KernelModel:
    """The experts of TensorRT-LLM. A device without products in 4 bits unpacks weights to 16 in
    kernels of Triton, as SGLang does."""
    if math != "mxfp4":
        return model_of(GROUPED_PRODUCTS, device, math, NARROW_ENGINE)
    if "nvfp4" in accelerator(device).peak:
        return model_of(GROUPED_PRODUCTS, device, "nvfp4", NARROW_ENGINE)
    return model_of(UNPACKED_PRODUCTS, device, math, "sglang")


def _exchange(deployment: Deployment, machine: Topology, rows: float) -> float:
    """The collectives of all blocks: an all-reduce after attention and one after the MLP. Attention
    of groups of their own gathers tokens for experts, and scatters what they return."""
    shape, (tp, dp, _) = deployment.shape, deployment.cut
    if tp == 1:
        return 0.0
    names = ["all_reduce"] * 2 if dp == 1 else ["all_gather", "reduce_scatter"]
    nbytes = rows * shape.width * EXCHANGED
    return shape.blocks * sum(_collective(machine, tp, name, nbytes) for name in names)


def _collective(machine: Topology, ranks: int, name: str, nbytes: float) -> float:
    """Seconds of a collective: between those of two powers of 2, which are simulated."""
    least = 1 << floor(log2(nbytes))
    low, high = (_simulated(machine, ranks, name, size) for size in (least, 2 * least))
    return low + (high - low) * (nbytes / least - 1)


@lru_cache
def _group(machine: Topology, ranks: int) -> GroupTimes:
    return GroupTimes(machine, Degrees(tp=ranks), _SMALL)


@lru_cache(maxsize=4096)
def _simulated(machine: Topology, ranks: int, name: str, nbytes: int) -> float:
    return _group(machine, ranks).seconds("tp", name, float(nbytes))


_SMALL = {"all_reduce": ("rings", "naive")}
"""Engines have all-reduces of one step for small messages: each GPU reads those of all."""
