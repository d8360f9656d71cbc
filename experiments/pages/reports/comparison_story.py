"""Two results of one kind, as before and after; and several results as sections of a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, isfinite, log
from typing import Any

from experiments.answer_blocks import MOST_ROWS, Cell, Heading, Record, Remarks, Table
from experiments.output import counted
from experiments.pages.page import Block, Page
from experiments.pages.reports.collective_story import CAUSES
from experiments.pages.reports.report_file import page_of, timeline
from experiments.pages.reports.result import Result
from experiments.templates import heading, signed, written

CHECKS = ("formula", "difference", "launch_s")
"""Words in names of figures that check an answer: they are not compared."""
NOUNS = {
    "bound": "best lower bound",
    "over bound": "multiple of the bound",
    "volume": "bytes that all ranks send",
    "peak": "peak memory of the fullest rank",
    "redundant": "redundant: duplicate data over all ranks",
    "samples per s": "samples/s",
    "tokens per s": "tokens/s",
    "exposed": "exposed communication",
    "hidden": "hidden communication",
    "transfer": "waiting for own messages",
    "contention": "waiting behind messages of others",
    "slower peer": "waiting for a slower peer",
    "drain": "nothing left to do",
    "mfu": "share of the peak (MFU)",
}
"""Figures in words."""
SUMMARIES = {"run": "time_s", "train": "step_s", "plan": "step_s"}
"""Kinds whose answer is a summary, and the figure that counts most."""
POINTS = {
    "sweep": ("", ("algorithm", "ranks", "size_B"), "time_s"),
    "runs": ("", ("model", "strategy", "ranks", "batch"), "step_s"),
    "learn": ("", ("strategy", "ranks", "disturbance"), "seconds"),
    "plans": ("plans", ("plan",), "step_s"),
    "groups": ("calls", ("call", "algorithm", "ranks", "size_B"), "time_s"),
    "workload": ("ranks", ("rank",), "ends_s"),
    "diagnose": ("curves", ("collective", "ranks", "curve", "size_B"), "time_s"),
}
"""Kinds whose answer is rows: where they stand, what tells a row from others, and the time."""
Place = tuple[Any, ...]


def before_and_after(
    before: Result, after: Result, names: Sequence[str], *, pictures: bool
) -> Page:
    """What differs between two results of one kind, and below it both in full."""
    rows, missing = _compared(before, after)
    parameters = list(_changed(before, after))
    summary = [
        f"What changed from {names[0]} (before) to {names[1]} (after)?",
        _answer(before, rows),
        _reasons(parameters),
    ]
    heads = ["figure", "before", "after", "difference", "change"]
    blocks: list[Block] = [
        Table(
            "Figures before and after",
            lambda: (
                [Heading(text, number=k > 0) for k, text in enumerate(heads)],
                [_cells(*row) for row in rows[:MOST_ROWS]],
            ),
            ["change: the difference as a share of the figure before."],
        ),
        Table(
            "What changed in the parameters",
            lambda: (
                [Heading("parameter"), Heading("before"), Heading("after")],
                [[Cell(text) for text in row] for row in parameters],
            ),
        ),
    ]
    if missing:
        blocks.append(Remarks("Without a counterpart", missing))
    labels = [f"before, {names[0]}", f"after, {names[1]}"]
    results = [before, after]
    if before.spans and after.spans:
        # On one axis and next to each other, so that one can compare them by eye.
        both = [before.spans, after.spans]
        axis = max(spans.makespan for spans in both)
        titles = [f"Timeline {label}" for label in labels]
        blocks = [*(timeline(*each, axis) for each in zip(both, titles, strict=True)), *blocks]
        results = [replace(each, spans=None) for each in results]
    rest = sections(results, labels, pictures=pictures)
    title = f"Before and after: {names[0]} and {names[1]}"
    return Page(title, summary, [*blocks, *rest.blocks], rest.raw)


def sections(results: Sequence[Result], names: Sequence[str], *, pictures: bool) -> Page:
    """Several results below each other."""
    blocks: list[Block] = []
    raw: dict[str, Any] = {}
    titles = []
    for place, (result, name) in enumerate(zip(results, names, strict=True), 1):
        page = page_of(result, pictures=pictures, name=f"{place}-")
        titles.append(f"{name}: {page.title}.")
        blocks.append(Remarks(f"{name}: {page.title}", page.summary))
        blocks += [replace(block, title=f"{name}: {block.title}") for block in page.blocks]
        raw |= page.raw
    return Page(f"{counted(len(results), 'result')}", titles, blocks, raw)


def _compared(
    before: Result, after: Result
) -> tuple[list[tuple[str, str, float, float]], list[str]]:
    """The figures that both have, each with its name and field; and sentences on rows that only one
    of them has."""
    if before.kind in SUMMARIES:
        one, other = (_summary(result.report) for result in (before, after))
        both = {name: (value, other[name]) for name, value in one.items() if name in other}
        return [(_noun(name), name, *pair) for name, pair in both.items() if any(pair)], []
    field = POINTS[before.kind][2]
    unit = "_s" if field == "seconds" else field
    one, other = _points(before), _points(after)
    rows = [
        (_place(place, before.kind), unit, value, other[place])
        for place, value in one.items()
        if place in other
    ]
    counts = {"before": len(one.keys() - other), "after": len(other.keys() - one)}
    return rows, [
        f"{counted(number, 'row')} only {side}: no difference can be shown."
        for side, number in counts.items()
        if number
    ]


def _summary(report: Mapping[str, Any]) -> dict[Any, float]:
    path = {
        f"critical path: {CAUSES.get(part, part)}_s": value
        for part, value in report["critical_path_s"].items()
    }
    values = {**report["summary"], **path}
    return {
        name: float(value)
        for name, value in values.items()
        if _is_number(value) and not any(check in name for check in CHECKS)
    }


def _points(result: Result) -> dict[Any, float]:
    """The time of each row that has one, by what tells the row from others."""
    part, keys, field = POINTS[result.kind]
    rows = result.report[part] if part else result.report
    if result.kind == "diagnose":
        rows = list(_numbered(rows))
    return {
        tuple(row.get(key) for key in keys): float(row[field])
        for row in rows
        if _is_number(row.get(field))
    }


def _numbered(curves: Sequence[Record]) -> Iterator[Record]:
    """The points of curves; of several curves alike, with the number of the curve."""
    seen = Counter[Place]()
    for curve in curves:
        place = curve["collective"], curve["ranks"]
        seen[place] += 1
        number = f"curve {seen[place]}" if seen[place] > 1 else None
        yield from ({**point, "curve": number} for point in curve["points"])


def _cells(name: str, field: str, before: float, after: float) -> list[Cell]:
    change = after / before - 1 if before else None
    return [
        Cell(name),
        Cell(written(field, before), before),
        Cell(written(field, after), after),
        Cell(_difference(field, after - before), after - before),
        Cell("-" if change is None else signed(change), "" if change is None else change),
    ]


def _difference(field: str, value: float) -> str:
    return written(field, value) if value <= 0 else f"+{written(field, value).removeprefix('+')}"


def _noun(field: str) -> str:
    """The name of a field in words.

    >>> _noun("peak_B"), _noun("critical path: gap_s"), _noun("samples_per_s")
    ('peak memory of the fullest rank', 'critical path: gap', 'samples/s')
    """
    name = heading(field)
    return NOUNS.get(name, name)


def _place(place: Place, kind: str) -> str:
    keys = POINTS[kind][1]
    words = [
        f"{written(key, value)} ranks" if key == "ranks" else written(key, value)
        for key, value in zip(keys, place, strict=True)
        if value not in (None, "")
    ]
    return ", ".join(words)


def _answer(before: Result, rows: Sequence[tuple[str, str, float, float]]) -> str:
    if before.kind in SUMMARIES:
        main = SUMMARIES[before.kind]
        for name, field, one, other in rows:
            if field == main:
                noun = "time of a step" if name == "step" else name
                return _changed_words(noun, field, one, other)
        return "Neither result has a time."
    pairs = [(one, other) for _, _, one, other in rows if one > 0 and other > 0]
    if not pairs:
        return "The two have no row in common."
    factors = [other / one for one, other in pairs]
    if all(abs(factor - 1) <= 1e-9 for factor in factors):
        return f"The times of {counted(len(pairs), 'row')} that both have are the same."
    mean = exp(sum(map(log, factors)) / len(factors))
    return (
        f"Over {counted(len(pairs), 'row')} that both have, times changed by {signed(mean - 1)} "
        f"on average (geometric mean), from {signed(min(factors) - 1)} to "
        f"{signed(max(factors) - 1)}."
    )


def _changed_words(noun: str, field: str, one: float, other: float) -> str:
    if abs(other - one) <= 1e-9 * abs(one):
        return f"The {noun} is the same: {written(field, one)}."
    verb = "fell" if other < one else "rose"
    percent = f" ({signed(other / one - 1)})" if one else ""
    return f"The {noun} {verb} from {written(field, one)} to {written(field, other)}{percent}."


def _changed(before: Result, after: Result) -> list[list[str]]:
    rows: list[list[str]] = []
    if before.kind == "diagnose":
        return []
    for part in ("parameters", "versions", "files"):
        one, other = (result.origin.get(part, {}) for result in (before, after))
        rows += [
            [name.replace("_", " "), _text(one.get(name)), _text(other.get(name))]
            for name in dict.fromkeys([*one, *other])
            if one.get(name) != other.get(name)
        ]
    return rows


def _reasons(parameters: Sequence[Sequence[str]]) -> str:
    if not parameters:
        return "No parameter differs, as far as the files say."
    words = [f"{name} from {before} to {after}" for name, before, after in parameters[:3]]
    more = len(parameters) - len(words)
    rest = f", and {more} more" if more else ""
    return f"These parameters differ: {'; '.join(words)}{rest}."


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def page_of_results(results: Sequence[Result], names: Sequence[str], *, pictures: bool) -> Page:
    """One result as it is, two of a kind as before and after, others as sections."""
    if len(results) == 1:
        return page_of(results[0], pictures=pictures)
    kinds = {result.kind for result in results}
    if len(results) == 2 and len(kinds) == 1 and kinds <= {*SUMMARIES, *POINTS}:
        return before_and_after(results[0], results[1], names, pictures=pictures)
    return sections(results, names, pictures=pictures)
