"""All that is said of one curve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from experiments.diagnosis.advice import advice
from experiments.diagnosis.anomalies import anomalies, span
from experiments.diagnosis.envelope import Envelope, Piece, fit
from experiments.diagnosis.expectation import Expectation, Expected
from experiments.diagnosis.findings import FAR_BELOW, FEWEST, MISFIT, Finding
from experiments.diagnosis.plateau import Plateau, nodes_of, plateau
from experiments.diagnosis.regimes import MOSTLY, regimes
from experiments.diagnosis.samples import Places, Samples, samples
from experiments.measurements import Curve
from experiments.measurements.collectives import bus_factor
from experiments.output import counted
from topologies.topology import Floats
from topologies.units import format_bandwidth, format_bytes, format_seconds

TOP = 3
"""How many of the largest sizes a plateau is looked for at."""
NOTHING = 1e-3
"""A share of the time that is not worth a word."""


@dataclass(frozen=True)
class Diagnosis:
    """A curve judged: its columns, the protocols found in it, a regime for each point, findings
    (alarms first), what is expected, and what limits the plateau."""

    curve: Curve
    samples: Samples
    envelope: Envelope
    regimes: tuple[str, ...]
    findings: tuple[Finding, ...]
    expected: Expected | None
    plateau: Plateau | None

    @property
    def advice(self) -> tuple[str, ...]:
        """What to try, by the findings."""
        return advice(self.curve, self.findings)

    @property
    def abnormal(self) -> bool:
        """Whether anything is."""
        return any(finding.alarm for finding in self.findings)

    @property
    def few(self) -> bool:
        """Whether there are too few points to judge."""
        return len(self.samples.size) < FEWEST

    @property
    def verdict(self) -> str:
        """In a word or some: what is found counts even where there are too few points for more."""
        return "abnormal" if self.abnormal else "too few points to judge" if self.few else "healthy"

    @property
    def busbw(self) -> Floats:
        """bytes/s as nccl-tests counts them, shape (points,); algbw where the number of ranks is
        unknown."""
        return self.samples.rate * (
            bus_factor(self.curve.collective, self.curve.ranks) if self.curve.ranks else 1.0
        )

    @property
    def fraction(self) -> Floats | None:
        """Of what is expected, shape (points,): 1 is as fast."""
        return self.expected.seconds / self.samples.seconds if self.expected else None

    @property
    def facts(self) -> tuple[str, ...]:
        """What α, β, the plateau and the machine say, in words."""
        return tuple(_facts(self))


def diagnose(curve: Curve, expected: Expectation | None = None) -> Diagnosis:
    """Judge a curve, by itself and by what is expected of it. Raises InputError for a curve without
    points."""
    points = samples(curve)
    found = anomalies(points)
    if curve.alone:
        found = _noted(found)
    sound = _sound(points, found)
    envelope = fit(points.size[sound], points.seconds[sound])
    expects = expected(curve, points.size) if expected else None
    if len(points.size) < FEWEST:
        found = _noted(found)
        blank = ("",) * len(points.size)
        return Diagnosis(curve, points, envelope, blank, found, expects, None)
    flat = _reached(points, envelope)
    top = (
        plateau(curve, float(points.rate.max()), expects.topology if expects else None)
        if flat
        else None
    )
    if expects and (off := _misfit(points, expects)):
        found = (
            off._replace(alarm=off.alarm and not points.host and not _guessed(curve, expects)),
            *found,
        )
        top = top and Plateau(top.rate, None, top.text.partition(":")[0])
    elif expects:
        found = (*_beside(curve, points, expects, flat), *found)
    return Diagnosis(curve, points, envelope, regimes(points, envelope), found, expects, top)


def _noted(found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings as notes, but for wrong results: of too few points, or of a job that was
    none."""
    return tuple(one._replace(alarm=one.kind == "wrong result") for one in found)


def _misfit(points: Samples, expected: Expected) -> Finding | None:
    """Whether a profile is of another machine: this one is slower by MISFIT at every size, or
    faster by that at the largest ones, which no fault makes it. `factor` is how many times slower
    it is."""
    ratio = points.seconds / expected.seconds
    slow, fast = bool((ratio > MISFIT).all()), bool((ratio[-TOP:] < 1 / MISFIT).all())
    if not expected.profile or not (slow or fast):
        return None
    places = tuple(np.flatnonzero((ratio > MISFIT) | (ratio < 1 / MISFIT)).tolist())
    least, most = ratio[list(places)].min(), ratio[list(places)].max()
    text = (
        f"{span(points, places)}: {least:.3g} to {most:.3g} times as long as by the profile "
        f"{expected.profile}"
    )
    text += (
        ": it is of another machine, or this one is slow at every size"
        if slow
        else ": it is of another machine"
    )
    return Finding("profile does not fit", places, float(np.median(ratio[-TOP:])), text, alarm=slow)


def _guessed(curve: Curve, expected: Expected) -> bool:
    """Whether nobody said which of the nodes the ranks are on."""
    return curve.nodes is None and nodes_of(curve, expected.topology) > 1


def _sound(points: Samples, found: tuple[Finding, ...]) -> Places:
    """The places without an alarm; all, if fewer than two are."""
    sick = {place for finding in found if finding.alarm for place in finding.places}
    sound = np.array([place for place in range(len(points.size)) if place not in sick], dtype=int)
    return sound if len(sound) >= 2 else np.arange(len(points.size))


def _reached(points: Samples, envelope: Envelope) -> bool:
    """Whether bandwidth counts most at the largest size."""
    return float(envelope.pieces[-1].share(points.size[-1])) > MOSTLY


def _beside(curve: Curve, points: Samples, expected: Expected, flat: bool) -> Iterator[Finding]:
    fraction = expected.seconds / points.seconds
    top = int(np.argmax(fraction[-TOP:])) + max(len(fraction) - TOP, 0)
    share = float(fraction[top])
    if flat and share < FAR_BELOW:
        nodes = nodes_of(curve, expected.topology)
        kind = "far below" if nodes > 1 else "far below in a node"
        guessed = _guessed(curve, expected)
        text = (
            f"{format_bytes(points.size[top])}: {share:.0%} of what {expected.algorithm[top]} "
            f"should give here"
        )
        text += ": merging and copies on the host are not in that" if points.host else ""
        text += (
            f", if the ranks fill {nodes} nodes one after the other (else: --placement)"
            if guessed
            else ""
        )
        places = tuple(range(max(len(fraction) - TOP, 0), len(fraction)))
        yield Finding(kind, places, 1 / share, text, not points.host and not guessed)
    faster = np.flatnonzero(expected.bound > points.seconds * 1.02)
    if len(faster):
        verb = "is" if len(faster) == 1 else "are"
        text = (
            f"{counted(len(faster), 'size')} {verb} faster than anything can be on that machine: "
            f"is it another one?"
        )
        yield Finding("beats the bound", tuple(faster.tolist()), 1.0, text, alarm=False)


def _facts(one: Diagnosis) -> Iterator[str]:
    if one.few:
        return
    first, last = one.envelope.pieces[0], one.envelope.pieces[-1]
    if float(first.share(one.samples.size[0])) < 1 - MOSTLY:
        yield (
            f"α {format_seconds(first.latency)} for the smallest{_steps(one.curve, first.latency)}"
        )
    yield from map(_protocol, one.envelope.pieces)
    if one.plateau:
        yield f"plateau {one.plateau.text}"
    elif last.half > one.samples.size[-1] / 2:
        yield (
            f"no plateau up to {format_bytes(one.samples.size[-1])}: larger sizes would say what "
            f"the links give"
        )


def _protocol(piece: Piece) -> str:
    sizes = f"{format_bytes(piece.start)} to {format_bytes(piece.end)}"
    if piece.share(piece.end) < NOTHING:
        return f"from {sizes}: {format_seconds(piece.latency)} whatever the size"
    rate = format_bandwidth(1 / piece.per_byte)
    if piece.latency <= 0:
        return f"from {sizes}: {rate} (algbw)"
    return (
        f"from {sizes}: {format_seconds(piece.latency)} + V / {rate} (algbw), half of it at "
        f"{format_bytes(piece.half)}"
    )


def _steps(curve: Curve, latency: float) -> str:
    """Latency a step, if the algorithm's steps are known; a tree's else, as libraries take one for
    small sizes."""
    if (
        not curve.ranks
        or curve.ranks < 2
        or curve.collective not in ("all_reduce", "all_gather", "reduce_scatter")
    ):
        return ""
    there_and_back = 2 if curve.collective == "all_reduce" else 1
    ring = "ring" in curve.algorithm
    doubling = "doubling" in curve.algorithm or curve.uses_mpi
    rounds = curve.ranks - 1 if ring else int(np.ceil(np.log2(curve.ranks)))
    steps = rounds * (1 if doubling and not ring else there_and_back)
    name = "a ring" if ring else "recursive doubling" if doubling else "a tree"
    return f": {format_seconds(latency / steps)} a step of {name} ({counted(steps, 'step')})"
