"""Text such as "64MiB", "25us" or "400Gbit/s" to SI floats and back, and ranges such as
"2..64:x2"."""

import logging
import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal

from topologies.errors import InputError

Parser = Callable[[str], float]
logger = logging.getLogger("simctl")

_BYTES = {"B": 1.0}
_SECONDS = {"s": 1.0}
_BANDWIDTH = {"B/s": 1.0, "bit/s": 1 / 8, "b/s": 1 / 8, "Bps": 1.0, "bps": 1 / 8}
_BINARY = ((60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))
_MAX_POINTS = 100_000
_DECIMAL = {"": 0} | dict(
    zip(
        "yzafpnuµμmckKMGTPEZY",
        (-24, -21, -18, -15, -12, -9, -6, -6, -6, -3, -2, 3, 3, 6, 9, 12, 15, 18, 21, 24),
        strict=True,
    )
)
"""Powers of ten by prefix. There are two characters for micro."""
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_QUANTITY = re.compile(rf"({_NUMBER}|[+-]?(?:inf|nan)) ?([a-zA-Zµμ]*(?:/[a-zA-Z]+)?)")


def parse_bytes(text: str) -> float:
    """Bytes, positive. `MiB` is 2^20, `MB` is 10^6.

    >>> parse_bytes("64MiB"), parse_bytes("64MB")
    (67108864.0, 64000000.0)
    """
    return _within(text, _quantity(text, _BYTES, "a size", "64MiB"), "1B", 1.0, "1ZB", 1e21)


def parse_seconds(text: str) -> float:
    """Seconds, zero or more.

    >>> parse_seconds("25us")
    2.5e-05
    """
    value = _quantity(text, _SECONDS, "a time", "25us")
    if value < 0:
        raise InputError(f"{text!r} is negative: a time is 0s or more")
    return _within(text, value, "0s", 0.0, "1Gs", 1e9)


def parse_bandwidth(text: str) -> float:
    """Bytes per second, positive; `bit/s`, `b/s` and `bps` are divided by eight.

    >>> parse_bandwidth("400Gbit/s"), parse_bandwidth("50GB/s")
    (50000000000.0, 50000000000.0)
    """
    return _within(
        text, _quantity(text, _BANDWIDTH, "a bandwidth", "50GB/s"), "1B/s", 1.0, "1EB/s", 1e18
    )


def _within(text: str, value: float, least: str, low: float, most: str, high: float) -> float:
    if value <= 0 and low > 0:
        raise InputError(f"{text!r} is not positive: write a value from {least} to {most}")
    if not low <= value <= high:
        raise InputError(f"{text!r} is out of range: write a value from {least} to {most}")
    return value


def _quantity(text: str, units: dict[str, float], noun: str, example: str) -> float:
    text = text.strip() if len(text) < 80 else f"{text[:60]}..."
    if text == "0":
        return 0.0
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is not {noun}: write it like {example}")
    number, word = match.groups()
    if not math.isfinite(float(number)):
        raise InputError(f"{text!r} is not finite: write {noun} like {example}")
    binary = {prefix: 2.0**power for power, prefix in _BINARY}
    for unit, factor in units.items():
        prefix = word.removesuffix(unit)
        if not word.endswith(unit) or (prefix and "e" in number.lower()):
            continue
        if prefix in binary:
            return float(number) * binary[prefix] * factor
        if prefix in _DECIMAL:
            if units is not _SECONDS and _DECIMAL[prefix] < 0:
                right = _respelt(text, units) or f"{noun} is written like {example}"
                raise InputError(f"{text!r} is a small fraction of a {unit}: {right}")
            # Digits and power together are rounded once.
            exact = float(f"{number}e{_DECIMAL[prefix]}") if prefix else float(number)
            return exact * factor
    raise InputError(_wrong_unit(text, word, units, noun, example))


def _wrong_unit(text: str, match: str, units: dict[str, float], noun: str, example: str) -> str:
    unit = next(iter(units))
    bare = re.fullmatch(rf"({_NUMBER})\s*([kKMGTP]?)", text)
    if bare and unit != "s" and float(bare[1]) >= 0:
        number, prefix = _plain(bare[1]), bare[2]
        if prefix:
            readings = f"{number}{prefix}{unit} or {number}{prefix.upper()}i{unit}"
        elif 1e3 <= float(number) <= 1e18:
            readings = f"{_si(float(number), unit)} or {number}{unit}"
        else:
            readings = f"{number}{unit} or {number}M{unit}"
        return f"{text!r} has no unit: write {readings}"
    if bare:
        return f"{text!r} has no unit: write it like {example}"
    binary = re.fullmatch(rf"({_NUMBER})\s*([kmgtp])ib(/s|ps)?", text, re.IGNORECASE)
    if binary:
        number, prefix, _ = binary.groups()
        return f"{text!r} is misspelt: write {_plain(number)}{prefix.upper()}i{unit}"
    power = re.fullmatch(rf"({_NUMBER}) ?([kKMGTmnuµ]{unit})", text)
    if power:
        return f"{text!r} has a power of ten and a prefix: write {_plain(power[1])}{power[2]}"
    if right := _respelt(text, units):
        return f"{text!r} is not {noun}: {right}"
    right = " or ".join(list(units)[:2])
    return f"{text!r} is not {noun}: its unit is {match!r}, write it in {right}, like {example}"


def _plain(number: str) -> str:
    return f"{Decimal(str(float(number))).normalize():f}"


def _respelt(text: str, units: dict[str, float]) -> str:
    """Bits and bytes without "/s", or with another case, as a bandwidth; nothing for other text."""
    match = re.fullmatch(rf"({_NUMBER}) ?([kmgtp]?)(b|bits?|bytes?)(/?s|ps)?", text, re.IGNORECASE)
    if match is None or units is not _BANDWIDTH:
        return ""
    number, prefix, word, _ = match.groups()
    unit = "B" if word == "B" or word.lower().startswith("byte") else "bit"
    return f"write {_plain(number)}{prefix.upper().replace('K', 'k')}{unit}/s"


def parse_whole(text: str) -> int:
    """A whole number, 0 or more.

    >>> parse_whole("4")
    4
    """
    if re.fullmatch(r"-\d{1,9}", text, re.ASCII):
        raise InputError(f"{text!r} is negative: write a whole number like 4")
    if not re.fullmatch(r"\d+", text, re.ASCII):
        raise InputError(f"{text[:40]!r} is not a whole number: write it like 4")
    if len(text) > 9:
        raise InputError(f"{text[:40]!r} has more than 9 digits: write a number like 4")
    return int(text)


def parse_number(text: str) -> float:
    """A number, 0 or more.

    >>> parse_number("1.5")
    1.5
    """
    if re.fullmatch(r"-\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        raise InputError(f"{text!r} is negative: write 0 or more, like 2 or 1.5")
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        raise InputError(f"{text[:40]!r} is not a number: write it like 2 or 1.5")
    return float(text)


def parse_yes(text: str) -> bool:
    """Whether something is wanted.

    >>> parse_yes("no")
    False
    """
    if text not in ("yes", "no"):
        raise InputError(f"{text[:40]!r} is neither yes nor no")
    return text == "yes"


def parse_counts(text: str) -> list[int]:
    """Whole numbers: "8", "2,4,8", "2..64" (every one) or "2..64:x2" (doubling), in the order
    given, once each.

    >>> parse_counts("2..16:x2"), parse_counts("2,4..6")
    ([2, 4, 8, 16], [2, 4, 5, 6])
    """
    return [int(value) for value in _parse_list(text, _parse_count, "2..64:x2", step=1)]


def parse_sizes(text: str) -> list[float]:
    """Sizes in bytes: "64MiB", "64MiB,1GiB" or "4KiB..64MiB:x2" (a factor is needed in a range).

    >>> parse_sizes("1MiB..4MiB:x2")
    [1048576.0, 2097152.0, 4194304.0]
    """
    return _parse_list(text, parse_bytes, "4KiB..64MiB:x2", step=None)


def _parse_count(text: str) -> float:
    if re.fullmatch(r"\d{10,}", text.strip(), re.ASCII):
        raise InputError(f"{text[:40]!r} is too large: a whole number has at most 9 digits here")
    if not re.fullmatch(r"-?\d{1,9}", text.strip(), re.ASCII):
        raise InputError(f"{text!r} is not a whole number: write 8, 2,4,8 or 2..64 or 2..64:x2")
    return float(text)


def _parse_list(text: str, parse: Parser, example: str, step: int | None) -> list[float]:
    values: dict[float, None] = {}
    ends: dict[str, tuple[float, float]] = {}
    for part in text.split(","):
        if ".." in part:
            new, end = _parse_range(part, parse, example, step)
            ends[part.strip()] = new[-1], end
        else:
            new = [parse(part)]
        values.update(dict.fromkeys(new))
        _at_most(text, len(values))
    for part, (last, end) in ends.items():
        if not any(math.isclose(end, value, rel_tol=1e-9) for value in values):
            near, far = (
                format_bytes(value) if step is None else f"{value:.0f}" for value in (last, end)
            )
            left = f"{far} is left out, {part},{far} has it too"
            logger.info("%s ends at %s: %s", part, near, left)
    return list(values)


def _parse_range(
    text: str, parse: Parser, example: str, step: int | None
) -> tuple[list[float], float]:
    """The values of a range, and its end, which need not be among them."""
    match = re.fullmatch(
        r"\s*([^:]+?)\.\.([^:]+?)(?::(x?)(\d{1,9}(?:\.\d{1,9})?))?\s*", text, re.ASCII
    )
    if match is None:
        plain = re.fullmatch(r"\s*([^:.]+\.\.[^:.]+):.*", text)
        raise InputError(
            f"{text!r} is not a range: write it like {f'{plain[1]}:x2' if plain else example}"
        )
    low, high = parse(match[1]), parse(match[2])
    if low > high:
        raise InputError(f"{text!r} runs backwards: the first bound of a range is the smaller one")
    if match[3] and (step is None or "." not in match[4]):
        factor = float(match[4])
        if factor <= 1 or low <= 0:
            raise InputError(
                f"{text!r} does not grow: the factor is above 1 and the first bound above 0"
            )
        count = int(math.log(high / low) / math.log(factor) + 1e-9) + 1
        return [low * factor**k for k in range(_at_most(text, count))], high
    if step is None and match[4] is None:
        raise InputError(f"{text!r} needs a factor: write it like {match[1]}..{match[2]}:x2")
    if step and "." in (match[4] or ""):
        raise InputError(f"{text!r} has a step of {match[4]}: between whole numbers it is whole")
    width = float(match[4] or step or 1)
    if width <= 0:
        raise InputError(f"{text!r} does not grow: the step is above 0")
    return [low + width * k for k in range(_at_most(text, int((high - low) / width) + 1))], high


def _at_most(text: str, count: int) -> int:
    if count > _MAX_POINTS:
        raise InputError(
            f"{text[:40]!r} has {count} values: at most {_MAX_POINTS} are swept at once"
        )
    return count


def format_bytes(nbytes: float, binary: bool | None = None) -> str:
    """Bytes for people, in a unit of 2^10 if `binary`, else of 10^3.

    By default the unit is one of 2^10 if that is exact, else one of 10^3.

    >>> format_bytes(67108864), format_bytes(64e6), format_bytes(1000 / 3)
    ('64MiB', '64MB', '333.3B')
    >>> format_bytes(64e6, binary=True), format_bytes(67108864, binary=False)
    ('61.04MiB', '67.11MB')
    >>> format_bytes(2**30 - 1, binary=True)
    '1GiB'
    """
    if binary and math.isfinite(nbytes):
        return _binary(nbytes)
    exact = _exact_binary(nbytes) if binary is None else ""
    return exact or _si(nbytes, "B")


def in_binary(sizes: Iterable[float]) -> bool:
    """Whether a table of these sizes shows all its bytes in units of 2^10: if a size is exact in
    such a unit, or if all sizes are too small for a prefix.

    >>> in_binary([67108864.0]), in_binary([64e6]), in_binary([67108864.0, 64e6]), in_binary([8.0])
    (True, False, True, True)
    """
    units = [format_bytes(size)[-3:] for size in sizes]
    return any(unit[1:] == "iB" for unit in units) or not any(
        unit[-2:-1].isalpha() for unit in units
    )


def _binary(nbytes: float) -> str:
    """Bytes in a unit of 2^10: exact if that is short, else four digits."""
    exact = _exact_binary(nbytes)
    if exact and len(exact) <= len("3.8125GiB"):
        return exact
    power, prefix = _power(nbytes)
    if float(f"{nbytes / 2**power:.4g}") >= 1024:
        power, prefix = _power(2.0 ** (power + 10))
    return f"{nbytes / 2**power:.4g}{prefix}B"


def _power(nbytes: float) -> tuple[int, str]:
    return next(
        ((power, prefix) for power, prefix in _BINARY if nbytes * (1 + 1e-12) >= 2**power), (0, "")
    )


def _exact_binary(nbytes: float) -> str:
    """Bytes in whole sixteenths of a unit of 2^10. Empty if that is not exact, or is a fraction of
    a multiple of 1000 bytes."""
    power, prefix = _power(nbytes)
    sixteenths = nbytes * 16 / 2**power
    if (
        not power
        or not math.isfinite(nbytes)
        or not math.isclose(sixteenths, round(sixteenths), rel_tol=1e-12)
    ):
        return ""
    if round(sixteenths) % 16 and nbytes % 1000 == 0:
        return ""
    return f"{sixteenths / 16:.4f}".rstrip("0").rstrip(".") + f"{prefix}B"


def format_seconds(seconds: float) -> str:
    """Seconds for people.

    >>> format_seconds(2.5e-5), format_seconds(0.0), format_seconds(69271.4)
    ('25us', '0s', '69271s')
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
        if 1e4 <= abs(value) < 1e6:
            return f"{value:.0f}s"
        exponent = 0
    return f"{value / 1000.0**exponent:.4g}{'fpnum kMGTP'[exponent + 5].strip()}{unit}"
