"""Logs that several processes of nccl-tests wrote, each a job of its own: built or started without MPI."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_DEVICE = re.compile(
    r"#\s{0,9}Rank\s{1,9}([0-9]{1,7})\s[^#\n]{0,99}?\bPid\s{1,9}([0-9]{1,9})\s{1,9}on\s{1,90}(\S{1,255})"
)
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
_HEADER, _FOOTER = "algbw", "Avg bus"
MOST = 64
"""Processes whose lines are read."""


class Process(NamedTuple):
    """A process by its host and number, and what its launcher puts before each of its lines."""

    host: str
    pid: str
    tag: str


def processes(text: str) -> tuple[int, tuple[str, ...]]:
    """The number of processes of a log, and the text of each of the first ones, the lines of the other processes blank;
    none where it is one job's log."""
    if text.count("Pid") < 2:
        return 0, ()
    lines = text.split("\n")
    found = _listed(lines)
    if len(found) < 2:
        return 0, ()
    tags = [process.tag for process in found]
    tagged = len(set(tags)) == len(tags) and all(tags)
    if not tagged and not _interleaved(lines, len(found)):
        return 0, ()
    owners = _by_tag(lines, tags) if tagged else _by_order(lines, len(found))
    parts: list[list[str]] = [[] for _ in found[:MOST]]
    for line, owner in zip(lines, owners, strict=True):
        for number, part in enumerate(parts):
            part.append(line if owner in (None, number) else "")
    return len(found), tuple("\n".join(part) for part in parts)


def _listed(lines: Sequence[str]) -> list[Process]:
    """The processes that list themselves as rank 0 before the first test ends; none if any process does not."""
    first: dict[tuple[str, str], Process] = {}
    every: set[tuple[str, str]] = set()
    for line in lines:
        if _FOOTER in line:
            break
        if found := _DEVICE.search(line):
            rank, pid, host = found.groups()
            every.add((host, pid))
            if rank == "0":
                first.setdefault((host, pid), Process(host, pid, line[: found.start()]))
    return list(first.values()) if every == first.keys() else []


def _interleaved(lines: Sequence[str], count: int) -> bool:
    """Whether rows of one size come from several processes once all have started: a test that runs again after one
    that died prints each size once."""
    last = max(number for number, line in enumerate(lines) if _DEVICE.search(line))
    end = next((number for number, line in enumerate(lines) if number > last and _FOOTER in line), len(lines))
    sizes = Counter(found[1] for line in lines[last:end] if (found := _ROW.match(line)))
    return bool(sizes) and 1 < max(sizes.values()) <= count


def _by_tag(lines: Sequence[str], tags: Sequence[str]) -> Iterator[int | None]:
    for line in lines:
        yield next((number for number, tag in enumerate(tags) if line.startswith(tag)), None)


@dataclass
class _Order:
    """How often each kind of line and each size was met."""

    count: int
    met: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    devices: dict[str, int] = field(default_factory=dict)

    def owner(self, line: str) -> int | None:
        """The process of a line: of lines of one kind, or rows of one size, each process has one."""
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


def _by_order(lines: Sequence[str], count: int) -> Iterator[int | None]:
    """Without tags nobody knows which process a line is of: the first of its kind is taken as the first one's."""
    order = _Order(count)
    return map(order.owner, lines)
