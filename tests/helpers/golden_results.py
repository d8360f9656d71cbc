"""Results of commands as they are stored, JSON in which long lists are sums; what differs."""

import gzip
import json
import math
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

LONGEST = 24
"""Longer lists are stored as sums of their columns."""
VOLATILE = ("origin", "versions", "command", "otherData", "traceName", "sha256")
"""Keys whose values tell of the machine and the folder of a run."""
SMALLEST = 1e-15
"""Numbers that differ by less are equal: differences of equal times round to it."""


def squeezed(value: Any) -> Any:
    """A value of JSON with each long list as its count, its ends and sums of its columns."""
    if isinstance(value, Mapping):
        return {key: squeezed(each) for key, each in value.items() if key not in VOLATILE}
    if not isinstance(value, list):
        return value
    if len(value) <= LONGEST:
        return [squeezed(each) for each in value]
    ends = [squeezed(value[0]), squeezed(value[-1])]
    return {"count": len(value), "ends": ends, "columns": _columns(value)}


def _columns(rows: list[Any]) -> dict[str, Any]:
    """What the leaves of rows add up to, by where they are in a row."""
    leaves: dict[str, list[Any]] = {}
    for row in rows:
        for where, leaf in _leaves(row, ""):
            leaves.setdefault(where, []).append(leaf)
    return {where: _sums(values) for where, values in leaves.items()}


def _leaves(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key not in VOLATILE:
                yield from _leaves(each, f"{where}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, f"{where}[]")
    else:
        yield where, value


def _sums(values: list[Any]) -> list[Any]:
    """How many numbers there are, their sum, and their sum weighted by their place; and a hash of
    what is no number."""
    numbers = [
        (place, value)
        for place, value in enumerate(values, 1)
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    others = [value for value in values if isinstance(value, bool | str) or value is None]
    return [
        len(numbers),
        math.fsum(value for _, value in numbers),
        math.fsum(place * value for place, value in numbers),
        sha256(json.dumps(others).encode()).hexdigest()[:12] if others else "",
    ]


def files_of(folder: Path) -> dict[str, Any]:
    """The JSON files below a folder, squeezed, by their names; of other files the size."""
    files: dict[str, Any] = {}
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        name, content = str(path.relative_to(folder)), path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        is_json = ".json" in path.suffixes
        files[name] = squeezed(json.loads(content)) if is_json else len(content)
    return files


def differences(
    stored: Any, found: Any, tolerance: float, where: str = ""
) -> Iterator[tuple[float, str]]:
    """How far found values are from stored ones where that is more than a tolerance: relative, or
    infinite for what is no number."""
    if isinstance(stored, dict) and isinstance(found, dict):
        for key in stored.keys() | found.keys():
            if key in stored and key in found:
                yield from differences(stored[key], found[key], tolerance, f"{where}.{key}")
            else:
                yield math.inf, f"{where}.{key} is {'missing' if key in stored else 'new'}"
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        for place, (one, other) in enumerate(zip(stored, found, strict=True)):
            yield from differences(one, other, tolerance, f"{where}[{place}]")
    elif type(stored) in (int, float) and type(found) in (int, float):
        if not math.isclose(stored, found, rel_tol=tolerance, abs_tol=SMALLEST):
            change = abs(found - stored) / max(abs(stored), SMALLEST)
            yield change, f"{where}: {stored!r}, now {found!r}"
    elif stored != found or type(stored) is not type(found):
        yield math.inf, f"{where}: {str(stored)[:80]!r}, now {str(found)[:80]!r}"
