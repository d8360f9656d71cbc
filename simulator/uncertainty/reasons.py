"""Why a prediction is unsure, in plain words."""

from __future__ import annotations

from collections.abc import Callable

from simulator.uncertainty.measured_places import MeasuredPlaces, beyond
from topologies.topology import Floats
from topologies.units import format_bytes


def reasons(place: MeasuredPlaces, seen: MeasuredPlaces) -> tuple[str, ...]:
    """In what the one point of `place` is outside what was `seen`, a line each.

    >>> from simulator.uncertainty.measured_places import place
    >>> seen = place("all_reduce", "ring", ranks=64, nodes=16, nbytes=1 << 20)
    >>> reasons(place("all_reduce", "ring", ranks=256, nodes=64, nbytes=1 << 20), seen)
    ('256 ranks: measured runs have at most 64',)
    """
    if not len(seen):
        return ("no run was measured",)
    outside, lines = beyond(place, seen), []
    if outside.more_ranks[0]:
        lines.append(_outside(place.ranks, seen.ranks, lambda ranks: f"{ranks:.0f}", " ranks"))
    if outside.more_bytes[0]:
        lines.append(_outside(place.nbytes, seen.nbytes, format_bytes))
    if outside.network[0]:
        lines.append("no run over several nodes was measured")
    if outside.other_collective[0]:
        lines.append(f"{place.collective[0]} was not measured")
    elif outside.other_algorithm[0]:
        lines.append(f"algorithm {place.algorithm[0]} was not measured")
    return tuple(lines)


def _outside(value: Floats, seen: Floats, show: Callable[[float], str], unit: str = "") -> str:
    """That a value is above or below all that were seen."""
    end, limit = ("at most", seen.max()) if value[0] > seen.max() else ("at least", seen.min())
    return f"{show(float(value[0]))}{unit}: measured runs have {end} {show(float(limit))}"
