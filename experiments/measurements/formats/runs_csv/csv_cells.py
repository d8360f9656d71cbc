"""The columns of a CSV of measured points, and the values of their cells."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from experiments.measurements.collectives import COLLECTIVES, canonical
from experiments.measurements.curve import KINDS, Curve, Point
from experiments.spellings import canonical_algorithm, canonical_protocol

SHORTEST, LONGEST = 1e-3, 6.1e11
"""Microseconds that a measured time has."""
REQUIRED = ("size_bytes", "time_us")
CURVE = ("collective", "algorithm", "protocol", "ranks", "nodes")
PROVENANCE = ("backend", "device", "dtype", "library", "topology", "source", "kind")
IDENTITY = (*CURVE, *PROVENANCE)
STATISTICS = ("min_us", "p90_us", "mean_us", "cv", "repetitions", "wrong")
_OLDER = {"min_us": "time_min_us", "mean_us": "time_mean_us", "repetitions": "iters"}
KNOWN = {*REQUIRED, *IDENTITY, *STATISTICS, *_OLDER.values()}
KNOWN |= {"in_place", "inplace_time_us", "algbw_GBps", "busbw_GBps"}
"""Every column that is read, or that repeats other columns."""

_DIGITS = 18

Cells = Mapping[str, str]
_Value = TypeVar("_Value")


def identity(texts: Cells) -> Curve:
    """The curve, without points, that the cells under `IDENTITY` name; empty and None where they
    say nothing. Raises ValueError for a cell that cannot be."""
    collective = _collective(texts.get("collective", ""))
    provenance: dict[str, Any] = {name: texts.get(name, "") for name in PROVENANCE}
    if provenance["kind"] not in ("", *KINDS):
        raise ValueError(f"kind {provenance['kind'][:40]!r}: expected one of {', '.join(KINDS)}")
    return Curve(
        collective or "",
        _count("ranks", texts.get("ranks", "")),
        _count("nodes", texts.get("nodes", "")),
        (),
        (),
        algorithm=canonical_algorithm(texts.get("algorithm", ""), collective),
        protocol=canonical_protocol(texts.get("protocol", "")),
        **provenance,
    )


def size(cells: Cells) -> int:
    """The bytes under size_bytes. Raises ValueError if it is no whole number of them."""
    text = cells["size_bytes"]
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    value = number("size_bytes", text)
    if value != int(value) or value >= 10**_DIGITS:
        raise ValueError(
            f"size_bytes {text[:40]!r}: expected a whole number of bytes below 1e{_DIGITS}"
        )
    return int(value)


def number(name: str, text: str) -> float:
    """A finite number that is not negative. Raises ValueError for anything else."""
    try:
        value = float(text.replace("_", "?"))
    except ValueError:
        raise ValueError(f"{name} {text[:40]!r} is not a number") from None
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} {text[:40]!r}: expected a finite number above 0")
    return value


def time(name: str, text: str) -> float:
    """Microseconds. Raises ValueError for what no clock and no patience measure; 0 says that
    nothing was."""
    value = number(name, text)
    if value and not SHORTEST <= value <= LONGEST:
        raise ValueError(f"{name} {text[:40]!r}: expected microseconds, from 1 ns to a week")
    return value


def point(size_B: int, time_us: float, cells: Cells) -> Point:
    """The point of a row with what its statistics say. Raises ValueError for a cell that cannot
    be."""
    return Point(
        size_B,
        time_us / 1e6,
        _optional("wrong", cells, _whole),
        _optional("cv", cells, number),
        _optional("repetitions", cells, _count),
        *(_optional(name, cells, _seconds) for name in ("min_us", "p90_us", "mean_us")),
    )


def in_place(cells: Cells) -> bool:
    """Whether a row is of the operation in place. Raises ValueError if in_place is neither 0 nor
    1."""
    text = cells.get("in_place", "")
    if text not in ("", "0", "1"):
        raise ValueError(f"in_place {text[:40]!r}: expected 0 or 1")
    return text == "1"


def _optional(name: str, cells: Cells, read: Callable[[str, str], _Value]) -> _Value | None:
    text = cells.get(name) or cells.get(_OLDER.get(name, ""), "")
    return read(name, text) if text else None


def _seconds(name: str, text: str) -> float:
    return number(name, text) / 1e6


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ValueError(f"{name} {text[:40]!r}: expected a whole number")
    return int(text)


def _collective(text: str) -> str | None:
    if text and canonical(text) is None:
        raise ValueError(f"collective {text[:40]!r}: expected one of {', '.join(COLLECTIVES)}")
    return canonical(text) if text else None


def _count(name: str, text: str) -> int | None:
    if text and not (
        text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) < 10**8
    ):
        raise ValueError(f"{name} {text[:40]!r}: expected a whole number above 0")
    return int(text) if text else None
