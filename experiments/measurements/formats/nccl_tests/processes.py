"""Separates logs of several processes that ran as jobs of their own, without MPI."""

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
"""Words of the lines that each process prints once for each test."""
_NUMBER = re.compile("[0-9]+")
_HEADER, _FOOTER = "algbw", "Avg bus"
MOST = 64
"""Processes whose lines are read."""


Pieces = dict[int | None, str]
"""What each process wrote in a line, by its number; under None what may be of any process."""


class _Device(NamedTuple):
    """A line of a list of devices."""

    tag: str
    """What the launcher puts before the line."""
    rank: str
    """The number of the rank."""
    process: tuple[str, str]
    """Host and number of the process."""


def processes(text: str) -> tuple[int, tuple[str, ...]]:
    """The number of processes of a log, and the text of each of the first `MOST`; 0 for one job.

    In a text, the lines of the other processes are blank.
    """
    if text.count("Pid") < 2 and text.count("nranks 1") < 2:
        return 0, ()
    lines = text.split("\n")
    tags = _tags(lines)
    count = len(tags) or _interleaved(lines)
    if count < 2:
        return 0, ()
    pieces_by_line = _by_tag(lines, tags) if tags else _by_order(lines, count)
    parts: list[list[str]] = [[] for _ in range(min(count, MOST))]
    for pieces in pieces_by_line:
        for number, part in enumerate(parts):
            part.append(pieces.get(number, pieces.get(None, "")))
    return count, tuple("\n".join(part) for part in parts)


def _devices(lines: Iterable[str]) -> list[_Device]:
    matches = ((line, _DEVICE.search(line)) for line in lines)
    return [_Device(line[: at.start()], at[1], (at[3], at[2])) for line, at in matches if at]


def _alone(lines: Iterable[str]) -> list[_Device]:
    """The processes that NCCL itself says are of one rank, for logs without lists of devices."""
    matches = (_COMMUNICATOR.search(line) for line in lines if "nranks 1" in line)
    return [_Device("", "0", (at[1], at[2])) for at in matches if at]


def _tags(lines: Sequence[str]) -> list[str]:
    """The launcher's tags, if several processes have one each and each lists itself as rank 0.

    A tag ends with the number of a process, and stands before every header and footer: a time stamp
    does not.
    """
    lines = [piece for line in lines for piece in streams(line)]
    devices = _devices(lines)
    tags = list(dict.fromkeys(device.tag for device in devices))
    numbers = {numbers[-1] for tag in tags if (numbers := _NUMBER.findall(tag))}
    roots = {device.tag for device in devices if device.rank == "0"}
    edges = [line for line in lines if _HEADER in line or _FOOTER in line]
    tagged = all(line.startswith(tuple(tags)) for line in edges)
    return tags if len(numbers) == len(tags) > 1 and roots == set(tags) and tagged else []


def _interleaved(lines: Sequence[str]) -> int:
    """The number of processes that list themselves as rank 0 before the first test ends.

    It is 0 if one of them is not a separate job, or if the others started after the first had died.
    After the lists, separate jobs print several rows of one size, or a footer each.
    """
    ends = [number for number, line in enumerate(lines) if _FOOTER in line]
    listed = _devices if _devices(lines) else _alone
    devices = listed(lines[: ends[0]] if ends else lines)
    jobs = {device.process for device in devices if device.rank == "0"}
    if len(jobs) < 2 or jobs != {device.process for device in devices}:
        return 0
    all_jobs = {device.process for device in listed(lines) if device.rank == "0"}
    last_line = max(number for number, line in enumerate(lines) if listed([line]))
    lines_after = lines[last_line : next((end for end in ends if end > last_line), len(lines))]
    sizes = Counter(row[1] for line in lines_after if (row := _ROW.match(line)))
    together = 1 < max(sizes.values(), default=0) <= len(jobs)
    return len(jobs) if together or len(ends) == len(all_jobs) else 0


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
        if match := _DEVICE.search(line):
            return self.devices.setdefault(f"{match[3]} {match[2]}", len(self.devices)) % self.count
        if match := _ROW.match(line):
            self.sizes[match[1]] += 1
            return (self.sizes[match[1]] - 1) % self.count
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
