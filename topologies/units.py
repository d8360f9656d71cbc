"""Text such as "64MiB", "25us" or "400Gbit/s" to SI floats and back, and ranges such as "2..64:x2"."""

import math
import re
from collections.abc import Callable

from topologies.errors import InputError

Parser = Callable[[str], float]

_BYTES = {"B": 1.0}
_SECONDS = {"s": 1.0}
_BANDWIDTH = {"B/s": 1.0, "bit/s": 1 / 8, "b/s": 1 / 8}
_MAX_POINTS = 100_000


def parse_bytes(text: str) -> float:
    """Bytes, positive. `MiB` is 2^20, `MB` is 10^6.

    >>> parse_bytes("64MiB"), parse_bytes("64MB")
    (67108864.0, 64000000.0)
    """
    return _positive(text, _quantity(text, _BYTES, "a size", "64MiB"))


def parse_seconds(text: str) -> float:
    """Seconds, zero or more.

    >>> parse_seconds("25us")
    2.5e-05
    """
    value = _quantity(text, _SECONDS, "a time", "25us")
    if value < 0:
        raise InputError(f"{text!r} is negative: a time is 0s or more")
    return value


def parse_bandwidth(text: str) -> float:
    """Bytes per second, positive; `bit/s` and `b/s` are divided by eight.

    >>> parse_bandwidth("400Gbit/s"), parse_bandwidth("50GB/s")
    (50000000000.0, 50000000000.0)
    """
    return _positive(text, _quantity(text, _BANDWIDTH, "a bandwidth", "50GB/s"))


def _positive(text: str, value: float) -> float:
    if value <= 0:
        raise InputError(f"{text!r} is not positive: write a value above zero")
    return value


def _quantity(text: str, units: dict[str, float], noun: str, example: str) -> float:
    from quantiphy import QuantiPhyError, Quantity

    text = text.strip()
    if text == "0":
        return 0.0
    try:
        quantity = Quantity(text, binary=True)
    except QuantiPhyError:
        raise InputError(f"{text!r} is not {noun}: write it like {example}") from None
    if not math.isfinite(quantity):
        raise InputError(f"{text!r} is not finite: write {noun} like {example}")
    if quantity.units not in units:
        raise InputError(_wrong_unit(text, str(quantity.units), units, noun, example))
    return float(quantity) * units[quantity.units]


def _wrong_unit(text: str, found: str, units: dict[str, float], noun: str, example: str) -> str:
    unit = next(iter(units))
    bare = re.fullmatch(r"([\d.eE+-]+)\s*([kKMGTP]?)", text)
    if bare:
        number, prefix = bare.groups()
        if prefix and unit != "s":
            return f"{text!r} has no unit: write {number}{prefix}{unit} or {number}{prefix.upper()}i{unit}"
        return f"{text!r} has no unit: write it like {example}"
    binary = re.fullmatch(r"([\d.]+)\s*([kmgtp])ib(/s)?", text, re.IGNORECASE)
    if binary:
        number, prefix, _ = binary.groups()
        return f"{text!r} is misspelt: write {number}{prefix.upper()}i{unit}"
    return f"{text!r} is not {noun}: its unit is {found!r}, one of {', '.join(units)} is right, like {example}"


def parse_counts(text: str) -> list[int]:
    """Whole numbers: "8", "2,4,8", "2..64" (every one) or "2..64:x2" (doubling), in the order given, once each.

    >>> parse_counts("2..16:x2"), parse_counts("2,4..6")
    ([2, 4, 8, 16], [2, 4, 5, 6])
    """
    return [int(value) for value in _parse_list(text, _parse_count, step=1)]


def parse_sizes(text: str) -> list[float]:
    """Sizes in bytes: "64MiB", "64MiB,1GiB" or "4KiB..64MiB:x2" (a factor is needed in a range).

    >>> parse_sizes("1MiB..4MiB:x2")
    [1048576.0, 2097152.0, 4194304.0]
    """
    return _parse_list(text, parse_bytes, step=None)


def _parse_count(text: str) -> float:
    if not re.fullmatch(r"-?\d{1,9}", text.strip()):
        raise InputError(f"{text!r} is not a whole number: write 8, 2,4,8 or 2..64 or 2..64:x2")
    return float(text)


def _parse_list(text: str, parse: Parser, step: int | None) -> list[float]:
    values: dict[float, None] = {}
    for part in text.split(","):
        values.update(dict.fromkeys(_parse_range(part, parse, step) if ".." in part else [parse(part)]))
    return list(values)


def _parse_range(text: str, parse: Parser, step: int | None) -> list[float]:
    match = re.fullmatch(r"\s*(.+?)\.\.(.+?)(?::(x?)(\d{1,9}(?:\.\d{1,9})?))?\s*", text)
    if match is None:
        raise InputError(f"{text!r} is not a range: write it like 2..64, 2..64:4 or 2..64:x2")
    low, high = parse(match[1]), parse(match[2])
    if low > high:
        raise InputError(f"{text!r} runs backwards: the first bound of a range is the smaller one")
    if match[3]:
        return _geometric(text, low, high, float(match[4]))
    if match[4] is None and step is None:
        raise InputError(f"{text!r} needs a factor: write it like {text.strip()}:x2")
    return _arithmetic(text, low, high, float(match[4] or step or 1))


def _geometric(text: str, low: float, high: float, factor: float) -> list[float]:
    if factor <= 1 or low <= 0:
        raise InputError(f"{text!r} does not grow: the factor is above 1 and the first bound above 0")
    count = int(math.log(high / low) / math.log(factor) + 1e-9) + 1
    return [low * factor**k for k in range(_at_most(text, count))]


def _arithmetic(text: str, low: float, high: float, step: float) -> list[float]:
    if step <= 0:
        raise InputError(f"{text!r} does not grow: the step is above 0")
    return [low + step * k for k in range(_at_most(text, int((high - low) / step) + 1))]


def _at_most(text: str, count: int) -> int:
    if count > _MAX_POINTS:
        raise InputError(f"{text!r} has {count} values: at most {_MAX_POINTS} are swept at once")
    return count


def format_bytes(nbytes: float) -> str:
    """Bytes for people, in the binary unit that is exact, else in SI.

    >>> format_bytes(67108864), format_bytes(64e6), format_bytes(1000 / 3)
    ('64MiB', '64MB', '333.3B')
    """
    for power, prefix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        sixteenths = nbytes * 16 / 2**power
        if sixteenths >= 16 and math.isclose(sixteenths, round(sixteenths), rel_tol=1e-12):
            return f"{nbytes / 2**power:.6g}{prefix}B"
    return _si(nbytes, "B")


def format_seconds(seconds: float) -> str:
    """Seconds for people.

    >>> format_seconds(2.5e-5), format_seconds(0.0)
    ('25us', '0s')
    """
    return _si(seconds, "s")


def format_bandwidth(bandwidth: float) -> str:
    """Bytes per second for people, in units of 10^3.

    >>> format_bandwidth(48.74e9)
    '48.74GB/s'
    """
    return _si(bandwidth, "B/s")


def _si(value: float, unit: str) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:.4g}{unit}"
    exponent = min(max(math.floor(math.log10(abs(value)) / 3), -5), 5)
    if round(abs(value) / 1000.0**exponent, 1) >= 1000 and exponent < 5:
        exponent += 1
    if unit != "s" and exponent < 0:
        exponent = 0
    if unit == "s" and exponent > 0:
        exponent = 0
    return f"{value / 1000.0**exponent:.4g}{'fpnum kMGTP'[exponent + 5].strip()}{unit}"
