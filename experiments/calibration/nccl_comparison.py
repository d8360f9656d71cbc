"""NCCL's own model of collectives (:mod:`simulator.cost_models.nccl`) on measured curves, for
comparison with a fit.

The machine contributes only the bandwidth of its links. In a job all channels are assumed to be
alike and as fast inside nodes as between them. The other assumptions are NVLink, Intel's CPUs and a
NIC without latency.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from experiments.calibration.known_paths import as_nodes, machine_for
from experiments.calibration.observations import FitCurve
from experiments.measurements import Curve
from experiments.profiles.profile_document import Calibrated
from experiments.spellings import NCCL_MODEL
from simulator.cost_models.nccl import (
    COLLECTIVES,
    GENERATIONS,
    PROTOCOLS,
    NcclJob,
    channels,
    choice,
)
from simulator.profile import Profile, Protocol
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.ring_search import find_rings
from topologies.topology import Floats

GPUS = {"V100": "volta", "A100": "ampere", "H100": "hopper", "H200": "hopper", "B200": "blackwell"}


def asked(text: str) -> str:
    """The generation in "nccl:GENERATION"; empty for "nccl". Raises InputError for other text."""
    name, _, generation = text.lower().partition(":")
    if name != "nccl" or (":" in text and generation not in GENERATIONS):
        raise InputError(
            f"--compare {text[:40]!r}: expected nccl, or nccl: and one of {', '.join(GENERATIONS)}"
        )
    return generation


def generations(curves: Iterable[Curve], chosen: str = "") -> dict[str, str]:
    """The GPUs' generation by a curve's source: `chosen`, or else as the curve says. Curves that do
    not say it are left out."""
    by_source = {
        curve.source: chosen or _generation(f"{curve.device} {curve.machine}") for curve in curves
    }
    return {source: generation for source, generation in by_source.items() if generation}


def _generation(words: str) -> str:
    """
    >>> _generation("NVIDIA GH200 120GB"), _generation("GeForce RTX 2080 Ti")
    ('hopper', '')
    """
    names = re.findall("|".join(GPUS), words.upper())
    return GPUS[names[0]] if names else ""


def of_profile(profile: Calibrated, machine: Blueprint, curve: FitCurve, generation: str) -> Floats:
    """Seconds by NCCL's own model, shape (sizes,), with the β of Simple in the profile of
    `machine`.

    The β is that of a job on as many nodes with as many ranks. On a machine of the catalogue it is
    that of all rings together. On nodes with a port each it is the β of `node` for one node, and
    for several the β of `network`, or that of `node` if that is less. Raises InputError if the
    profile has no such β.
    """
    simple = profile.protocols.get("Simple", {})
    if simple and machine.kind != "shape":
        return predict(curve, generation, _rings_bandwidth(profile.simulated(), curve, machine))
    kind = "node" if curve.nodes == 1 else "network"
    if kind not in simple:
        raise InputError(
            f"{profile.profile} has no Simple of links of kind {kind}: NCCL's own model has no "
            f"bandwidth"
        )
    return predict(curve, generation, _job_bandwidth(profile.simulated(), curve))


def _rings_bandwidth(profile: Profile, curve: FitCurve, machine: Blueprint) -> float:
    """β of Simple of all rings of a job together, bytes/s."""
    topology = machine_for(machine)(curve.ranks, curve.per_node)
    job = profile.apply(topology, _simple(profile), curve.algorithms[0])
    return find_rings(job, curve.ranks).bandwidth


def _simple(profile: Profile) -> Protocol:
    return next(protocol for protocol in profile.protocols if protocol.name == "Simple")


def _job_bandwidth(profile: Profile, curve: FitCurve) -> float:
    """β of Simple of the slowest links of a job, bytes/s: between nodes as crowded and as shared as
    there, inside as on one node."""
    simple = _simple(profile)
    inside = (
        simple.links["node"].bandwidth if "node" in simple.links and curve.per_node > 1 else np.inf
    )
    if curve.nodes == 1:
        return inside
    job = profile.apply(as_nodes(curve.ranks, curve.per_node), simple, curve.algorithms[0])
    return float(min(inside, *job.medium_bandwidth[job.link_kinds.are("network")]))


def predict(curve: FitCurve, generation: str, bandwidth: float) -> Floats:
    """Seconds by NCCL's own model, shape (sizes,), by the forced algorithm and protocol, or else by
    its choice.

    Seconds are nan if NCCL has no model. `bandwidth` is that of all channels together, in bytes/s.
    """
    names = tuple(
        dict.fromkeys(NCCL_MODEL[name] for name in curve.algorithms if name in NCCL_MODEL)
    )
    if not names or curve.collective not in COLLECTIVES:
        return np.full(len(curve.sizes), np.nan)
    protocols = tuple(name for name in PROTOCOLS if name in curve.protocols) or PROTOCOLS
    job = NcclJob(curve.collective, curve.ranks, curve.nodes, channels(generation, bandwidth))
    return np.array([choice(job, size, names, protocols).seconds for size in curve.sizes.tolist()])
