"""An operating point: so many sequences at once, each of which comes back when it is done.

In each iteration all sequences get a token, and of `concurrency` / (`osl` - 1) sequences the
prefill is due. So the time to each further token (TPOT) is that of a decode and of this share of a
prefill. The first token (TTFT) waits for its prefill, and for those of sequences that came with it:
a benchmark starts with all of them at once. What engines add to kernels was learnt from measured
points (`python -m experiments.studies serving-points`).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from math import exp, floor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from experiments.models.kernel_times.lookup import chip_of
from experiments.serving.deployment import Deployment
from experiments.serving.iterations import Iteration, decode, prefill, reading
from simulator.uncertainty.interval import LEVEL, quantile
from topologies.errors import InputError
from topologies.topology import Topology

OVERHEADS = Path(__file__).with_name("overheads.csv")
LIMITS = {
    "memory": ("kv_cache",),
    "links": ("collectives",),
    "launches": ("small_kernels", "host"),
    "arithmetic": ("prefills",),
}
"""What limits a token's time, and the parts that it always decides."""
PRODUCTS_OF_MODEL = "products_of_attention", "mlps_and_experts", "head"
"""Parts that the bandwidth of memory limits with few sequences, and arithmetic with many."""
PREFILL = {
    "attention": "products_of_attention",
    "context": "attention_among_tokens",
    "inner": "mlps_and_experts",
    "head": "head",
    "exchange": "collectives",
}
"""The parts of a prefill."""
TIMES = "tpot", "ttft"
FEWEST, LEAST = 1e-12, 1e-3
"""The least share of sequences that decode, and how exactly the share is found."""


class Load(NamedTuple):
    """What an engine is asked for. Numbers, or arrays of one shape."""

    isl: Any
    """Tokens of a prompt."""
    osl: Any
    """Tokens of an answer."""
    concurrency: Any
    """Sequences at once."""


class PointWork(NamedTuple):
    """What a point makes an engine do. Iterations of numbers, or of arrays of one shape."""

    decode: Iteration
    reading: Iteration
    """What a decode takes at least."""
    prefill: Iteration
    groups: Any
    """Groups with attention of their own: as many prefills at once."""
    stages: Any
    """Stages of a pipeline: as many prefills at once, and launches of a decode."""
    tokens: Any
    """Tokens of a sequence in a decode."""
    blocks: Any
    exchanges: Any
    """Collectives of an iteration; 0 on one GPU."""
    experts: Any
    """1 where the MLPs are experts, else 0."""
    latent: Any
    """1 with latent attention, else 0."""


class Span(NamedTuple):
    """A value, and the ends of its interval."""

    expected: float
    low: float
    high: float


class Factor(NamedTuple):
    """How many times as long as predicted a time is, by measured points."""

    expected: float = 1.0
    spread: float | None = None
    """What is left unsure, in the logarithm; that of all engines unless it is given."""


class Point(NamedTuple):
    """What a deployment gives under a load."""

    ttft: Span
    """Until the first token."""
    tpot: Span
    """Until each further one."""
    sequences: float
    """Those that are in flight: as many as the load has, or as fit."""
    decoding: float
    """The share of these that decode."""
    fits: float
    """Those whose KV caches fit."""
    parts: Mapping[str, float]
    """Seconds of a token by part."""
    first: Mapping[str, float]
    """Seconds of the kernels of a prefill by part."""
    limit: str
    """What most of a token's time is: a key of :data:`LIMITS`."""

    @property
    def prefilling(self) -> bool:
        """Whether prefills ask for more time than decodes leave."""
        return self.parts["prefills"] > self.tpot.expected / 2

    def tokens(self, load: Load) -> Span:
        """Tokens a second of all sequences together."""
        first, each = (np.array(span) for span in (self.ttft, self.tpot))
        expected, high, low = self.sequences * load.osl / (first + (load.osl - 1) * each)
        return Span(float(expected), float(low), float(high))


def work_of(deployment: Deployment, machine: Topology, load: Load, decoding: float) -> PointWork:
    """What a deployment does of whose sequences so many decode."""
    shape, cut = deployment.shape, deployment.cut
    return PointWork(
        decode(deployment, machine, decoding, load.isl + load.osl / 2),
        reading(deployment, decoding),
        prefill(deployment, machine, load.isl),
        float(cut.dp),
        float(cut.pp),
        deployment.tokens,
        shape.blocks,
        2 * shape.blocks * (cut.tp > 1) + cut.pp - 1,
        float(shape.experts is not None),
        float(shape.latent is not None),
    )


def decode_parts(work: PointWork, values: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of a token by the parts of a decode, with what the engine adds."""
    attention, context, inner, head, exchange = work.decode
    factor = work.experts * values["experts"] + (1 - work.experts) * values["mlp"]
    least = work.reading
    seconds = {
        "products_of_attention": np.maximum(values["attention"] * attention, least.attention),
        "kv_cache": np.maximum(values["kv"], 1.0) * context,
        "mlps_and_experts": np.maximum(factor * inner, least.inner),
        "head": np.maximum(values["attention"] * head, least.head),
        "collectives": exchange + work.exchanges * values["exchange"],
        "small_kernels": work.blocks * values["block"],
        "host": work.stages * values["host"],
    }
    return {name: value / work.tokens for name, value in seconds.items()}


def prefills(work: PointWork, due: Any, values: Mapping[str, Any]) -> Any:
    """Seconds of so many prefills between decodes, which groups of attention share."""
    attention = work.prefill.attention + work.prefill.context
    shared = attention / np.clip(due, 1.0, work.groups)
    each = sum(work.prefill) - attention + shared
    return due * (values["prefill"] * each / work.stages + values["prefill_host"])


def tpot(work: PointWork, load: Load, values: Mapping[str, Any]) -> Any:
    """Seconds of each further token."""
    due = load.concurrency / (load.osl - 1)
    return sum(decode_parts(work, values).values()) + prefills(work, due, values)


def ttft(work: PointWork, load: Load, values: Mapping[str, Any]) -> Any:
    """Seconds until the first token."""
    waits = 1 + values["wait"] * load.concurrency ** values["crowd"]
    kernels = sum(work.prefill) * values["latent"] ** work.latent
    first = values["first"] * kernels * waits + values["first_host"]
    return first + work.tokens * sum(decode_parts(work, values).values())


@cache
def overheads(engine: str) -> Mapping[str, float]:
    """What an engine adds, by name; what all engines share is in it."""
    with OVERHEADS.open(newline="") as file:
        rows = [*csv.DictReader(file)]
    return {row["name"]: float(row["value"]) for row in rows if row["engine"] in ("all", engine)}


def spread_of(deployment: Deployment, time: str) -> float:
    """The spread of a time, in the logarithm. Points of latent attention are far more spread."""
    latent = "_latent" if deployment.shape.latent else ""
    return overheads(deployment.engine)[f"spread_{time}{latent}"]


def point(
    deployment: Deployment,
    machine: Topology,
    load: Load,
    *,
    factors: tuple[Factor, Factor] = (Factor(), Factor()),
    level: float = LEVEL,
) -> Point:
    """The operating point of a load. `factors` on TPOT and TTFT are those of measured points.

    Raises InputError if the weights leave no room for a sequence.
    """
    tokens = load.isl + load.osl
    if 0 < deployment.shape.positions < tokens:
        raise InputError(
            f"{tokens:g} tokens of a prompt and its answer: {deployment.model} has "
            f"{deployment.shape.positions} positions"
        )
    room = deployment.fits(tokens)
    fits = float(deployment.cut.dp * floor(room / deployment.cut.dp))
    if fits < 1:
        missing = (1 - room / deployment.cut.dp) * deployment.kv_bytes(tokens) / deployment.cut.pp
        raise InputError(
            f"{deployment.model} in {deployment.precision} with a sequence of {tokens:g} tokens "
            f"needs {missing / 1e9:.3g} GB more than each of {deployment.cut.gpus} "
            f"{deployment.device} has: take more GPUs, or fewer bits"
        )
    values, most = overheads(deployment.engine), min(float(load.concurrency), fits)
    start = work_of(deployment, machine, load, most)

    def at(decoding: float) -> tuple[PointWork, float, float]:
        """The work, TPOT and TTFT if so many sequences decode."""
        tokens = load.isl + load.osl / 2
        work = start._replace(
            decode=decode(deployment, machine, decoding, tokens),
            reading=reading(deployment, decoding),
        )
        each = factors[0].expected * tpot(work, load._replace(concurrency=decoding), values)
        first = factors[1].expected * ttft(work, load._replace(concurrency=most), values)
        return work, float(each), float(first)

    def too_few(decoding: float) -> float:
        """Little's law: a sequence decodes for so much of its time."""
        _, each, first = at(decoding)
        further = float(load.osl - 1) * each
        return most * further / (first + further) - decoding

    few = FEWEST * most
    decoding: float = brentq(too_few, few, most, xtol=few, rtol=LEAST)
    work, each, first = at(decoding)
    parts = decode_parts(work, values)
    parts["prefills"] = prefills(work, decoding / (load.osl - 1), values)
    parts = {name: factors[0].expected * float(seconds) for name, seconds in parts.items()}
    spans = []
    for name, factor, seconds in zip(TIMES, factors, (each, first), strict=True):
        spread = spread_of(deployment, name) if factor.spread is None else factor.spread
        wide = exp(quantile(level) * spread)
        spans.append(Span(seconds, seconds / wide, seconds * wide))
    return Point(
        spans[1],
        spans[0],
        most,
        decoding / most,
        fits,
        parts,
        {PREFILL[name]: float(seconds) for name, seconds in work.prefill._asdict().items()},
        _limit(deployment, parts, decoding),
    )


def _limit(deployment: Deployment, parts: Mapping[str, float], sequences: float) -> str:
    """What most of a token's time is."""
    chip = chip_of(deployment.device, deployment.multiplied)
    flops = 2 * deployment.shape.active_parameters * sequences / deployment.cut.tp
    reads = deployment.weights * deployment.cut.pp / chip.bandwidth > flops / chip.flops
    products = "memory" if reads else "arithmetic"
    seconds = {name: sum(parts[part] for part in own) for name, own in LIMITS.items()}
    seconds[products] += sum(parts[name] for name in PRODUCTS_OF_MODEL)
    return max(seconds, key=seconds.__getitem__)
