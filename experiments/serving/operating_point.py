"""An operating point: so many sequences at once, each of which comes back when it is done.

In each iteration all sequences get a token, and of `concurrency` / (`osl` - 1) sequences the
prefill is due. So the time to each further token (TPOT) is that of a decode and of this share of a
prefill. The first token (TTFT) waits for its prefill, and for those of sequences that came with it:
a benchmark starts with all of them at once. What engines add to kernels was learnt from measured
points (`python -m experiments.studies serving-points`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import exp, floor, inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from experiments.models.kernel_times.kernel_model import Span
from experiments.models.kernel_times.lookup import chip_of
from experiments.serving.deployment import Deployment, PrefillWorkers
from experiments.serving.iterations import EXCHANGES, Forward, Iteration, decode, prefill
from experiments.shipped_tables import rows_of
from simulator.parallel.step import Step
from simulator.uncertainty.interval import LEVEL, quantile
from topologies.errors import InputError
from topologies.topology import Topology

LIMITS = {
    "memory": ("kv_cache",),
    "links": EXCHANGES,
    "launches": ("small_kernels", "host", "launches_of_prefills"),
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
}
"""The parts of a prefill but for what GPUs exchange."""
TIMES = "tpot", "ttft"
QUEUED = 0.95
"""The spread of the first token behind workers that prefill, in the logarithm: 80% of 57 published
points are inside, which taught nothing else (`python -m experiments.studies serving-points`)."""
BUSY = 0.9
"""Workers that prefill for more of their time let others wait."""
FEWEST = 1e-12
"""The least share of sequences that decode, and how exactly the share is found."""
PASS = 8192.0
"""Tokens of a pass at most, as engines have it unless they are told otherwise: short prompts that
come together are one pass."""


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
    groups: Any
    """Groups with attention of their own: as many prefills at once."""
    stages: Any
    """Stages of a pipeline: as many prefills at once, and launches of a decode."""
    tokens: Any
    """Tokens of a sequence in a decode."""
    chunks: Any
    """Chunks of a prompt, with a decode between each."""
    prompts: Any
    """Prompts that are prefilled at once."""
    blocks: Any
    latent: Any
    """1 with latent attention, else 0."""


class Factor(NamedTuple):
    """How many times as long as predicted a time is, by measured points."""

    expected: float = 1.0
    spread: float | None = None
    """What is left unsure, in the logarithm; that of all engines unless it is given."""


class Point(NamedTuple):
    """What a deployment gives under a load."""

    load: Load
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
    """Seconds of a token by part; collectives by kind."""
    first: Mapping[str, float]
    """Seconds of the kernels of a prefill by part."""
    limit: str
    """What most of a token's time is: a key of :data:`LIMITS`."""
    busy: float = 0.0
    """The share of the time in which workers that prefill for others do so."""

    @property
    def prefilling(self) -> bool:
        """Whether prefills ask for more time than decodes leave, or than their workers have."""
        prefills = self.parts["prefills"] + self.parts["launches_of_prefills"]
        return prefills > self.tpot.expected / 2 or self.busy > BUSY

    @property
    def tokens(self) -> Span:
        """Tokens a second of all sequences together, with the ends of their interval."""
        first, each = (np.array(span) for span in (self.ttft, self.tpot))
        osl = self.load.osl
        expected, high, low = self.sequences * osl / (first + (osl - 1) * each)
        return Span(float(expected), float(low), float(high))


def work_of(deployment: Deployment, decodes: Forward, prompt: Forward) -> PointWork:
    """What a deployment does in a decode and in a prefill."""
    return PointWork(
        decodes.seconds,
        prompt.seconds,
        float(deployment.cut.dp),
        float(deployment.cut.pp),
        deployment.tokens,
        prompt.chunks,
        prompt.prompts,
        len(decodes.kinds),
        float(deployment.shape.latent is not None),
    )


def decode_parts(work: PointWork, values: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of a token by the parts of a decode, with what the engine adds."""
    attention, context, inner, head, exchange = work.decode
    seconds = {
        "products_of_attention": attention,
        "kv_cache": context,
        "mlps_and_experts": inner,
        "head": head,
        "collectives": exchange,
        "small_kernels": work.blocks * values["block"],
        "host": work.stages * values["host"],
    }
    return {name: value / work.tokens for name, value in seconds.items()}


def prefills(work: PointWork, due: Any) -> Any:
    """Seconds of so many prefills between decodes, which groups of attention share."""
    attention = work.prefill.attention + work.prefill.context
    shared = attention / np.clip(due / work.prompts, 1.0, work.groups)
    return due * (sum(work.prefill) - attention + shared) / work.stages


def launches_of_prefills(work: PointWork, due: Any, values: Mapping[str, Any]) -> Any:
    """Seconds of the host for so many prefills."""
    return due * work.chunks / work.prompts * values["prefill_host"]


def prompts_together(load: Load, due: float, groups: float) -> float:
    """Prompts of a pass, if so many are due between decodes."""
    return float(np.clip(due / groups, 1.0, max(1.0, PASS / load.isl)))


def tpot(work: PointWork, load: Load, values: Mapping[str, Any]) -> Any:
    """Seconds of each further token."""
    due = load.concurrency / (load.osl - 1)
    launches = launches_of_prefills(work, due, values)
    return sum(decode_parts(work, values).values()) + prefills(work, due) + launches


def ttft(work: PointWork, load: Load, values: Mapping[str, Any]) -> Any:
    """Seconds until the first token. There is a decode between the chunks of a prompt."""
    waits = 1 + values["wait"] * load.concurrency ** values["crowd"]
    first = first_token(work, waits, values)
    return first + (work.chunks - 1) * work.tokens * sum(decode_parts(work, values).values())


def first_token(work: PointWork, waits: Any, values: Mapping[str, Any]) -> Any:
    """Seconds until the first token, if its prefill takes so many times as long as alone."""
    first = values["first"] * work.prompts * sum(work.prefill) * waits
    hosts = values["first_host"] + (work.chunks - 1) * values["prefill_host"]
    hosts += values["latent"] * work.latent
    return first + hosts + work.tokens * sum(decode_parts(work, values).values())


@cache
def overheads(engine: str) -> Mapping[str, float]:
    """What an engine adds, by name; what all engines share is in it."""
    rows = rows_of(Path(__file__).with_name("overheads.csv"))
    return {row["name"]: float(row["value"]) for row in rows if row["engine"] in ("all", engine)}


def spread_of(deployment: Deployment, time: str, *, queued: bool = False) -> float:
    """The spread of a time, in the logarithm: that of points of latent attention, of first tokens
    that are `queued` behind workers that prefill, or of others."""
    if queued and time == "ttft":
        return QUEUED
    latent = "_latent" if deployment.shape.latent else ""
    return overheads(deployment.engine)[f"spread_{time}{latent}"]


def point(
    deployment: Deployment,
    machine: Topology,
    load: Load,
    *,
    factors: tuple[Factor, Factor] = (Factor(), Factor()),
    level: float = LEVEL,
    workers: PrefillWorkers | None = None,
    chunk: float = 0,
) -> Point:
    """The operating point of a load. `factors` on TPOT and TTFT are those of measured points. With
    `workers` the deployment is that of each worker that decodes, and the load that of all. Prompts
    are cut in chunks of so many tokens; 0: they are not.

    Raises InputError if the weights leave no room for a sequence.
    """
    tokens = load.isl + load.osl
    longest = deployment.shape.positions or deployment.shape.longest
    if 0 < longest < tokens:
        raise InputError(
            f"{tokens:.0f} tokens of a prompt and its answer: {deployment.model} has {longest} "
            "positions"
        )
    decoders = workers.decoders if workers else 1
    fits = decoders * _fits(deployment, tokens)
    values, most = overheads(deployment.engine), min(float(load.concurrency), fits)
    if workers:
        _fits(workers.deployment, load.isl)
    before, where = (workers.deployment, workers.machine) if workers else (deployment, machine)
    groups, servers = before.cut.dp, workers.number if workers else 1

    @cache
    def at(decoding: float) -> tuple[dict[str, float], float, float, float]:
        """The parts of a token, TPOT and TTFT if so many sequences decode, and how busy workers
        that prefill are."""
        decodes = decode(deployment, machine, decoding / decoders, load.isl + load.osl / 2)
        due = 0.0 if workers else decoding / (load.osl - 1)
        together = prompts_together(load, due, groups)
        prompt = prefill(before, where, load.isl, chunk=chunk, prompts=together)
        work = work_of(deployment, decodes, prompt)
        parts = decode_parts(work, values)
        del parts["collectives"]
        parts |= {name: each / work.tokens for name, each in decodes.collectives.items()}
        parts["pipeline"] = _idle(decodes, work, values)
        parts["prefills"] = prefills(work, due)
        parts["launches_of_prefills"] = launches_of_prefills(work, due, values)
        each = factors[0].expected * sum(parts.values())
        if workers is None:
            first, busy = ttft(work, load._replace(concurrency=most), values), 0.0
        else:
            # groups of attention are as many servers
            alone = work._replace(stages=float(before.cut.pp), groups=float(groups))
            service = prefills(alone, groups) / groups + launches_of_prefills(work, 1.0, values)
            busy = decoding / ((load.osl - 1) * each) * service / servers
            # mean value analysis: a new prompt sees the others in the queue (Bard and Schweitzer)
            idle = 1 - busy * (most - 1) / most
            wait = service * (1 / idle - 1) if idle > 0 else inf
            first = first_token(work, 1.0, values) + wait + workers.sent
        return parts, float(each), float(factors[1].expected * first), float(busy)

    def too_few(decoding: float) -> float:
        """Little's law: a sequence decodes for so much of its time."""
        _, each, first, _ = at(decoding)
        further = float(load.osl - 1) * each
        return most * further / (first + further) - decoding

    few = FEWEST * most
    decoding: float = brentq(too_few, few, most, xtol=few, rtol=FEWEST)
    parts, each, first, busy = at(decoding)
    if workers:
        # near a full queue, the time of the first token is what Little's law leaves
        first = (most / decoding - 1) * float(load.osl - 1) * each
    parts = {name: factors[0].expected * float(seconds) for name, seconds in parts.items()}
    prompt = prefill(before, where, load.isl, chunk=chunk)
    spans = []
    for name, factor, seconds in zip(TIMES, factors, (each, first), strict=True):
        usual = spread_of(deployment, name, queued=workers is not None)
        spread = usual if factor.spread is None else factor.spread
        wide = exp(quantile(level) * spread)
        spans.append(Span(seconds, seconds / wide, seconds * wide))
    return Point(
        load,
        spans[1],
        spans[0],
        most,
        decoding / most,
        fits,
        parts,
        {words: float(getattr(prompt.seconds, name)) for name, words in PREFILL.items()}
        | prompt.collectives,
        _limit(deployment, parts, decoding / decoders),
        busy,
    )


def iteration(deployment: Deployment, machine: Topology, served: Point, decoders: int = 1) -> Step:
    """The graph of a decode of an operating point, simulated."""
    sequences, load = served.decoding * served.sequences / decoders, served.load
    decodes = decode(deployment, machine, sequences, load.isl + load.osl / 2)
    values = overheads(deployment.engine)
    return decodes.step(values["block"], values["host"])


def _fits(deployment: Deployment, tokens: float) -> float:
    """Sequences of so many tokens that fit: whole ones in each group of attention."""
    room = deployment.fits(tokens)
    fits = float(deployment.cut.dp * floor(room / deployment.cut.dp))
    if fits < 1:
        missing = (1 - room / deployment.cut.dp) * deployment.kv_bytes(tokens)
        missing *= deployment.stage_share
        raise InputError(
            f"{deployment.model} in {deployment.precision} with a sequence of {tokens:g} tokens "
            f"needs {missing / 1e9:.3g} GB more than each of {deployment.cut.gpus} "
            f"{deployment.device} has: take more GPUs, or fewer bits"
        )
    return fits


def _idle(decodes: Forward, work: PointWork, values: Mapping[str, float]) -> float:
    """Seconds of a token in which its stages wait for each other, by the simulated graph."""
    if work.stages == 1:
        return 0.0
    step = decodes.step(values["block"], values["host"])
    busy: float = sum(decode_parts(work, values).values())
    return float(max(0.0, decodes.round_seconds(step) / work.tokens - busy))


def _limit(deployment: Deployment, parts: Mapping[str, float], sequences: float) -> str:
    """What most of a token's time is."""
    chip = chip_of(deployment.device, deployment.multiplied)
    flops = 2 * deployment.shape.active_parameters * sequences / deployment.cut.tp
    reads = deployment.weights * deployment.cut.pp / chip.bandwidth > flops / chip.flops
    products = "memory" if reads else "arithmetic"
    seconds = {name: sum(parts[part] for part in own) for name, own in LIMITS.items()}
    seconds[products] += sum(parts[name] for name in PRODUCTS_OF_MODEL)
    return max(seconds, key=seconds.__getitem__)
