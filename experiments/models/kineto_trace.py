"""Reads Kineto traces: the operations, how they contain each other, and the seconds of each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from topologies.errors import InputError
from topologies.readers.contents import contents as file_contents
from topologies.readers.contents import unzipped

LIMIT = 128 * 2**20
"""A trace has at most this many bytes, unpacked."""
EVALUATE = "autograd::engine::evaluate_function: "
ACCUMULATE = "torch::autograd::AccumulateGrad"
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


class TraceEvent(BaseModel):
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


@dataclass
class TracedOperation:
    """An act: an operation that no other operation calls, with the operations that it calls.

    Communication and the arrival of a gradient are acts of their own, also inside an operation.
    """

    event: TraceEvent
    seconds: float
    """Seconds of its kernels if the trace has kernels, else of the operation."""
    numbers: list[int] = field(default_factory=list)
    """Autograd's sequence numbers of the operation and of those that it calls."""

    @property
    def is_backward(self) -> bool:
        """Whether it belongs to a backward, unless it communicates."""
        return self.event.name.startswith((EVALUATE, ACCUMULATE))


def contents(path: Path) -> bytes:
    """The bytes of a file, unpacked if it is gzipped.

    Raises InputError if there is no such file, or if it is empty, damaged or above 128 MiB.
    """
    data = file_contents(path, LIMIT)
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


def load(data: bytes, name: str) -> tuple[list[TracedOperation], list[TraceEvent], str, int | None]:
    """The trace in the bytes of the file `name`: its acts, its annotations, both in the order in
    which they start, the name of the GPU or "CPU", and the rank in the job or None.

    If there are kernels, times are those of the kernels, and operations only launch them. Raises
    InputError for a file without JSON, without a list of events, or with an event without time.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = str(error)[:80]
        raise InputError(f"{name} is no trace as JSON, or a part of one: {reason}") from None
    if not (isinstance(content, dict) and isinstance(content.get("traceEvents"), list)):
        raise InputError(f"{name} is no Kineto trace: it has no list of traceEvents")
    events = _events(content["traceEvents"], name)
    kernels = [event for event in events if event.cat in _KERNELS]
    annotations = [event for event in events if event.cat == "user_annotation"]
    spans = (event for event in events if event.cat in (_OPERATION, *_LAUNCHES))
    device, rank = "GPU" if kernels else "CPU", None
    match content:
        case {"deviceProperties": [{"name": str(gpu)}, *_]} if kernels and gpu.isprintable():
            device = gpu.strip()[:100] or device
    match content:
        case {"distributedInfo": {"rank": int(number)}} if type(number) is int and number >= 0:
            rank = number
    return _acts(spans, kernels), annotations, device, rank


def _events(entries: Sequence[object], name: str) -> list[TraceEvent]:
    """The complete events of the known kinds among the traceEvents of the file `name`.

    They are sorted by start, and the longest comes first. Raises InputError for an event without a
    name, thread or time.
    """
    events, kinds = list[TraceEvent](), (_OPERATION, *_LAUNCHES, *_KERNELS, "user_annotation")
    for number, entry in enumerate(entries):
        if isinstance(entry, dict) and entry.get("ph") == "X" and entry.get("cat") in kinds:
            try:
                events.append(TraceEvent.model_validate(entry))
            except ValidationError as error:
                wrong = error.errors(include_url=False, include_context=False)[0]
                place = ".".join(map(str, (f"{name}: traceEvents[{number}]", *wrong["loc"])))
                raise InputError(f"{place}: {wrong['msg'].lower()}") from None
    return sorted(events, key=lambda event: (event.ts, -event.dur, event.args.external or 0))


def _acts(spans: Iterable[TraceEvent], kernels: Sequence[TraceEvent]) -> list[TracedOperation]:
    """The acts, from operations with launches and from kernels.

    The seconds of an act are those of the kernels that it launched, or that name one of its
    operations. Without kernels they are those of the operation without the acts inside it.
    """
    acts = list[TracedOperation]()
    running: dict[int | str, list[tuple[TraceEvent, TracedOperation]]] = defaultdict(list)
    launched, named = (
        dict[int | None, TracedOperation | None](),
        dict[int | None, TracedOperation](),
    )
    for span in spans:
        stack = running[span.tid]
        while stack and stack[-1][0].end <= span.ts + _ROUNDING:
            stack.pop()
        act = stack[-1][1] if stack else None
        if span.cat != _OPERATION:
            launched[span.args.correlation] = act
            continue
        if act is None or span.name.startswith((ACCUMULATE, *COMMUNICATES)):
            seconds = 0.0 if kernels else span.dur / 1e6
            if act:
                act.seconds -= seconds
            act = TracedOperation(span, seconds)
            acts.append(act)
        named[span.args.external] = act
        if span.args.sequence is not None:
            act.numbers.append(span.args.sequence)
        stack.append((span, act))
    for kernel in kernels:
        act = launched.get(kernel.args.correlation) or named.get(kernel.args.external)
        if act and not kernel.name.startswith("nccl"):
            act.seconds += kernel.dur / 1e6
    for act in acts:
        act.seconds = max(0.0, act.seconds)
    return acts
