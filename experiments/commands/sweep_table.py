"""The tables of `simctl sweep`: a narrow one that answers the question, and one of all columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isinf, isnan
from typing import TYPE_CHECKING

from experiments.simulations.sweep_rows import SweepRow
from experiments.streaming import Column
from experiments.terms import footnote
from experiments.text_lines import narrowed
from simulator.collectives import Algorithm
from topologies.units import format_bandwidth, format_bytes, format_seconds, in_binary

if TYPE_CHECKING:
    from simulator.profile import Profile

TIME, RATIO, BANDWIDTH, BYTES = (
    len(widest) for widest in ("999.9ms", "999.999", "999.9GB/s", "3.8125GiB")
)
WIDEST = 100
"""Characters of a line of the narrow table."""
SPAN = len("999.9ms - 999.9ms")
DISPENSABLE = ("busbw", "formula", "of bound", "difference")
"""Columns that the narrow table leaves out, in this order, where long names need their place."""


UNKNOWN_STEPS = 9999
"""The most steps of an algorithm without a formula that the table has place for."""


def columns(
    algorithms: Sequence[Algorithm],
    ranks: Sequence[int],
    sizes: Sequence[float],
    profile: Profile | None = None,
    *,
    wide: bool,
    inexact: bool = False,
) -> list[Column[SweepRow]]:
    """The columns with widths that hold every row to come. `inexact` is whether fair sharing has a
    tolerance."""
    case_columns = _which(algorithms, ranks, sizes, profile)
    protocols = [protocol.name for protocol in profile.protocols] if profile else []
    if profile and profile.uncertainty:
        case_columns += _interval(profile.uncertainty.level, wide=wide)
    if wide:
        return [
            *case_columns,
            *_times(wide, inexact),
            *_all(algorithms, ranks, sizes),
            *_verdict(protocols, wide),
        ]
    busbw = Column[SweepRow]("busbw", lambda row: format_bandwidth(row.busbw_Bps), BANDWIDTH)
    narrow = [*case_columns, *_times(wide, inexact), busbw, *_verdict(protocols, wide)]
    widths = {column.heading: max(len(column.heading), column.width) for column in narrow}
    shown = narrowed(widths, DISPENSABLE, WIDEST)
    return [column for column in narrow if column.heading in shown]


def explanation(rows: Sequence[SweepRow], shown: Sequence[Column[SweepRow]], *, wide: bool) -> str:
    """What the words of the table mean, the reasons of verdicts that the narrow table leaves out,
    and what no time includes. `shown` are the columns of the table."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.verdict.reason:
            names = reasons.setdefault(row.verdict.word, {}).setdefault(row.verdict.reason, [])
            names += [row.algorithm] * (row.algorithm not in names)
    headings = [column.heading for column in shown]
    terms = ["V", *(term for term in ("off by", "of bound", "busbw") if term in headings)]
    terms += ["expected", "of runs"] * ("expected" in headings)
    terms += ["redundant", *reasons] if wide else [*reasons, "--wide"]
    terms += ["not included"] * ("protocol" not in headings)
    examples = {
        word: [_shortened(f"{reason} ({', '.join(names)})") for reason, names in known.items()]
        for word, known in reasons.items()
    }
    ranks = dict[str, list[int]]()
    for row in rows:
        ranks.setdefault(row.bounds_left_out, []).append(row.ranks)
    ranks.pop("", None)
    left_out = [_shortened(f"{names} (p = {_span(counts)})") for names, counts in ranks.items()]
    terms += ["left out"] * bool(left_out)
    return footnote(terms, {**({} if wide else examples), "left out": left_out})


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _shortened(text: str) -> str:
    most = WIDEST - len("  not included  - ")
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def _which(
    algorithms: Sequence[Algorithm],
    ranks: Sequence[int],
    sizes: Sequence[float],
    profile: Profile | None,
) -> list[Column[SweepRow]]:
    """What is simulated. An algorithm's name has its pieces under the profile."""
    binary = in_binary(sizes)
    known = {name for each in algorithms for name in each.by_library or (each.name,)}
    if profile is not None:
        known |= {profile.divided(name, size) for name in known for size in sizes}
    names = max(map(len, known))
    size = max(len(format_bytes(size, binary)) for size in sizes)
    return [
        Column("algorithm", lambda row: row.algorithm, names, words=True),
        Column("p", lambda row: str(row.ranks), len(str(max(ranks)))),
        Column("size", lambda row: format_bytes(row.size_B, binary), size),
    ]


def _times(wide: bool, inexact: bool) -> list[Column[SweepRow]]:
    first, group = ("simulated", "time") if wide else ("time", "")
    error = Column[SweepRow](
        "off by", lambda row: format_seconds(row.grid_error_s or 0.0), TIME, group
    )
    return [
        Column(first, lambda row: format_seconds(row.time_s), TIME, group),
        *([error] if inexact else []),
        Column("formula", lambda row: _known(format_seconds, row.formula_s), TIME, group),
        Column("difference", _difference, 0, group),
        Column("of bound", lambda row: _ratio(row.over_bound), RATIO, group),
    ]


def _interval(level: float, *, wide: bool) -> list[Column[SweepRow]]:
    """What a run is expected to take."""
    from experiments.profiles.interval_levels import span

    group = "a run" if wide else ""
    return [
        Column("expected", lambda row: format_seconds(row.expected_s or 0.0), TIME, group),
        Column(f"{level:.0%} of runs", lambda row: span(row.low_s, row.high_s), SPAN, group),
    ]


def _all(
    algorithms: Sequence[Algorithm], ranks: Sequence[int], sizes: Sequence[float]
) -> list[Column[SweepRow]]:
    """The columns that only the wide table has."""
    binary, most = in_binary(sizes), max(ranks)
    steps = max(algorithm.cost.steps(p) for algorithm in algorithms for p in ranks)
    steps = max(steps, *(UNKNOWN_STEPS for each in algorithms if not each.cost.known), 0)
    bound = len(f"cut of {most // 2} of {most} ranks")

    def nbytes(value: float) -> str:
        return _known(lambda known: format_bytes(known, binary), value)

    sent, peak, redundant = "bytes sent", "peak memory of a rank", "redundant memory"
    return [
        Column("bound", lambda row: row.bound, bound, "time", words=True),
        Column("algbw", lambda row: format_bandwidth(row.algbw_Bps), BANDWIDTH, "bandwidth"),
        Column("busbw", lambda row: format_bandwidth(row.busbw_Bps), BANDWIDTH, "bandwidth"),
        Column("steps", lambda row: str(row.steps), len(str(steps))),
        Column("simulated", lambda row: nbytes(row.volume_B), BYTES, sent),
        Column("formula", lambda row: nbytes(row.volume_formula_B), BYTES, sent),
        Column("simulated", lambda row: nbytes(row.peak_B), BYTES, peak),
        Column("formula", lambda row: nbytes(row.peak_formula_B), BYTES, peak),
        Column("simulated", lambda row: nbytes(row.redundant_B), BYTES, redundant),
        Column("formula", lambda row: nbytes(row.redundant_formula_B), BYTES, redundant),
    ]


def _verdict(protocols: Sequence[str], wide: bool) -> list[Column[SweepRow]]:
    name = max(map(len, protocols), default=0)
    protocol = Column[SweepRow]("protocol", lambda row: row.protocol, name, words=True)
    verdict = Column[SweepRow](
        "verdict",
        lambda row: str(row.verdict) if wide else row.verdict.word,
        len("not claimed"),
        words=True,
    )
    return [protocol, verdict] if protocols else [verdict]


def _difference(row: SweepRow) -> str:
    """The difference from the formula, where the formula is claimed."""
    if not row.verdict.claimed:
        return "-"
    return f"{row.difference:+.2%}" if abs(row.difference) > 1e-9 else "0"


def _known(shown: Callable[[float], str], value: float) -> str:
    """A figure of a formula; "-" if there is no formula."""
    return "-" if isnan(value) else shown(value)


def _ratio(value: float) -> str:
    if isinf(value):
        return "-"
    return f"{value:.3f}" if value < 1e4 else f"{value:.3g}"
