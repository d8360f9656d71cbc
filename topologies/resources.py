"""What a computation needs, estimated before it starts, and whether this machine has it."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import NamedTuple, NoReturn

from topologies.errors import InputError
from topologies.units import format_bytes

LONG = 7200.0
"""Seconds: what takes longer is refused."""
SYSTEM = Path("/")
"""Where the files are in which Linux tells of its memory."""


class Need(NamedTuple):
    """An estimate, within a factor of about two."""

    seconds: float = 0.0
    nbytes: float = 0.0
    """Bytes of memory at the worst moment."""

    def __str__(self) -> str:
        return f"{duration(self.seconds)} and {_memory(self.nbytes)} of memory"


def affordable(need: Need) -> bool:
    """Whether it takes no hours, and the free memory suffices."""
    return need.seconds <= LONG and need.nbytes <= free_memory()


def check(subject: str, need: Need, advice: str) -> None:
    """Raise InputError if the free memory does not suffice, or if it takes hours."""
    if not affordable(need):
        refuse(subject, need, advice)


def refuse(subject: str, need: Need, advice: str) -> NoReturn:
    """Raise InputError with what is needed and what is there."""
    free = _memory(free_memory())
    raise InputError(
        f"{subject}: this takes about {need}, and {free} are free: {advice}, or go on with --force"
    )


def free_memory() -> float:
    """Bytes that this process may still take: of the machine, and of its container or batch job.
    Infinite where the system does not tell."""
    return min(_free(), default=inf)


def duration(seconds: float) -> str:
    """A time to come, for people.

    >>> [duration(seconds) for seconds in (0.2, 42.0, 400.0, 10_000.0, 1e6)]
    ['0.2 s', '42 s', '7 min', '3 h', '12 days']
    """
    if seconds < 1:
        return f"{seconds:.1g} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"


def _memory(nbytes: float) -> str:
    """To two digits."""
    return format_bytes(float(f"{nbytes:.2g}"), binary=False) if nbytes < inf else "all"


def _free() -> Iterator[float]:
    for line in _lines("proc/meminfo"):
        if line.startswith("MemAvailable:"):
            yield _number(line) * 1024.0
    for line in _lines("proc/self/cgroup"):
        if line.startswith("0::"):
            group = Path(line[3:].strip("/"))
            for folder in (group, *group.parents):
                yield from _left(f"sys/fs/cgroup/{folder}", "memory.max", "memory.current")
    yield from _left("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")


def _left(folder: str, limit: str, usage: str) -> Iterator[float]:
    """What the limit of a control group leaves; files that were read can be forgotten."""
    most, used = _lines(f"{folder}/{limit}"), _lines(f"{folder}/{usage}")
    if most and used and most[0].isdecimal():
        cached = [line for line in _lines(f"{folder}/memory.stat") if line.startswith("inactive_f")]
        yield float(most[0]) - float(used[0]) + sum(map(_number, cached))


def _lines(name: str) -> list[str]:
    path = SYSTEM / name
    return path.read_text().splitlines() if path.is_file() else []


def _number(line: str) -> int:
    return int(line.split()[1])
