"""Hooks on a torch module: when its layers run, what they keep, and when their gradients arrive.

A layer is one call of a module that has no children, or of a module that has parameters and calls
no such module. A layer lasts until the next layer begins: work between two layers belongs to the
earlier layer. Its backward ends when the last gradient of its parameters has arrived. Work before
the first layer and after the last, the loss included, belongs to no layer. A parameter belongs to
the layer in whose backward its gradient arrives. If several calls share it, this is the first call.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch
    from torch import nn


class Trace(NamedTuple):
    """A step of n layers as the hooks saw it. Times are seconds since its start."""

    names: tuple[str, ...]
    """The module of each layer, in the order in which they run; "" is the root."""
    starts: tuple[float, ...]
    """The start of each layer's forward."""
    last: float
    """The end of the last layer's forward."""
    forward: float
    """The end of the forward and of its loss."""
    backward: float
    """The end of the backward."""
    events: tuple[tuple[float, int | str], ...]
    """The events of the backward, in their order, with their times.

    An event is the number of a layer whose backward begins, or a parameter whose gradient arrives.
    """


def forward_seconds(trace: Trace) -> list[float]:
    """Seconds of the forward of each layer, and outside of layers: n + 1 times that add up."""
    layers = [end - start for start, end in pairwise([*trace.starts, trace.last])]
    return [*layers, sum(trace.starts[:1]) + trace.forward - trace.last]


def backward_seconds(trace: Trace) -> list[float]:
    """Seconds of the backward of each layer, and outside of layers: n + 1 times that add up."""
    seconds = [0.0] * (len(trace.names) + 1)
    layer, since, arrived = len(trace.names), trace.forward, -inf
    for moment, event in trace.events:
        if isinstance(event, str):
            arrived = moment
            continue
        until = arrived if arrived > since else moment
        seconds[layer] += until - since
        layer, since = event, until
    seconds[layer] += trace.backward - since
    return seconds


def owners(trace: Trace) -> dict[str, int]:
    """The layer in whose backward the gradient of each parameter arrives, in the order of arrival.

    The layer is n if the gradient arrives outside of layers.
    """
    layer, layers = len(trace.names), dict[str, int]()
    for _, event in trace.events:
        if isinstance(event, str):
            layers[event] = layer
        else:
            layer = event
    return layers


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in tuples, lists and mappings."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors(item)


class Clock:
    """Times of a device: the processor's clock, or events on the GPU's stream."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"

    def stamp(self) -> Any:
        """The moment at which the device reaches this point of its work."""
        if not self._on_gpu:
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def since(self, first: Any, stamps: Sequence[Any]) -> list[float]:
        """Seconds from `first` to each of `stamps`. Waits until the device has reached the last."""
        if not self._on_gpu:
            return [stamp - first for stamp in stamps]
        import torch

        torch.cuda.synchronize()
        return [first.elapsed_time(stamp) / 1e3 for stamp in stamps]


@dataclass(eq=False)
class Call:
    """A forward of a module."""

    module: str
    start: Any
    end: Any = None
    parted: bool = False
    """Whether it has called layers: then it is no layer itself."""


@dataclass
class Hooks:
    """The hooks of one step, and what they see."""

    clock: Clock
    forwards: bool = True
    """Whether the step is in its forward. Modules that run again in the backward are no layers."""
    events: list[tuple[Any, Call | str]] = field(default_factory=list)
    _calls: list[Call] = field(default_factory=list)
    _open: list[Call] = field(default_factory=list)
    _nodes: set[Any] = field(default_factory=set)
    _storages: set[int] = field(default_factory=set)
    _kept: Counter[Call | None] = field(default_factory=Counter)

    @property
    def layers(self) -> list[Call]:
        """The calls that are layers, in the order in which they run."""
        return [call for call in self._calls if not call.parted]

    @contextmanager
    def on(self, module: nn.Module) -> Iterator[None]:
        """Put hooks on the layers and parameters of `module`, and take them off at the end."""
        handles: list[Any] = []
        for name, part in module.named_modules():
            if not list(part.children()) or list(part.parameters(recurse=False)):
                handles.append(part.register_forward_pre_hook(partial(self._enter, name)))
                handles.append(part.register_forward_hook(self._leave))
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                handles.append(
                    parameter.register_post_accumulate_grad_hook(partial(self._see, name))
                )
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def on_saved(self, tensors: Iterable[torch.Tensor]) -> Iterator[None]:
        """Count the bytes that autograd keeps, without those of `tensors`."""
        import torch

        self._storages.update(tensor.untyped_storage().data_ptr() for tensor in tensors)
        with torch.autograd.graph.saved_tensors_hooks(self._keep, lambda saved: saved):
            yield

    def trace(self, start: Any, forward: Any, backward: Any) -> Trace:
        """The step that began at the stamp `start`, with the stamps at the ends of its forward and
        its backward."""
        layers = self.layers
        number = {layer: k for k, layer in enumerate(layers)}
        events = [event if isinstance(event, str) else number[event] for _, event in self.events]
        begun = [layer.start for layer in layers]
        ended = [layers[-1].end if layers else start, forward, backward]
        times = self.clock.since(start, [*begun, *ended, *(stamp for stamp, _ in self.events)])
        names, starts = (layer.module for layer in layers), times[: len(layers)]
        last, middle, end = times[len(layers) : len(layers) + 3]
        seen = zip(times[len(layers) + 3 :], events, strict=True)
        return Trace(tuple(names), tuple(starts), last, middle, end, tuple(seen))

    def kept(self) -> list[float]:
        """Bytes that each layer keeps, and bytes kept outside of layers.

        A storage that several layers keep counts for the first of them.
        """
        layers = self.layers
        inside = [float(self._kept[layer]) for layer in layers]
        return [*inside, float(self._kept.total()) - sum(inside)]

    def _enter(self, name: str, *_: Any) -> None:
        if not self.forwards:
            return
        for caller in self._open[-1:]:
            caller.parted = True
        call = Call(name, self.clock.stamp())
        self._open.append(call)
        self._calls.append(call)

    def _leave(self, _module: Any, _inputs: Any, outputs: Any) -> None:
        if not self.forwards:
            return
        call = self._open.pop()
        call.end = self.clock.stamp()
        nodes = {tensor.grad_fn for tensor in tensors(outputs)} - {None} - self._nodes
        self._nodes |= nodes
        for node in nodes if not call.parted else ():
            node.register_prehook(partial(self._see, call))

    def _see(self, event: Call | str, *_: Any) -> None:
        self.events.append((self.clock.stamp(), event))

    def _keep(self, tensor: torch.Tensor) -> torch.Tensor:
        import torch

        if (
            tensor.layout is torch.strided
            and tensor.untyped_storage().data_ptr() not in self._storages
        ):
            storage = tensor.untyped_storage()
            self._storages.add(storage.data_ptr())
            self._kept[self._calls[-1] if self._calls else None] += storage.nbytes()
        return tensor
