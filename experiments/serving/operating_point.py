"""An operating point: so many sequences at once, each of which comes back when it is done.

In each iteration all sequences get a token, and of `concurrency` / `osl` sequences the prefill is
due. So the time to each further token (TPOT) is that of a decode and of this share of a prefill.
The first token (TTFT) waits for its prefill, and for those of sequences that came with it: a
benchmark starts with all of them at once. What engines add to kernels was learnt from measured
points (`python -m experiments.studies serving-points`).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from math import exp
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.models.accelerators import accelerator
from experiments.serving.deployment import WIDTHS, Deployment
from experiments.serving.iterations import Iteration, decode, prefill
from simulator.uncertainty.interval import LEVEL, quantile
from topologies.errors import InputError
from topologies.topology import Topology

OVERHEADS = Path(__file__).with_name("overheads.csv")
LIMITS = {
    "memory": ("KV cache",),
    "links": ("collectives",),
    "launches": ("small kernels", "host"),
    "arithmetic": ("prefills",),
}
"""What limits a token's time, and the parts that it always decides."""
PRODUCTS_OF_MODEL = "products of attention", "MLPs and experts", "head"
"""Parts that the bandwidth of memory limits with few sequences, and arithmetic with many."""
PREFILL = {
    "attention": "products of attention",
    "context": "attention among tokens",
    "inner": "MLPs and experts",
    "head": "head",
    "exchange": "collectives",
}
"""The parts of a prefill."""
TIMES = "tpot", "ttft"
ROUNDS = 8
"""How often the share of sequences that decode is looked for."""


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
    prefill: Iteration
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
        expected, high, low = self.sequences * load.osl / (first + load.osl * each)
        return Span(float(expected), float(low), float(high))


def work_of(deployment: Deployment, machine: Topology, load: Load, decoding: float) -> PointWork:
    """What a deployment does of whose sequences so many decode."""
    shape, tp = deployment.shape, deployment.cut.tp
    return PointWork(
        decode(deployment, machine, decoding, load.isl + load.osl / 2),
        prefill(deployment, machine, load.isl),
        shape.blocks,
        2 * shape.blocks * (tp > 1),
        float(shape.experts is not None),
        float(shape.latent is not None),
    )


def decode_parts(work: PointWork, values: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of the parts of a decode, with what the engine adds."""
    attention, context, inner, head, exchange = work.decode
    factor = work.experts * values["experts"] + (1 - work.experts) * values["mlp"]
    return {
        "products of attention": values["attention"] * attention,
        "KV cache": values["kv"] * context,
        "MLPs and experts": factor * inner,
        "head": values["attention"] * head,
        "collectives": exchange + work.exchanges * values["exchange"],
        "small kernels": work.blocks * values["block"],
        "host": values["host"],
    }


def prefill_seconds(work: PointWork, values: Mapping[str, Any]) -> Any:
    """Seconds of a prefill between decodes."""
    return values["prefill"] * sum(work.prefill) + values["prefill_host"]


def tpot(work: PointWork, load: Load, values: Mapping[str, Any]) -> Any:
    """Seconds of each further token."""
    due = load.concurrency / load.osl
    return sum(decode_parts(work, values).values()) + due * prefill_seconds(work, values)


def ttft(work: PointWork, load: Load, values: Mapping[str, Any]) -> Any:
    """Seconds until the first token."""
    waits = 1 + values["wait"] * load.concurrency ** values["crowd"]
    kernels = sum(work.prefill) * values["latent"] ** work.latent
    first = values["first"] * kernels * waits + values["first_host"]
    return first + sum(decode_parts(work, values).values())


@cache
def overheads(engine: str) -> Mapping[str, float]:
    """What an engine adds, by name; what all engines share is in it."""
    with OVERHEADS.open(newline="") as file:
        rows = [*csv.DictReader(file)]
    return {row["name"]: float(row["value"]) for row in rows if row["engine"] in ("all", engine)}


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
    fits = deployment.fits(tokens)
    if fits < 1:
        missing = (1 - fits) / deployment.cut.dp * deployment.kv_bytes(tokens)
        raise InputError(
            f"{deployment.model} in {deployment.precision} with a sequence of {tokens:g} tokens "
            f"needs {missing / 1e9:.3g} GB more than each of {deployment.cut.tp} "
            f"{deployment.device} has: take more GPUs, or fewer bits"
        )
    values, most = overheads(deployment.engine), min(float(load.concurrency), fits)
    limited, decoding = load._replace(concurrency=most), most
    for _ in range(ROUNDS):
        work = work_of(deployment, machine, limited, decoding)
        running = limited._replace(concurrency=decoding)
        each, first = tpot(work, running, values), ttft(work, limited, values)
        each, first = factors[0].expected * each, factors[1].expected * first
        # Little's law: a sequence decodes for so much of its time
        share = load.osl * each / (first + load.osl * each)
        if abs(decoding - most * share) < 0.01 * decoding:
            break
        decoding = most * share
    parts = decode_parts(work, values)
    parts["prefills"] = decoding / load.osl * prefill_seconds(work, values)
    parts = {name: factors[0].expected * float(seconds) for name, seconds in parts.items()}
    spans = []
    for name, factor, seconds in zip(TIMES, factors, (each, first), strict=True):
        spread = values[f"spread_{name}"] if factor.spread is None else factor.spread
        wide = exp(quantile(level) * spread)
        spans.append(Span(seconds, seconds / wide, seconds * wide))
    return Point(
        spans[1],
        spans[0],
        most,
        fits,
        parts,
        {PREFILL[name]: float(seconds) for name, seconds in work.prefill._asdict().items()},
        _limit(deployment, parts, decoding),
    )


def _limit(deployment: Deployment, parts: Mapping[str, float], sequences: float) -> str:
    """What most of a token's time is."""
    chip = accelerator(deployment.device)
    flops = 2 * deployment.shape.active_parameters * sequences / deployment.cut.tp
    peak = chip.peak["bf16"] * 2 / WIDTHS[deployment.inner]
    reads = deployment.weights / chip.bandwidth > flops / peak
    products = "memory" if reads else "arithmetic"
    seconds = {name: sum(parts[part] for part in own) for name, own in LIMITS.items()}
    seconds[products] += sum(parts[name] for name in PRODUCTS_OF_MODEL)
    return max(seconds, key=seconds.__getitem__)
