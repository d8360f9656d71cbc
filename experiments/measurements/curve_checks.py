"""Checks of measured curves: impossible times, mostly those of a column in another unit; nodes made
of hosts; and set-ups, measurements of the same thing that no single set of parameters explains."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import median

from experiments.measurements.curve import GUESSED, TRAYS, WAITING, Curve, Point, ranks_per_node
from experiments.output import counted
from experiments.text_lines import first_of
from topologies.errors import InputError
from topologies.units import format_bandwidth, format_bytes, format_seconds

TRAY, DOMAIN = 4, 72
"""The most GPUs of a tray, and of a domain."""


def domains(curve: Curve) -> int:
    """As few domains as hold the ranks, if nodes are likely trays of GB200 or GB300; else 0."""
    ranks, hosts = curve.ranks or 0, curve.nodes or 0
    joined = re.search(r"\bGB[23]00\b(?! NVL4)", f"{curve.device} {curve.machine} {curve.topology}")
    nodes = -(-ranks // DOMAIN)
    return nodes if joined and nodes < hosts and ranks <= TRAY * hosts else 0


def in_domains(curve: Curve, log: str) -> Curve:
    """The curve with domains for nodes, if its hosts are trays and its log does not say that NCCL
    takes each as a node."""
    if not (nodes := domains(curve)) or re.search(
        r"NCCL_MNNVL_ENABLE(?:=| set by environment to )['\"]?0|\bMNNVL 0\b", log
    ):
        return curve
    note = (
        f"{curve.nodes} hosts with {curve.device} {TRAYS} of {counted(nodes, 'NVLink domain')} of "
        f"up to {DOMAIN} GPUs: NCCL_MNNVL_ENABLE=0 in the log says that they are nodes"
    )
    per_node, notes = ranks_per_node(curve.ranks, nodes), (*curve.notes, note)
    return replace(curve, nodes=nodes, gpus_per_node=per_node, notes=notes)


FASTEST_RATE = 10e12
"""Bytes/s of algbw: more than a GPU reads of its own memory, 8 TB/s in 2025."""


def doubts(curves: Iterable[Curve]) -> Iterator[str]:
    """A line for each curve with impossible times: its file, the first size, and how many more. A
    line says which nodes are made of several hosts, which times may contain waiting, and which
    sizes are guessed.

    Times in place of a single rank do not count: it has nothing to do.
    """
    for curve in curves:
        name = Path(curve.source).name
        marks = TRAYS, WAITING, GUESSED
        yield from (
            f"{name}: {note}" for note in curve.notes if any(mark in note for mark in marks)
        )
        if (nodes := domains(curve)) and not (curve.hosts or curve.family):
            yield (
                f"{name}: {curve.nodes} nodes with {curve.device}: if they are trays of NVLink "
                f"domains, write {nodes} under nodes"
            )
        points = curve.points if curve.ranks == 1 else (*curve.points, *curve.in_place)
        wrong = [line for point in points if (line := _doubt(curve, point))]
        if wrong:
            question = "which is impossible: is its time in microseconds?"
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            yield f"{name}, row of {wrong[0]}, {question}{more}"


def _doubt(curve: Curve, point: Point) -> str:
    # seconds: less than a cache line takes from one core to the next, 20 ns or more
    if point.time_s < 10e-9:
        return f"{format_bytes(point.size)}: it takes {format_seconds(point.time_s)}"
    pairs = max((curve.ranks or 2) // 2, 1) if curve.collective == "send_recv" else 1
    rate = point.size / point.time_s
    return (
        f"{format_bytes(point.size)}: it moves {format_bandwidth(rate)}"
        if rate > FASTEST_RATE * pairs
        else ""
    )


SETUP_FACTOR = 1.2
"""By how much the times of the same sizes differ, in the median, between two set-ups: repetitions
differ by 1.1."""
SHOWN_SETUPS = 4
"""Set-ups that a warning names."""

Contradiction = tuple[Curve, Curve, float]
"""The fastest of several curves of the same thing, another of them, and the median factor over the
sizes that both have."""


def labels(curve: Curve, reference: Curve) -> tuple[str, str]:
    """What tells two curves apart: the part of their files' names that differs, or the names."""
    left, right = words(curve), words(reference)
    if len(left) == len(right):
        pairs = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
        if pairs:
            return "_".join(a for a, _ in pairs), "_".join(b for _, b in pairs)
    return Path(curve.source).name, Path(reference.source).name


def contradictions(curves: Iterable[Curve], *, in_place: bool = False) -> Iterator[Contradiction]:
    """Curves that differ more from the fastest one of the same thing than repetitions do."""
    groups: dict[tuple[object, ...], list[Curve]] = {}
    for curve in curves:
        groups.setdefault(_thing(curve), []).append(curve)
    for group in groups.values():
        times = [_times(curve, in_place) for curve in group]
        level = [median(_ratios(seconds, times[0]) or [0.0]) for seconds in times]
        fastest = level.index(min(level))
        for curve, seconds in zip(group, times, strict=True):
            ratios = _ratios(seconds, times[fastest])
            # curves with fewer common sizes are not compared
            factor = exp(median(map(abs, ratios))) if len(ratios) >= 3 else 1.0
            if factor > SETUP_FACTOR:
                yield group[fastest], curve, factor


def _thing(curve: Curve) -> tuple[object, ...]:
    algorithm = curve.algorithm, curve.protocol, curve.label
    return curve.collective, curve.kind, *algorithm, curve.ranks, curve.nodes, curve.dtype


def _times(curve: Curve, in_place: bool) -> dict[int, float]:
    chosen = curve.in_place if in_place else curve.points or curve.in_place
    return {point.size: point.time_s for point in chosen if not point.wrong}


def _ratios(times: Mapping[int, float], reference: Mapping[int, float]) -> list[float]:
    return [log(times[size]) - log(reference[size]) for size in times.keys() & reference.keys()]


def setups(curves: Sequence[Curve], pairs: Sequence[Contradiction]) -> dict[str, list[Curve]]:
    """The curves by the words of their files' names that tell contradicting curves apart.

    All curves are under "" if no word does.
    """
    telling: set[str] = set()
    for faster, slower, _ in pairs:
        names = labels(faster, slower)
        if names[0] != Path(faster.source).name:
            telling.update(*(name.split("_") for name in names))
    parts: dict[str, list[Curve]] = {}
    for curve in curves:
        name = " ".join(word for word in words(curve) if word in telling)
        parts.setdefault(name, []).append(curve)
    return parts


def chosen_curves(curves: Sequence[Curve], only: str | None, forced: bool) -> list[Curve]:
    """The curves whose file's name has all words of `only` between underscores and, if `forced`,
    whose algorithm was forced. Blanks or commas separate the words.

    Raises InputError if no file's name has the words, or `only` has none.
    """
    required = {*(only or "").replace(",", " ").split()}
    if only is not None and not required:
        raise InputError(f"--only {only!r}: expected words of files' names, like cpu")
    named = [curve for curve in curves if required <= {*words(curve)}]
    if required and not named:
        known = sorted({word for curve in curves for word in words(curve)})
        raise InputError(
            f"--only {only}: no file's name has that as a word: there are {', '.join(known)[:200]}"
        )
    return [curve for curve in named if curve.algorithm or not forced]


def words(curve: Curve) -> list[str]:
    """The words of a file's name."""
    return Path(Path(curve.source).name.partition(" ")[0]).stem.split("_")


def warnings(curves: Sequence[Curve], *, in_place: bool = False) -> Iterator[str]:
    """A line if one set of runs holds several set-ups, and one if numbers of nodes are unknown."""
    if unknown := [curve for curve in curves if curve.nodes is None and (curve.ranks or 0) > 1]:
        name, ranks = Path(unknown[0].source).name, unknown[0].ranks
        more = f" (and {counted(len(unknown) - 1, 'more curve')})" if unknown[1:] else ""
        yield (
            f"{name}: {ranks} ranks on an unknown number of nodes are taken as {ranks} nodes{more}:"
            " write it into a CSV's column nodes"
        )
    pairs = list(contradictions(curves, in_place=in_place))
    if pairs:
        faster, slower, factor = pairs[0]
        names = f"{Path(faster.source).name} and {Path(slower.source).name}"
        more = f" (and {counted(len(pairs) - 1, 'more pair')})" if len(pairs) > 1 else ""
        yield (
            f"{names} measure the same and are {factor:.3g} times apart{more}: one set "
            f"of parameters cannot fit two set-ups, take each alone{_advice(setups(curves, pairs))}"
        )


def _advice(parts: Mapping[str, Sequence[Curve]]) -> str:
    """The options that choose each of several set-ups, if names tell them apart."""
    names = sorted(part for part in parts if part)
    if len(names) < 2:
        return ""
    options = first_of([f"--only {name.replace(' ', ',')}" for name in names], SHOWN_SETUPS)
    rest = f"; {counted(len(parts['']), 'run')} with none of these words" if "" in parts else ""
    return f": {options}{rest}"
