"""Reads Kineto traces: the operations, how they contain each other, and the seconds of each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from topologies.errors import InputError
from topologies.readers.contents import contents as file_contents
from topologies.readers.contents import unzipped

LIMIT = 128 * 2**20
"""A trace has at most this many bytes, unpacked."""
EVALUATE = "autograd::engine::evaluate_function: "
ACCUMULATE = "torch::autograd::AccumulateGrad"
CPU = "CPU"
COMMUNICATES = (
    EVALUATE + ACCUMULATE,
    "c10d::",
    "c10d_functional::",
    "_c10d_functional::",
    "torch::distributed",
    "torch.distributed",
)
"""The first words of operations that compute nothing. The first of them are the hooks of DDP, which
run when a gradient arrives."""
_OPERATION = "cpu_op"
_LAUNCHES = ("cuda_runtime", "cuda_driver")
_KERNELS = ("kernel", "gpu_memcpy", "gpu_memset")
_ANNOTATION = "user_annotation"
Microseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_ROUNDING = 2e-3
"""The end of an operation may be wrong by so many microseconds: a trace has three digits."""


class Args(BaseModel):
    """The arguments of an event."""

    sequence: int | None = Field(None, alias="Sequence number")
    """Autograd's sequence number."""
    external: int | None = Field(None, validation_alias=AliasChoices("External id", "external id"))
    correlation: int | None = None
    """The number that a kernel shares with its launch."""
    dims: Any = Field(None, alias="Input Dims")
    """The shapes of the inputs, in any form."""
    types: Any = Field(None, alias="Input type")
    """The types of the inputs, in any form."""


class Event(BaseModel):
    """An event that starts at `ts` on thread `tid` and takes `dur`, both in microseconds."""

    name: str
    cat: str
    tid: int | str
    ts: Microseconds
    dur: Microseconds = 0.0
    args: Args = Field({}, validate_default=True)

    @property
    def end(self) -> float:
        """The end of the event, in microseconds."""
        return self.ts + self.dur


class Act(NamedTuple):
    """An operation that no other operation calls, with the operations that it calls.

    Communication and the arrival of a gradient are acts of their own, also inside an operation.
    """

    event: Event
    seconds: float
    """Seconds of its kernels if the trace has kernels, else of the operation."""
    numbers: tuple[int, ...]
    """Autograd's sequence numbers of the operation and of those that it calls."""


class Trace(NamedTuple):
    """The content of a trace."""

    acts: list[Act]
    """The acts in the order in which they start."""
    annotations: list[Event]
    """The annotations in the order in which they start."""
    device: str
    """The name of the GPU, or "CPU"."""
    rank: int | None
    """The rank of the process in its job, None if the trace does not say."""


def contents(path: Path) -> bytes:
    """The bytes of a file, unpacked if it is gzipped.

    Raises InputError if there is no such file, or if it is empty, damaged or above 128 MiB.
    """
    try:
        data = file_contents(path, LIMIT)
    except InputError as error:
        raise InputError(f"{error}: name a model file or a trace") from None
    if data.startswith(b"\x1f\x8b"):
        data = unzipped(data, path.name, LIMIT)
    if len(data) > LIMIT:
        raise InputError(
            f"{path.name} has more than {LIMIT // 2**20} MiB: record fewer steps, and without "
            f"stacks"
        )
    if not data.strip():
        raise InputError(f"{path.name} is empty: expected a model or a trace")
    return data


def load(data: bytes, name: str) -> Trace:
    """The trace in the bytes of the file `name`.

    If there are kernels, times are those of the kernels, and operations only launch them. Raises
    InputError for a file without JSON, without a list of events, or with an event without time.
    """
    content = _json(data, name)
    events = content.get("traceEvents") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(events, list):
        raise InputError(f"{name} is no Kineto trace: it has no list of traceEvents")
    spans = _events(events, (_OPERATION, *_LAUNCHES), name)
    kernels = _events(events, _KERNELS, name)
    device = _device(content) if kernels else CPU
    return Trace(
        _acts(spans, kernels), _events(events, (_ANNOTATION,), name), device, _rank(content)
    )


def _json(data: bytes, name: str) -> object:
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{name} line {error.lineno}: {error.msg}: expected a trace as JSON, all of it"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is no trace as JSON: {str(error)[:80]}") from None


def _device(content: dict[str, Any]) -> str:
    devices = content.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices else None
    name = first.get("name") if isinstance(first, dict) else None
    return (
        name.strip()[:100]
        if isinstance(name, str) and name.isprintable() and name.strip()
        else "GPU"
    )


def _rank(content: dict[str, Any]) -> int | None:
    about = content.get("distributedInfo")
    rank = about.get("rank") if isinstance(about, dict) else None
    return rank if type(rank) is int and rank >= 0 else None


def _acts(spans: Sequence[Event], kernels: Sequence[Event]) -> list[Act]:
    callers = list(_callers(spans))
    heads = _heads(spans, callers)
    numbers: dict[int, list[int]] = defaultdict(list)
    for span, head in zip(spans, heads, strict=True):
        if span.args.sequence is not None:
            numbers[head].append(span.args.sequence)
    seconds = _on_gpu(spans, kernels, heads) if kernels else _on_cpu(spans, callers, heads)
    return [
        Act(spans[k], max(0.0, seconds[k]), tuple(numbers[k]))
        for k, head in enumerate(heads)
        if head == k
    ]


def _callers(spans: Sequence[Event]) -> Iterator[int]:
    """For each span, the operation of its thread in which it starts, or -1."""
    running: dict[int | str, list[int]] = defaultdict(list)
    for k, span in enumerate(spans):
        stack = running[span.tid]
        while stack and spans[stack[-1]].end <= span.ts + _ROUNDING:
            stack.pop()
        yield stack[-1] if stack else -1
        if span.cat == _OPERATION:
            stack.append(k)


def _heads(spans: Sequence[Event], callers: Sequence[int]) -> list[int]:
    """For each span, the first operation of its act, or -1 for a launch outside of operations."""
    heads: list[int] = []
    for k, (span, outer) in enumerate(zip(spans, callers, strict=True)):
        begins = span.cat == _OPERATION and (
            outer < 0 or span.name.startswith((ACCUMULATE, *COMMUNICATES))
        )
        heads.append(k if begins else heads[outer] if outer >= 0 else -1)
    return heads


def _on_cpu(
    spans: Sequence[Event], callers: Sequence[int], heads: Sequence[int]
) -> dict[int, float]:
    """Seconds of each act, without the acts inside it."""
    seconds: dict[int, float] = defaultdict(float)
    for k, head in enumerate(heads):
        if head == k:
            seconds[k] += spans[k].dur / 1e6
            if callers[k] >= 0:
                seconds[heads[callers[k]]] -= spans[k].dur / 1e6
    return seconds


def _on_gpu(
    spans: Sequence[Event], kernels: Sequence[Event], heads: Sequence[int]
) -> dict[int, float]:
    """Seconds of the kernels of each act: the kernels that it launched, or that name one of its
    operations."""
    seconds: dict[int, float] = defaultdict(float)
    launched, named = dict[int | None, int](), dict[int | None, int]()
    for span, head in zip(spans, heads, strict=True):
        if span.cat == _OPERATION:
            named[span.args.external] = head
        else:
            launched[span.args.correlation] = head
    for kernel in kernels:
        head = launched.get(kernel.args.correlation, -1)
        head = head if head >= 0 else named.get(kernel.args.external, -1)
        seconds[head] += 0.0 if kernel.name.startswith("nccl") else kernel.dur / 1e6
    return seconds


def _events(entries: Sequence[object], kinds: Sequence[str], name: str) -> list[Event]:
    """The complete events of some kinds among the traceEvents of the file `name`.

    They are sorted by start, and the longest comes first. Raises InputError for an event without a
    name, thread or time.
    """
    events = [_event(entry, k, name) for k, entry in enumerate(entries) if _is_of(entry, kinds)]
    return sorted(events, key=lambda event: (event.ts, -event.dur, event.args.external or 0))


def _is_of(entry: object, kinds: Sequence[str]) -> bool:
    return isinstance(entry, dict) and entry.get("ph") == "X" and entry.get("cat") in kinds


def _event(entry: object, number: int, name: str) -> Event:
    try:
        return Event.model_validate(entry)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise InputError(f"{name}: traceEvents[{number}].{where}: {wrong['msg'].lower()}") from None
