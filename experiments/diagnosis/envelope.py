"""The protocols of a curve, each with an α and a β of the whole collective, and the regimes of its
sizes."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from experiments.diagnosis.anomalies import memory
from experiments.diagnosis.shape import NOISE, CurveColumns
from topologies.topology import Floats, Ints


class Piece(NamedTuple):
    """One protocol: T = `latency` + `per_byte` * V."""

    start: float
    """The first size in bytes."""
    end: float
    """The last size in bytes."""
    latency: float
    """Seconds."""
    per_byte: float
    """Seconds a byte."""

    def share(self, nbytes: Floats | float) -> Floats:
        """The part of the time that grows with size, 0 to 1."""
        moving = self.per_byte * np.asarray(nbytes)
        return np.asarray(moving / (self.latency + moving))

    @property
    def half(self) -> float:
        """n1/2: the bytes at which half of the bandwidth is reached."""
        return self.latency / self.per_byte if self.per_byte > 0 else float("inf")


class Envelope(NamedTuple):
    """The protocols of a curve."""

    pieces: tuple[Piece, ...]
    """The protocols by size, at least one."""

    def piece(self, nbytes: Floats) -> Ints:
        """Which piece each size is in, shape of `nbytes`."""
        starts = np.array([piece.start for piece in self.pieces])
        return np.asarray(np.maximum(np.searchsorted(starts, nbytes, side="right") - 1, 0))

    def __call__(self, nbytes: Floats) -> Floats:
        """Seconds of each size; between two pieces those of the faster one."""
        columns = [
            np.array([getattr(piece, name) for piece in self.pieces])
            for name in ("end", "latency", "per_byte")
        ]
        end, latency, per_byte = columns
        place = self.piece(nbytes)
        following = np.minimum(place + (nbytes > end[place]), len(self.pieces) - 1)
        lines = (latency[segment] + per_byte[segment] * nbytes for segment in (place, following))
        return np.asarray(np.minimum(*lines))


def fit(nbytes: Floats, seconds: Floats) -> Envelope:
    """The pieces with the least relative squared error; their number is chosen by Schwarz's
    criterion (BIC)."""
    # points that a fit uses: from a longer curve, so many that are spread evenly
    places = np.unique(np.linspace(0, len(nbytes) - 1, min(len(nbytes), 96)).astype(int))
    size, time = nbytes[places], seconds[places]
    lines, error = _lines(size, time)
    best = min(_segmented(error), key=lambda cuts: _criterion(error, cuts, len(size)))
    return Envelope(
        tuple(
            Piece(float(size[i]), float(size[j - 1]), *lines[i, j].tolist())
            for i, j in pairwise(best)
        )
    )


def _lines(size: Floats, time: Floats) -> tuple[Floats, Floats]:
    """α and 1/β of the points from i to j - 1, shape (n, n + 1, 2), and their relative squared
    error, (n, n + 1)."""
    u, v = 1 / time, size / time
    sums = [
        np.concatenate(([0.0], np.cumsum(column)))
        for column in (u, v, u * u, u * v, v * v, np.ones_like(u))
    ]
    su, sv, suu, suv, svv, count = (column[None, :] - column[:-1, None] for column in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        determinant = suu * svv - suv * suv
        sound = determinant > 1e-9 * suu * svv
        a = np.where(sound, (svv * su - suv * sv) / determinant, 0.0)
        b = np.where(sound, (suu * sv - suv * su) / determinant, sv / svv)
        a, b = (
            np.where(b < 0, su / suu, np.maximum(a, 0.0)),
            np.where(a < 0, sv / svv, np.maximum(b, 0.0)),
        )
    error = count - 2 * (a * su + b * sv) + a * a * suu + 2 * a * b * suv + b * b * svv
    return np.stack((a, b), axis=2), np.where(count >= 2, np.maximum(error, 0.0), np.inf)


def _segmented(error: Floats) -> list[list[int]]:
    """The best cuts into one, two, ... pieces, each with both ends: [0, ..., n]."""
    points = error.shape[0]
    if points < 2:
        return [[0, points]]
    cost, back, cuts_by_count = error[0], [], [[0, points]]
    for _ in range(1, min(3, points // 2)):
        total = np.where(np.isnan(error), np.inf, cost[:-1, None] + error)
        back.append(np.argmin(total, axis=0))
        cost = total.min(axis=0)
        cuts = [points]
        for step in reversed(back):
            cuts.append(int(step[cuts[-1]]))
        cuts_by_count.append([0, *reversed(cuts)])
    return cuts_by_count


def _criterion(error: Floats, cuts: list[int], points: int) -> float:
    total = sum(error[i, j] for i, j in pairwise(cuts)) if points > 1 else 0.0
    return float(points * np.log(total / points + NOISE**2) + 3 * len(cuts) * np.log(points))


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
