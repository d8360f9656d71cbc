"""The regime of each size: latency, bandwidth, memory, or the first size of a protocol."""

from __future__ import annotations

import numpy as np

from experiments.diagnosis.anomalies import memory
from experiments.diagnosis.curve_columns import CurveColumns
from experiments.diagnosis.envelope import Envelope

DECISIVE_SHARE = 2 / 3
"""The share of the time that a constant or a growing part needs to decide the regime."""


def regimes(columns: CurveColumns, envelope: Envelope) -> tuple[str, ...]:
    """ "latency", "bandwidth", "latency and bandwidth" or "memory" for each point; the first size
    of a further protocol is a "protocol switch"."""
    place = envelope.piece(columns.size)
    shares = [
        float(envelope.pieces[k].share(nbytes))
        for k, nbytes in zip(place, columns.size, strict=True)
    ]
    words = [_word(share) for share in shares]
    for switch in np.flatnonzero(np.diff(place)) + 1:
        words[switch] = "protocol switch"
    for point in memory(columns):
        words[point] = "memory"
    return tuple(words)


def _word(share: float) -> str:
    if share > DECISIVE_SHARE:
        return "bandwidth"
    return "latency" if share < 1 - DECISIVE_SHARE else "latency and bandwidth"
