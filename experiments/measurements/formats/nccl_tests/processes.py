"""Separates logs of several processes that ran as jobs of their own, without MPI."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from experiments.measurements.formats.mpirun_tags import streams

_DEVICE = re.compile(
    r"#\s{0,9}Rank\s{1,9}([0-9]{1,7})\s[^#\n]{0,99}?"
    r"\bPid\s{1,9}([0-9]{1,9})\s{1,9}on\s{1,90}(\S{1,255})"
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
"""Words of the lines that each process prints once for each test."""
_HEADER, _FOOTER = "algbw", "Avg bus"
READ_PROCESSES = 64
"""Processes whose lines are read."""


def processes(text: str) -> tuple[int, tuple[str, ...]]:
    """The number of processes of a log, and the text of each of the first READ_PROCESSES; 0 for one
    job. In a text, the lines of the other processes are blank.
    """
    if text.count("Pid") < 2 and text.count("nranks 1") < 2:
        return 0, ()
    lines = text.split("\n")
    tags = _tags(lines)
    count = len(tags) or _interleaved(lines)
    if count < 2:
        return 0, ()
    pieces_by_line = _by_tag(lines, tags) if tags else _by_order(lines, count)
    parts: list[list[str]] = [[] for _ in range(min(count, READ_PROCESSES))]
    for pieces in pieces_by_line:
        for number, part in enumerate(parts):
            part.append(pieces.get(number, pieces.get(None, "")))
    return count, tuple("\n".join(part) for part in parts)


def _devices(lines: Iterable[str]) -> list[tuple[str, str, str]]:
    """What the launcher puts before each line of a list of devices, the number of its rank, and its
    process: host and number."""
    matches = ((line, _DEVICE.search(line)) for line in lines)
    return [(line[: at.start()], at[1], f"{at[3]} {at[2]}") for line, at in matches if at]


def _alone(lines: Iterable[str]) -> list[tuple[str, str, str]]:
    """As :func:`_devices`, by the processes that NCCL itself says are of one rank."""
    matches = (
        re.search(r"([\w.-]{1,255}):([0-9]{1,9}):[0-9]{1,9}\b.{0,99}\brank 0 nranks 1\b", line)
        for line in lines
        if "nranks 1" in line
    )
    return [("", "0", f"{at[1]} {at[2]}") for at in matches if at]


def _tags(lines: Sequence[str]) -> list[str]:
    """The launcher's tags, if several processes have one each and each lists itself as rank 0.

    A tag ends with the number of a process, and stands before every header and footer: a time stamp
    does not.
    """
    lines = [piece for line in lines for piece in streams(line)]
    devices = _devices(lines)
    tags = list(dict.fromkeys(tag for tag, _, _ in devices))
    numbers = {numbers[-1] for tag in tags if (numbers := re.findall("[0-9]+", tag))}
    roots = {tag for tag, rank, _ in devices if rank == "0"}
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
    jobs = {process for _, rank, process in devices if rank == "0"}
    if len(jobs) < 2 or jobs != {process for _, _, process in devices}:
        return 0
    all_jobs = {process for _, rank, process in listed(lines) if rank == "0"}
    last_line = max(number for number, line in enumerate(lines) if listed([line]))
    lines_after = lines[last_line : next((end for end in ends if end > last_line), len(lines))]
    sizes = Counter(row[1] for line in lines_after if (row := _ROW.match(line)))
    together = 1 < max(sizes.values(), default=0) <= len(jobs)
    return len(jobs) if together or len(ends) == len(all_jobs) else 0


def _by_tag(lines: Iterable[str], tags: Sequence[str]) -> Iterator[dict[int | None, str]]:
    """What each process wrote in a line, by its number; under None what may be of any process."""
    for line in lines:
        yield {_tagged(piece, tags): piece for piece in streams(line)}


def _tagged(piece: str, tags: Sequence[str]) -> int | None:
    return next((number for number, tag in enumerate(tags) if piece.startswith(tag)), None)


def _by_order(lines: Iterable[str], count: int) -> Iterator[dict[int | None, str]]:
    """As :func:`_by_tag`, without tags.

    Nobody knows which process a line is of. Of lines of one kind, and of rows of one size, each
    process has one: the first is taken as the first one's.
    """
    met: Counter[str] = Counter()
    numbers: dict[str, int] = {}
    for line in lines:
        row = _ROW.match(line)
        kind = f"size {row[1]}" if row else next((kind for kind in _ONCE if kind in line), None)
        if match := _DEVICE.search(line):
            number = numbers.setdefault(f"{match[3]} {match[2]}", len(numbers))
            yield {number % count: line}
        elif kind is None:
            yield {None: line}
        else:
            if kind == _HEADER and met[kind] % count == 0:
                met = Counter({each: met[each] for each in _ONCE})
            met[kind] += 1
            yield {(met[kind] - 1) % count: line}
