"""Model profiles from PyTorch-profiler (Kineto) traces of real training steps, on CPU or GPU.

A step is one forward and its backward, found by their order. A layer is an operation of the forward
(`aten::linear`) that has a part in the backward, linked by autograd's sequence numbers: of several
operations with one number, the last made the node. Operations without such a part count as forward
of the layer before them, and before the first layer (loading data) not at all. The backward of a
layer is the time of `autograd::engine::evaluate_function` of its nodes and of adding up its
gradients; DDP's hooks and all that communicates are left out. Its parameters are the gradients
(`torch::autograd::AccumulateGrad`) that arrive after its nodes, in the reverse of that order. An
input of the model, or of reentrant checkpointing, that requires a gradient counts as one too.

Where a trace has kernels, times are sums of kernel times (copies too, NCCL's not): what the GPU
waits for the host is not in them. This is tested with traces of CPUs (torch 2) and, for GPUs, with
small synthetic ones of the documented form, not yet with one from a GPU.

Of several steps that have all gradients, the one with the median compute is taken, the faster of
the middle two. The batch is the first dimension of the first input of the first layer that is no
parameter, or 1. A trace tells no activations and no outputs: they are 0. The optimizer's time is
that of the operations within `Optimizer.step#...`.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from statistics import median_low
from typing import Annotated, Any, NamedTuple

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from experiments.models.kernels import COUNTER
from simulator.training.model import WIDTHS, Layer, Model, Tensor
from topologies.errors import InputError
from topologies.readers.contents import unpacked

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
DTYPES = {
    "float": "fp32",
    "double": "fp64",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
}
"""The types of parameters, by their names in a trace."""
_WIDTHS = {kind: WIDTHS[dtype] for kind, dtype in DTYPES.items()} | {
    "long int": 8,
    "int": 4,
    "short int": 2,
    "unsigned char": 1,
    "signed char": 1,
    "bool": 1,
}


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
    data = unpacked(path, path.name, LIMIT, "record fewer steps, and without stacks")
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


class _Input(NamedTuple):
    """An input of an operation."""

    shape: tuple[int, ...]
    """The shape of a tensor, () for anything else."""
    kind: str
    """The type, as the trace names it."""

    @property
    def nbytes(self) -> float:
        """Bytes of the input, 0 if its type is unknown."""
        return math.prod(map(float, self.shape)) * _WIDTHS.get(self.kind, 0)


class _Acts(NamedTuple):
    """The acts of a step, or of a layer in it, in the order in which they start."""

    forward: list[TracedOperation]
    backward: list[TracedOperation]

    @property
    def gradients(self) -> list[TracedOperation]:
        """The acts in which a gradient arrives."""
        return [act for act in self.backward if act.event.name == ACCUMULATE]


def parse(data: bytes, name: str) -> tuple[Model, int | None]:
    """The model that was trained while the trace `name` was recorded, and the rank that the trace
    says it is of.

    Raises InputError, in one line that names the file, if the bytes are no trace, or if the trace
    has no gradients or no shapes.
    """
    acts, annotations, device, rank = load(data, name)
    all_steps = _steps(acts)
    most = max(len(step.gradients) for step in all_steps)
    if not most:
        raise InputError(
            f"{name} has no gradients: record a whole training step, with its backward"
        )
    # A trace may begin or end within a step.
    complete = [step for step in all_steps if len(step.gradients) == most]
    steps = [layers for step in complete if (layers := _layers(step))]
    if not steps:
        raise InputError(f"{name} has a backward without its forward: record a whole training step")
    times = [sum(sum(act.seconds for act in chain(*acts)) for acts in layers) for layers in steps]
    chosen = times.index(median_low(times))
    if not times[chosen] > 0:
        raise InputError(
            f"{name}: the step takes no time: of a GPU, record the activities of CPU and GPU"
        )
    gradients = [
        [_gradient(act, name) for act in reversed(layer.gradients)] for layer in steps[chosen]
    ]
    inputs = [tensor for tensor in _inputs(steps[chosen][0].forward[0]) if tensor.shape]
    parameters = {gradient.shape for gradient in gradients[0]}
    first = min(inputs, key=lambda each: each.shape in parameters, default=_Input((), ""))
    nbytes = dict.fromkeys(DTYPES.values(), 0.0)
    for gradient in chain.from_iterable(gradients):
        nbytes[DTYPES[gradient.kind]] += gradient.nbytes
    dtype = max(nbytes, key=nbytes.__getitem__)
    model = Model(
        name=name.removesuffix(".gz").removesuffix(".json") or name,
        batch=max((1, *first.shape[:1])),
        layers=tuple(map(_layer, range(len(gradients)), steps[chosen], gradients)),
        dtype=dtype,
        gradient_dtype=dtype,
        optimizer=_optimizer(acts, annotations),
        inputs=first.nbytes,
        device=device,
        source=f"measured: Kineto trace {name}, step {chosen + 1} of {len(steps)}",
    )
    return model, rank


def _steps(acts: Sequence[TracedOperation]) -> list[_Acts]:
    """A step ends when an operation of the forward follows one of the backward.

    The forward is on the thread with the most operations that have a part in the backward: sequence
    numbers count separately in each thread.
    """
    local = [act for act in acts if not act.event.name.startswith(COMMUNICATES)]
    wanted = {act.event.args.sequence for act in local if act.is_backward}
    forward = [act for act in local if act.numbers and not act.is_backward]
    threads = Counter(act.event.tid for act in forward if not wanted.isdisjoint(act.numbers))
    thread, steps = max(threads, key=threads.__getitem__, default=None), [_Acts([], [])]
    for act in local:
        if act.is_backward:
            steps[-1].backward.append(act)
        elif act.numbers and act.event.tid == thread:
            steps += [_Acts([], [])] if steps[-1].backward else []
            steps[-1].forward.append(act)
    return steps


def _layers(step: _Acts) -> list[_Acts]:
    """The acts of every layer, first the act that created its nodes of the backward."""
    creators: dict[int | None, int] = {
        number: k for k, act in enumerate(step.forward) for number in act.numbers
    }
    nodes = [creators.get(act.event.args.sequence) for act in step.backward]
    begins = sorted({k for k in nodes if k is not None})
    layers = [_Acts(step.forward[k:end], []) for k, end in pairwise([*begins, len(step.forward)])]
    current = layers[-1:]
    for act, node in zip(step.backward, nodes, strict=True):
        current = current if node is None else [layers[bisect_left(begins, node)]]
        for layer in current:
            layer.backward.append(act)
    return layers


def _layer(number: int, acts: _Acts, gradients: Sequence[_Input]) -> Layer:
    operation, inputs = acts.forward[0].event.name, _inputs(acts.forward[0])
    channels = inputs[0].shape[1:2] if operation == "aten::batch_norm" and inputs else ()
    running = inputs[3:5]  # mean and variance of a batch norm
    return Layer(
        f"{re.sub('[^A-Za-z0-9_.]+', '_', operation.rpartition('::')[2])[:60]}_{number}",
        forward=sum(act.seconds for act in acts.forward),
        backward=sum(act.seconds for act in acts.backward),
        tensors=tuple(
            Tensor(f"p{k}_{'x'.join(map(str, gradient.shape))[:60] or '1'}", gradient.nbytes)
            for k, gradient in enumerate(gradients)
        ),
        buffers=sum((state.nbytes for state in running), COUNTER) if channels else 0.0,
        channels=max(channels, default=0),
    )


def _inputs(act: TracedOperation) -> list[_Input]:
    dims, kinds = act.event.args.dims, act.event.args.types
    if not isinstance(dims, list) or not isinstance(kinds, list):
        return []
    inputs = []
    for sizes, kind in zip(dims, kinds, strict=False):
        is_shape = isinstance(sizes, list) and all(type(n) is int and 0 <= n < 2**63 for n in sizes)
        inputs.append(_Input(tuple(sizes) if is_shape else (), kind if type(kind) is str else ""))
    return inputs


def _gradient(act: TracedOperation, name: str) -> _Input:
    inputs = _inputs(act)
    if not inputs or not inputs[0].kind:
        raise InputError(
            f"{name} has no shapes and types of gradients (Input Dims, Input type): record with "
            f"torch.profiler.profile(record_shapes=True)"
        )
    if inputs[0].kind not in DTYPES:
        raise InputError(
            f"{name} has a gradient of type {inputs[0].kind[:60]!r}: known are {', '.join(DTYPES)}"
        )
    return inputs[0]


def _optimizer(acts: Sequence[TracedOperation], annotations: Sequence[TraceEvent]) -> float:
    """Median seconds of the operations of an optimizer's step."""
    starts, seconds = [act.event.ts for act in acts], list[float]()
    for step in annotations:
        if step.name.startswith("Optimizer.step#"):
            inside = acts[bisect_left(starts, step.ts) : bisect_right(starts, step.end)]
            seconds.append(sum(act.seconds for act in inside if act.event.tid == step.tid))
    return median_low(seconds or [0.0])
