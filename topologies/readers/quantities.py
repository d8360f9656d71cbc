"""Text for the figures of a machine that :mod:`topologies.units` reads back to the very same
float."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from math import inf

from topologies.units import parse_bandwidth, parse_seconds

_LARGE = {0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_SMALL = {0: "", -3: "m", -6: "u", -9: "n", -12: "p", -15: "f", -18: "a"}
_CACHED = 2**16


@lru_cache(_CACHED)
def bandwidth_text(bandwidth: float) -> str:
    """Bytes/s as exact text; "inf" is what never holds anything up.

    >>> bandwidth_text(50e9), bandwidth_text(1e9 / 3), bandwidth_text(float("inf"))
    ('50GB/s', '333.3333333333333MB/s', 'inf')
    """
    return "inf" if bandwidth == inf else _exact(bandwidth, _LARGE) + "B/s"


@lru_cache(_CACHED)
def seconds_text(seconds: float) -> str:
    """Seconds as exact text.

    >>> seconds_text(6e-7), seconds_text(1.25e-6), seconds_text(0.0)
    ('600ns', '1.25us', '0s')
    """
    return _exact(seconds, _SMALL) + "s"


@lru_cache(_CACHED)
def cost_text(cost: float) -> str:
    """Seconds a byte as the bandwidth whose inverse it is; where no float is that, as a time a
    byte.

    >>> cost_text(1e-12), cost_text(1 / 3e9), cost_text(1.7e-12)
    ('1TB/s', '3GB/s', '1.7ps/B')
    """
    for digits in range(1, 18):
        bandwidth = float(f"{1 / cost if cost else inf:.{digits}g}")
        if 1 <= bandwidth <= 1e18 and 1 / bandwidth == cost:
            return bandwidth_text(bandwidth)
    return f"{seconds_text(cost)}/B"


@lru_cache(_CACHED)
def read_bandwidth(text: str) -> float:
    """Bytes/s of a text, "inf" included. Raises InputError like
    :func:`topologies.units.parse_bandwidth`."""
    return inf if text == "inf" else parse_bandwidth(text)


@lru_cache(_CACHED)
def read_seconds(text: str) -> float:
    """Seconds of a text. Raises InputError like :func:`topologies.units.parse_seconds`."""
    return parse_seconds(text)


def read_cost(text: str) -> float:
    """Seconds a byte of a bandwidth or of a time a byte. Raises InputError.

    >>> read_cost("4TB/s"), read_cost("0.25ps/B")
    (2.5e-13, 2.5e-13)
    """
    return read_seconds(text[:-2]) if text.endswith("/B") else 1 / read_bandwidth(text)


def _exact(value: float, prefixes: dict[int, str]) -> str:
    """All digits of a float with the prefix that leaves one to three before the point."""
    digits = Decimal(repr(value)).normalize()
    power = min(digits.adjusted() // 3 * 3, max(prefixes))
    return f"{digits.scaleb(-power):f}{prefixes[power]}" if power in prefixes else repr(value)
