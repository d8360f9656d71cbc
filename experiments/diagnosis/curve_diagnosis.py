"""The diagnosis of one curve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from experiments.diagnosis.advice import advice
from experiments.diagnosis.anomalies import anomalies, span
from experiments.diagnosis.envelope import DECISIVE_SHARE, Envelope, Piece, fit, regimes
from experiments.diagnosis.expectation import ALARM, Expectation, Expected
from experiments.diagnosis.findings import FAR_BELOW, FEWEST_POINTS, MISFIT, Finding, FindingKind
from experiments.diagnosis.plateau import Plateau, nodes_of, plateau
from experiments.diagnosis.shape import CurveColumns, curve_columns
from experiments.measurements import Curve
from experiments.measurements.collectives import bus_factor
from experiments.output import counted
from experiments.spellings import NCCL_MODEL
from topologies.topology import Floats, Longs
from topologies.units import format_bandwidth, format_bytes, format_seconds

GUESS = " (the machine is a guess by the log: name it with --topology)"
LARGEST_SIZES = 3
"""How many of the largest sizes a plateau is looked for at."""


class CurveVerdict(StrEnum):
    """What a diagnosis says of a curve as a whole."""

    BELOW = "below expectation"
    ABNORMAL = "abnormal"
    TOO_FEW = "too few points to judge"
    AS_EXPECTED = "as expected"
    TOO_FAST = "faster than the links allow"
    BELOW_A_GUESS = "below a guess: name the machine"
    HEALTHY = "healthy"


@dataclass(frozen=True)
class Diagnosis:
    """A curve and what was recognised in it."""

    curve: Curve
    columns: CurveColumns
    envelope: Envelope
    regimes: tuple[str, ...]
    findings: tuple[Finding, ...]
    """Its findings, alarms first."""
    expected: Expected | None
    """What the machine should give, if a machine is known."""
    plateau: Plateau | None
    causes: tuple[str, ...] = ()
    """What may make it slower than expected."""

    @property
    def advice(self) -> tuple[str, ...]:
        """What to try, by the findings."""
        if self.expected is None:
            return advice(self.curve, self.findings)
        curve = replace(self.curve, nodes=nodes_of(self.curve, self.expected.topology))
        return (*advice(curve, self.findings), *_better(self, self.expected))

    @property
    def abnormal(self) -> bool:
        """Whether a finding is an alarm."""
        return any(finding.alarm for finding in self.findings)

    @property
    def too_short(self) -> bool:
        """Whether there are too few points to judge."""
        return len(self.columns.size) < FEWEST_POINTS

    @property
    def verdict(self) -> CurveVerdict:
        """An alarm counts even if the curve has too few points for more. Few points are judged by
        what is expected."""
        if self.abnormal:
            alarms = [finding for finding in self.findings if finding.alarm]
            return CurveVerdict.BELOW if alarms == [self.below] else CurveVerdict.ABNORMAL
        kinds = {finding.kind for finding in self.findings}
        if FindingKind.BELOW_EXPECTATION in kinds:
            return CurveVerdict.BELOW_A_GUESS
        if not self.too_short:
            return CurveVerdict.HEALTHY
        if self.expected is None or not self.expected.intervals:
            return CurveVerdict.TOO_FEW
        is_fast = FindingKind.BEATS_THE_BOUND in kinds
        return CurveVerdict.TOO_FAST if is_fast else CurveVerdict.AS_EXPECTED

    @property
    def below(self) -> Finding | None:
        """The alarm that times are below expectation, if there is one."""
        kind = FindingKind.BELOW_EXPECTATION
        return next((each for each in self.findings if each.alarm and each.kind is kind), None)

    @property
    def busbw(self) -> Floats:
        """Bus bandwidth in bytes/s, shape (points,); algbw if the number of ranks is unknown."""
        ranks = self.curve.ranks
        factor = bus_factor(self.curve.collective, ranks) if ranks else 1.0
        return self.columns.rate * factor

    @property
    def fraction(self) -> Floats | None:
        """Expected over measured time, shape (points,): 1 is as fast as expected."""
        return self.expected.seconds / self.columns.seconds if self.expected else None

    @property
    def facts(self) -> tuple[str, ...]:
        """α, β and the plateau in words."""
        return tuple(_facts(self))


def diagnose(curve: Curve, expectation: Expectation | None = None) -> Diagnosis:
    """Judge a curve by its shape, and by what the machine should give.

    Raises InputError for a curve without points.
    """
    points = curve_columns(curve)
    findings = anomalies(points)
    if curve.alone:
        findings = _as_notes(findings)
    healthy = _healthy(points, findings)
    envelope = fit(points.size[healthy], points.seconds[healthy])
    expected = expectation(curve, points.size) if expectation else None
    if len(points.size) < FEWEST_POINTS:
        blank, findings = ("",) * len(points.size), _as_notes(findings)
        if expected:
            findings = (*_against_machine(curve, points, expected, False), *findings)
        return Diagnosis(curve, points, envelope, blank, findings, expected, None)
    flat = _is_flat(points, envelope)
    limit = _plateau(curve, points, expected) if flat else None
    if expected and (misfit := _misfit(points, expected)):
        alarm = misfit.alarm and not points.host and not _guesses_nodes(curve, expected)
        findings = (misfit._replace(alarm=alarm), *findings)
        limit = limit and limit.without_links()
    elif expected:
        findings = (*_against_machine(curve, points, expected, flat), *findings)
    return Diagnosis(curve, points, envelope, regimes(points, envelope), findings, expected, limit)


def _better(diagnosis: Diagnosis, expected: Expected) -> Iterator[str]:
    """A line for each algorithm that should be much faster than the forced one, at sizes with an
    alarm."""
    alarms = [finding.places for finding in diagnosis.findings if finding.alarm]
    sick = sorted({place for places in alarms for place in places} if expected.better else ())
    share = {k: float(expected.better_s[k] / diagnosis.columns.seconds[k]) for k in sick}
    for name in dict.fromkeys(expected.better[k] for k in sick):
        # only an algorithm that is so many times as fast is worth a word
        places = [k for k in sick if expected.better[k] == name and share[k] < 1 / 1.25]
        if places and name not in expected.algorithm:
            sizes = ", ".join(format_bytes(diagnosis.columns.size[k]) for k in places)
            yield (
                f"{name} should take {min(share[k] for k in places):.0%} of this time at {sizes}: "
                f"repeat without forcing {diagnosis.curve.algorithm}{_force(diagnosis, name)}"
            )


def _force(diagnosis: Diagnosis, name: str) -> str:
    value = NCCL_MODEL.get(name, "nvls" if name == "nvls" else "")
    if diagnosis.curve.uses_mpi or not value:
        return ""
    return f", or with NCCL_ALGO={value.upper() if value == 'nvls' else value.capitalize()}"


def _plateau(curve: Curve, points: CurveColumns, expected: Expected | None) -> Plateau | None:
    return plateau(curve, float(points.rate.max()), expected.topology if expected else None)


def _as_notes(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings as notes, but for wrong results: the curve has too few points or is no job's."""
    return tuple(
        finding._replace(alarm=finding.kind is FindingKind.WRONG_RESULT) for finding in findings
    )


def _misfit(points: CurveColumns, expected: Expected) -> Finding | None:
    """The finding that a profile belongs to another machine.

    Times are MISFIT times as long at every size, or as short at the largest ones, which no fault
    explains. `factor` is how many times slower the machine is.
    """
    ratio = points.seconds / expected.seconds
    above = (ratio > MISFIT) & (points.seconds > expected.high)
    below = (ratio < 1 / MISFIT) & (points.seconds < expected.low)
    slow, fast = bool(above.all()), bool(below[-LARGEST_SIZES:].all())
    if not expected.profile or not (slow or fast):
        return None
    places = tuple(np.flatnonzero((ratio > MISFIT) | (ratio < 1 / MISFIT)).tolist())
    low, high = ratio[list(places)].min(), ratio[list(places)].max()
    text = (
        f"{span(points, places)}: {low:.3g} to {high:.3g} times as long as by the profile "
        f"{expected.profile}"
    )
    text += (
        ": it is of another machine, or this one is slow at every size"
        if slow
        else ": it is of another machine"
    )
    return Finding(
        FindingKind.PROFILE_DOES_NOT_FIT,
        places,
        float(np.median(ratio[-LARGEST_SIZES:])),
        text,
        alarm=slow,
    )


def _guesses_nodes(curve: Curve, expected: Expected) -> bool:
    several = curve.nodes is None and nodes_of(curve, expected.topology) > 1
    return several and not expected.placed


def _healthy(points: CurveColumns, findings: tuple[Finding, ...]) -> Longs:
    """The places without an alarm; all places if fewer than two have none."""
    sick = {place for finding in findings if finding.alarm for place in finding.places}
    places = range(len(points.size))
    healthy = np.array([place for place in places if place not in sick], dtype=int)
    return healthy if len(healthy) >= 2 else np.arange(len(points.size))


def _is_flat(points: CurveColumns, envelope: Envelope) -> bool:
    """Whether bandwidth counts most at the largest size."""
    return float(envelope.pieces[-1].share(points.size[-1])) > DECISIVE_SHARE


def _against_machine(
    curve: Curve, points: CurveColumns, expected: Expected, flat: bool
) -> Iterator[Finding]:
    """Findings about times far above what is expected, or below the bound. `flat`: whether
    bandwidth counts most at the largest size."""
    guess = _guesses_nodes(curve, expected) or (expected.guess and curve.nodes != 1)
    below = _below(points, expected)
    if below:
        worst = max(below, key=lambda k: points.seconds[k] / expected.seconds[k])
        factor = float(points.seconds[worst] / expected.seconds[worst])
        where = f"{span(points, below)}: " if len(below) > 1 else ""
        text = f"{where}{_compared(curve, points, expected, worst)}"
        text += _if_filled(curve, expected)
        yield Finding(FindingKind.BELOW_EXPECTATION, below, factor, text, not guess)
    elif flat and not expected.intervals:
        yield from _far_below(curve, points, expected, guess)
    faster = np.flatnonzero(expected.bound > points.seconds * 1.02)
    if len(faster):
        verb = "is" if len(faster) == 1 else "are"
        text = (
            f"{counted(len(faster), 'size')} {verb} faster than the bound of that machine: is it "
            f"another machine?"
        )
        yield Finding(FindingKind.BEATS_THE_BOUND, tuple(faster.tolist()), 1.0, text, alarm=False)
    yield from _outside(points, expected, below)


def _below(points: CurveColumns, expected: Expected) -> tuple[int, ...]:
    """The sizes below expectation: two neighbours at least. Of few sizes each counts."""
    slow = points.seconds > expected.alarm
    if not expected.intervals or len(slow) < FEWEST_POINTS:
        return tuple(np.flatnonzero(slow & bool(expected.intervals)).tolist())
    has_slow_neighbour = np.zeros_like(slow)
    has_slow_neighbour[1:] |= slow[:-1]
    has_slow_neighbour[:-1] |= slow[1:]
    return tuple(np.flatnonzero(slow & has_slow_neighbour).tolist())


def _compared(curve: Curve, points: CurveColumns, expected: Expected, place: int) -> str:
    """A measured time beside what is expected, as bus bandwidths where the ranks are known."""
    sure, nbytes = expected.intervals[place], float(points.size[place])
    factor = nbytes * (bus_factor(curve.collective, curve.ranks) if curve.ranks else 1.0)
    name = "busbw" if curve.ranks else "algbw"
    least = format_bandwidth(factor / sure.upper(ALARM))
    share = sure.expected / points.seconds[place]
    return (
        f"{format_bytes(nbytes)} has {name} {format_bandwidth(factor / points.seconds[place])}, "
        f"{share:.0%} of the {format_bandwidth(factor / sure.expected)} that {expected.by} should "
        f"give{GUESS * expected.guess}; {(1 + ALARM) / 2:.1%} of runs have more than {least}"
    )


def _if_filled(curve: Curve, expected: Expected) -> str:
    if not _guesses_nodes(curve, expected):
        return ""
    nodes = nodes_of(curve, expected.topology)
    return f", if the ranks fill {nodes} nodes one after the other (else: --placement)"


def _far_below(
    curve: Curve, points: CurveColumns, expected: Expected, guess: bool
) -> Iterator[Finding]:
    """The finding of a plateau far below what a profile without intervals expects."""
    fraction = expected.seconds / points.seconds
    top = int(np.argmax(fraction[-LARGEST_SIZES:])) + max(len(fraction) - LARGEST_SIZES, 0)
    if fraction[top] >= FAR_BELOW:
        return
    nodes = nodes_of(curve, expected.topology)
    kind = FindingKind.FAR_BELOW if nodes > 1 else FindingKind.FAR_BELOW_IN_A_NODE
    text = (
        f"{format_bytes(points.size[top])}: {fraction[top]:.0%} of what {expected.algorithm[top]} "
        f"should give here"
    )
    text += ": merging and copies on the host are not in that" if points.host else ""
    text += _if_filled(curve, expected)
    places = tuple(range(max(len(fraction) - LARGEST_SIZES, 0), len(fraction)))
    yield Finding(kind, places, float(1 / fraction[top]), text, not points.host and not guess)


def _outside(points: CurveColumns, expected: Expected, below: tuple[int, ...]) -> Iterator[Finding]:
    """The finding of times outside their intervals that are not below expectation."""
    outside = (points.seconds > expected.high) | (points.seconds < expected.low)
    places = np.array([k for k in np.flatnonzero(outside).tolist() if k not in below], dtype=int)
    if expected.intervals and len(places):
        level, ratio = expected.intervals[0].level, points.seconds / expected.seconds
        worst = int(places[np.argmax(np.abs(np.log(ratio[places])))])
        text = (
            f"{len(places)} of {counted(len(ratio), 'size')}, by the interval of {level:.0%} of "
            f"runs; {format_bytes(points.size[worst])} takes {ratio[worst]:.3g} times the "
            f"expected time"
        )
        factor = float(max(ratio[worst], 1 / ratio[worst]))
        yield Finding(FindingKind.OUTSIDE, tuple(places.tolist()), factor, text, alarm=False)


def _facts(diagnosis: Diagnosis) -> Iterator[str]:
    expected = diagnosis.expected
    kinds = [finding.kind for finding in diagnosis.findings]
    if expected and expected.intervals and FindingKind.BELOW_EXPECTATION not in kinds:
        yield _compared(diagnosis.curve, diagnosis.columns, expected, len(expected.seconds) - 1)
    if diagnosis.too_short:
        return
    columns, pieces = diagnosis.columns, diagnosis.envelope.pieces
    if float(pieces[0].share(columns.size[0])) < 1 - DECISIVE_SHARE:
        latency = pieces[0].latency
        yield f"α {format_seconds(latency)} for the smallest{_steps(diagnosis.curve, latency)}"
    yield from map(_protocol, pieces)
    if diagnosis.plateau:
        yield f"plateau {diagnosis.plateau.text}"
    elif pieces[-1].half > columns.size[-1] / 2:
        yield (
            f"no plateau up to {format_bytes(columns.size[-1])}: measure larger sizes to see what "
            f"the links give"
        )


def _protocol(piece: Piece) -> str:
    sizes = f"{format_bytes(piece.start)} to {format_bytes(piece.end)}"
    # a smaller share of the time is not worth a word
    if piece.share(piece.end) < 1e-3:
        return f"from {sizes}: {format_seconds(piece.latency)} whatever the size"
    rate = format_bandwidth(1 / piece.per_byte)
    if piece.latency <= 0:
        return f"from {sizes}: {rate} (algbw)"
    return (
        f"from {sizes}: {format_seconds(piece.latency)} + V / {rate} (algbw), half of it at "
        f"{format_bytes(piece.half)}"
    )


def _steps(curve: Curve, latency: float) -> str:
    """The latency of one step of the forced algorithm, or of the one that libraries choose for
    small sizes; empty without ranks."""
    ranks = curve.ranks or 0
    if ranks < 2 or curve.collective not in ("all_reduce", "all_gather", "reduce_scatter"):
        return ""
    phases = 2 if curve.collective == "all_reduce" else 1
    doublings = int(np.ceil(np.log2(ranks)))
    if "ring" in curve.algorithm:
        name, steps = "a ring", (ranks - 1) * phases
    elif "doubling" in curve.algorithm or curve.uses_mpi:
        name, steps = "recursive doubling", doublings
    else:
        name, steps = "a tree", doublings * phases
    return f": {format_seconds(latency / steps)} a step of {name} ({counted(steps, 'step')})"
