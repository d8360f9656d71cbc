"""Reads the collectives of a rank from its Kineto trace: NCCL's kernels on the GPU."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from experiments.traces.measured_calls import (
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
