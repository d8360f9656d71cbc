"""A library on a machine whose links were measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from experiments.calibration.effects.effect import Prior
from experiments.calibration.effects.protocols import FED
from experiments.calibration.library import Library
from experiments.measurements import Curve
from topologies.errors import InputError


def port(curves: Iterable[Curve]) -> float:
    """Bytes/s of a node's port, from point-to-point runs between two nodes: the most that all pairs
    moved at once.

    In OSU's bandwidths of pairs, half of the ranks send to the other half. In its latencies of
    pairs, every other pair sends back. In other runs, ranks send round a ring, and one of them
    sends to the other node. A run without a number of nodes counts as a run between two. Raises
    InputError if there is no run.
    """
    rates = [
        _leaving(curve) * point.size / point.time_s
        for curve in curves
        if curve.collective == "send_recv" and curve.nodes in (2, None)
        for point in curve.points
        if not point.wrong
    ]
    if not rates:
        raise InputError(
            "no point-to-point run between two nodes: --links takes those of osu_mbw_mr, osu_bw, "
            "osu_latency"
        )
    return max(rates)


def _leaving(curve: Curve) -> float:
    """How many messages leave a node at once."""
    pairs = (curve.ranks or 2) // 2
    if curve.pattern == "ping_pong":
        return float(-(-pairs // 2))
    return float(pairs) if curve.pairs else 1.0


def linked(library: Library, bandwidth: float) -> Library:
    """A library on a machine whose nodes have ports of `bandwidth` bytes/s.

    Its last protocol gets all of that. The other protocols get the share that their flags leave,
    unless they are slower for another reason.
    """
    *faster, last = library.protocols
    protocols = (*(_slowed(prior, bandwidth) for prior in faster), _between(last, 1 / bandwidth))
    return replace(library, protocols=protocols)


def _slowed(prior: Prior, bandwidth: float) -> Prior:
    reached = prior.reached.get("network")
    usual = 1 / (reached * max(FED, bandwidth)) if reached else prior.slowness["network"]
    return _between(prior, max(usual, 1 / (prior.share * bandwidth)))


def _between(prior: Prior, slowness: float) -> Prior:
    kinds = tuple(prior.slowness) if prior.one_rate else ("network",)
    return replace(prior, slowness={**prior.slowness, **dict.fromkeys(kinds, slowness)})
