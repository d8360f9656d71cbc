"""Reads the traces of a job's ranks: Kineto's, or dumps of the flight recorder."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from experiments.models.kineto import contents
from experiments.traces.flight_recorder import PICKLE, read_dump, unpickled
from experiments.traces.job_calls import (
    MESSAGES,
    WIDTHS,
    MeasuredCall,
    Nanoseconds,
    RankTrace,
    collective_of,
    is_count,
    size_of,
)
from topologies.errors import InputError, as_text, shown

_KERNEL = re.compile(r"nccl(Dev)?Kernel_?(?P<collective>[A-Za-z]+)")
_LATEST = 2**62


def read_kineto(content: Mapping[str, Any], rank: int, name: str) -> RankTrace:
    """The calls of a rank, from the JSON of its file `name`.

    A rank gets to a call when the kernel starts. A rank communicates while a kernel of NCCL runs,
    and computes while any other kernel runs. Copies are neither. Raises InputError if no kernel of
    NCCL is there, or if a kernel has no time.
    """
    events = content.get("traceEvents")
    if not isinstance(events, list):
        raise InputError(f"{name} is no Kineto trace: it has no list of traceEvents")
    base = content.get("baseTimeNanoseconds", 0)
    base = base if type(base) is int and 0 <= base < _LATEST else 0
    computing, talking = list[tuple[int, int]](), list[tuple[int, int]]()
    calls, counts = list[MeasuredCall](), defaultdict[str, int](int)
    ended = 0
    for place, event in sorted(_kernels(events, name), key=lambda pair: pair[0]):
        start, length = place[0] + base, place[1]
        if not event["name"].startswith("nccl"):
            computing.append((start, start + length))
            continue
        call = _call(event, start, length)._replace(computed=start - ended if talking else None)
        talking.append((start, start + length))
        ended = max(ended, start + length)
        if call.collective in MESSAGES:
            continue
        if call.number < 0:
            call = call._replace(number=counts[call.group])
        counts[call.group] += 1
        calls.append(call)
    if not talking:
        raise InputError(f"{name} has no kernels of NCCL: record the job's GPUs with the profiler")
    return RankTrace(rank, name, calls, _columns(computing), _columns(talking))


def _kernels(events: list[Any], name: str) -> list[tuple[tuple[int, int], dict[str, Any]]]:
    """Start and length in nanoseconds of each kernel, and its event."""
    kernels = []
    for number, event in enumerate(events):
        if not isinstance(event, dict) or event.get("cat") != "kernel":
            continue
        start, length = event.get("ts"), event.get("dur")
        if not isinstance(event.get("name"), str) or not (_is_time(start) and _is_time(length)):
            raise InputError(
                f"{name}: traceEvents[{number}] is a kernel with ts {shown(start)} and dur "
                f"{shown(length)}: expected a name, and microseconds"
            )
        kernels.append(((round(start * 1000), round(length * 1000)), event))
    return kernels


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e16


def _call(event: Mapping[str, Any], start: int, length: int) -> MeasuredCall:
    """A call from a kernel and its args; number -1 if these have none."""
    value = event.get("args")
    args: Mapping[str, Any] = value if isinstance(value, dict) else {}
    match = _KERNEL.match(event["name"])
    word = args.get("Collective name")
    word = word if isinstance(word, str) else match["collective"] if match else event["name"]
    collective, width = collective_of(word), WIDTHS.get(as_text(args.get("dtype")))
    taken, given = (_bytes(args.get(f"{side} msg nelems"), width) for side in ("In", "Out"))
    size, number = args.get("Group size"), args.get("Seq")
    return MeasuredCall(
        as_text(args.get("Process Group Name", ""))[:80],
        number if type(number) is int and 0 <= number < _LATEST else -1,
        collective,
        size_of(collective, taken, given),
        size if type(size) is int and 0 < size < 2**31 else 0,
        start,
        length,
    )


def _bytes(elements: object, width: int | None) -> float | None:
    return float(elements) * width if width and is_count(elements) else None


def _columns(intervals: list[tuple[int, int]]) -> Nanoseconds:
    return np.array(intervals, dtype=np.int64).reshape(-1, 2).T


MOST_FILES = 4096
_NUMBER = re.compile(r"(\d{1,6})(\.json|\.pickle|\.pkl)?(\.gz)?$", re.ASCII)


def read_job(paths: Sequence[Path]) -> list[RankTrace]:
    """The traces in files and folders, by rank.

    The rank is what a Kineto trace says, else the number at the end of the file's name. Raises
    InputError for a file that is no trace, two traces of a rank, and traces of different kinds.
    """
    files = [file for path in paths for file in job_files(path)]
    if len(files) > MOST_FILES:
        raise InputError(f"{len(files)} traces: at most {MOST_FILES}")
    traces = sorted((_read(file) for file in files), key=lambda trace: trace.rank)
    for first, second in pairwise(traces):
        if first.rank == second.rank:
            raise InputError(
                f"{first.source} and {second.source} are both of rank {first.rank}: give one trace "
                f"of each rank"
            )
    if len({trace.records_all for trace in traces}) > 1:
        raise InputError("some files are Kineto traces and some are dumps: give one kind")
    if len(traces) < 2:
        raise InputError(f"{traces[0].source} is of one rank: give the traces of all ranks")
    return traces


def job_files(path: Path) -> list[Path]:
    """The file at `path`, or those in the folder. Raises InputError if there are none."""
    shown = repr(str(path)[:200])
    if not path.exists():
        raise InputError(f"no such file or folder: {shown}: name the traces of a job")
    if not path.is_dir():
        return [path]
    try:
        files = sorted(
            file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")
        )
    except OSError as error:
        raise InputError(f"cannot read {shown}: {error.strerror}") from None
    if not files:
        raise InputError(f"{shown} holds no files: name the folder with the traces of a job")
    return files


def _read(path: Path) -> RankTrace:
    name, data = path.name[:80], contents(path)
    if data.startswith(PICKLE):
        return read_dump(unpickled(data, name), _rank(None, name), name)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is no trace of a rank: {str(error)[:80]}") from None
    if isinstance(content, dict) and "communicators" in content:
        raise InputError(f"{name} is a status of NCCL's RAS: give it alone, without other files")
    if isinstance(content, dict) and "traceEvents" in content:
        return read_kineto(content, _rank(content, name), name)
    return read_dump(content, _rank(None, name), name)


def _rank(content: dict[str, Any] | None, name: str) -> int:
    """The rank that a Kineto trace says, else the number at the end of a file's name."""
    about = content.get("distributedInfo") if content else None
    rank = about.get("rank") if isinstance(about, dict) else None
    if type(rank) is int and 0 <= rank < 2**20:
        return rank
    match = _NUMBER.search(name)
    if match is None:
        raise InputError(
            f"{name} does not say its rank: let its name end in the rank, like trace_3"
        )
    return int(match[1])
