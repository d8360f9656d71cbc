"""Logs that several processes of nccl-tests wrote, each a job of its own: built or started without
MPI."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from experiments.measurements.formats.mpirun_tags import streams

_DEVICE = re.compile(
    r"#\s{0,9}Rank\s{1,9}([0-9]{1,7})\s[^#\n]{0,99}?"
    r"\bPid\s{1,9}([0-9]{1,9})\s{1,9}on\s{1,90}(\S{1,255})"
)
_COMMUNICATOR = re.compile(r"([\w.-]{1,255}):([0-9]{1,9}):[0-9]{1,9}\b.{0,99}\brank 0 nranks 1\b")
_ROW = re.compile(r"\s{0,20}([0-9]{1,18})\s{1,20}[0-9]{1,18}\s{1,20}[a-z]")
_ONCE = (
    "nccl-tests version",
    "Collective test starting",
    "nThread",
    "Using devices",
    "out-of-place",
    "algbw",
    "(elements)",
    "Out of bounds",
    "Avg bus",
    "Collective test concluded",
)
"""What stands in the lines that each process prints once a test."""
_NUMBER = re.compile("[0-9]+")
_HEADER, _FOOTER = "algbw", "Avg bus"
MOST = 64
"""Processes whose lines are read."""


Pieces = dict[int | None, str]
"""What each process wrote in a line, by its number; under None what may be of any."""


class _Device(NamedTuple):
    """A line of a list of devices: what its launcher puts before it, its rank, and its process by
    host and number."""

    tag: str
    rank: str
    process: tuple[str, str]


def processes(text: str) -> tuple[int, tuple[str, ...]]:
    """The number of processes of a log, and the text of each of the first ones, the lines of the
    other processes blank; none where it is one job's log."""
    if text.count("Pid") < 2 and text.count("nranks 1") < 2:
        return 0, ()
    lines = text.split("\n")
    tags = _tags(lines)
    count = len(tags) or _interleaved(lines)
    if count < 2:
        return 0, ()
    owned = _by_tag(lines, tags) if tags else _by_order(lines, count)
    parts: list[list[str]] = [[] for _ in range(min(count, MOST))]
    for pieces in owned:
        for number, part in enumerate(parts):
            part.append(pieces.get(number, pieces.get(None, "")))
    return count, tuple("\n".join(part) for part in parts)


def _devices(lines: Iterable[str]) -> list[_Device]:
    found = ((line, _DEVICE.search(line)) for line in lines)
    return [_Device(line[: at.start()], at[1], (at[3], at[2])) for line, at in found if at]


def _alone(lines: Iterable[str]) -> list[_Device]:
    """The processes that NCCL itself says are of one rank, for logs without lists of devices."""
    found = (_COMMUNICATOR.search(line) for line in lines if "nranks 1" in line)
    return [_Device("", "0", (at[1], at[2])) for at in found if at]


def _tags(lines: Sequence[str]) -> list[str]:
    """The launcher's tags, if several processes have one each and each lists itself as rank 0; else
    none.

    A tag ends with the number of a process, and stands before every header and footer: a time stamp
    does not.
    """
    lines = [piece for line in lines for piece in streams(line)]
    devices = _devices(lines)
    tags = list(dict.fromkeys(device.tag for device in devices))
    numbers = {numbers[-1] for tag in tags if (numbers := _NUMBER.findall(tag))}
    first = {device.tag for device in devices if device.rank == "0"}
    own = [line for line in lines if _HEADER in line or _FOOTER in line]
    tagged = all(line.startswith(tuple(tags)) for line in own)
    return tags if len(numbers) == len(tags) > 1 and first == set(tags) and tagged else []


def _interleaved(lines: Sequence[str]) -> int:
    """The number of processes that list themselves as rank 0 before the first test ends, 0 if one
    of them is no job of its own, or if the later ones ran after the first had died.

    Once all have listed themselves, several rows of one size come; or there is a footer for each.
    """
    ends = [number for number, line in enumerate(lines) if _FOOTER in line]
    listed = _devices if _devices(lines) else _alone
    found = listed(lines[: ends[0]] if ends else lines)
    first = {device.process for device in found if device.rank == "0"}
    if len(first) < 2 or first != {device.process for device in found}:
        return 0
    every = {device.process for device in listed(lines) if device.rank == "0"}
    last = max(number for number, line in enumerate(lines) if listed([line]))
    rest = lines[last : next((end for end in ends if end > last), len(lines))]
    sizes = Counter(row[1] for line in rest if (row := _ROW.match(line)))
    together = 1 < max(sizes.values(), default=0) <= len(first)
    return len(first) if together or len(ends) == len(every) else 0


def _by_tag(lines: Sequence[str], tags: Sequence[str]) -> Iterator[Pieces]:
    for line in lines:
        yield {_tagged(piece, tags): piece for piece in streams(line)}


def _tagged(piece: str, tags: Sequence[str]) -> int | None:
    return next((number for number, tag in enumerate(tags) if piece.startswith(tag)), None)


@dataclass
class _Order:
    """How often each kind of line and each size was met."""

    count: int
    met: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    devices: dict[str, int] = field(default_factory=dict)

    def owner(self, line: str) -> int | None:
        """The process of a line: of lines of one kind, or rows of one size, each process has
        one."""
        if found := _DEVICE.search(line):
            return self.devices.setdefault(f"{found[3]} {found[2]}", len(self.devices)) % self.count
        if found := _ROW.match(line):
            self.sizes[found[1]] += 1
            return (self.sizes[found[1]] - 1) % self.count
        kind = next((kind for kind in _ONCE if kind in line), None)
        if kind is None:
            return None
        number = self.met[kind] % self.count
        self.met[kind] += 1
        if kind == _HEADER and number == 0:
            self.sizes.clear()
        return number


def _by_order(lines: Sequence[str], count: int) -> Iterator[Pieces]:
    """Without tags nobody knows which process a line is of: the first of its kind is taken as the
    first one's."""
    order = _Order(count)
    return ({order.owner(line): line} for line in lines)
