"""Hooks on a torch module: when its layers run, what they keep, and when their gradients arrive.

A layer is one call of a module that has no children, or that owns parameters and calls no such
module. It lasts until the next one begins, so that what is computed between two layers counts to
the one before; its backward ends when the last gradient of its parameters is there. What comes
before the first layer and after the last, the loss included, is in none. A parameter belongs to the
layer in whose backward its gradient arrives: of several calls that share it, to the first.
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
    """What the hooks saw in a step of n layers; times are seconds since its start."""

    names: tuple[str, ...]
    """The module of each layer, in the order in which they run; "" is the root."""
    starts: tuple[float, ...]
    last: float
    """The end of the last layer's forward."""
    forward: float
    """The end of the forward and of its loss."""
    backward: float
    """The end of the backward."""
    events: tuple[tuple[float, int | str], ...]
    """Of the backward, in their order: the number of a layer that begins, or a parameter whose
    gradient is there."""


def forward_seconds(trace: Trace) -> list[float]:
    """The forward of each layer, and of what is in none: n + 1 times that add up to the whole."""
    layers = [end - start for start, end in pairwise([*trace.starts, trace.last])]
    return [*layers, sum(trace.starts[:1]) + trace.forward - trace.last]


def backward_seconds(trace: Trace) -> list[float]:
    """The backward of each layer, and of what is in none: n + 1 times that add up to the whole."""
    seconds = [0.0] * (len(trace.names) + 1)
    layer, since, arrived = len(trace.names), trace.forward, -inf
    for when, what in trace.events:
        if isinstance(what, str):
            arrived = when
            continue
        until = arrived if arrived > since else when
        seconds[layer] += until - since
        layer, since = what, until
    seconds[layer] += trace.backward - since
    return seconds


def owners(trace: Trace) -> dict[str, int]:
    """The layer in whose backward the gradient of each parameter arrives (n for none), in the order
    of arrival."""
    layer, found = len(trace.names), dict[str, int]()
    for _, what in trace.events:
        if isinstance(what, str):
            found[what] = layer
        else:
            layer = what
    return found


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in tuples, lists and mappings."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors(item)


class Clock:
    """Stamps, and the seconds between them: of the processor's clock, or events on the GPU's
    stream."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"

    def stamp(self) -> Any:
        """Now, where the work has come so far."""
        if not self._on_gpu:
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def since(self, first: Any, stamps: Sequence[Any]) -> list[float]:
        """Seconds from `first` to each of `stamps`; waits until the device has come so far."""
        if not self._on_gpu:
            return [stamp - first for stamp in stamps]
        import torch

        torch.cuda.synchronize()
        return [first.elapsed_time(stamp) / 1e3 for stamp in stamps]


@dataclass(eq=False)
class Call:
    """A forward of a module. `parted`: it has called others that are layers, and is none itself."""

    module: str
    start: Any
    end: Any = None
    parted: bool = False


@dataclass
class Hooks:
    """What they see in one step. `forwards` is no longer set in the backward, which may run modules
    again."""

    clock: Clock
    forwards: bool = True
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
        """Watch `module`."""
        handles: list[Any] = []
        for name, part in module.named_modules():
            if not any(True for _ in part.children()) or any(
                True for _ in part.parameters(recurse=False)
            ):
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
    def on_saved(self, held: Iterable[torch.Tensor]) -> Iterator[None]:
        """Watch what autograd keeps; what is `held` in any case is not counted."""
        import torch

        self._storages.update(tensor.untyped_storage().data_ptr() for tensor in held)
        with torch.autograd.graph.saved_tensors_hooks(self._keep, lambda kept: kept):
            yield

    def trace(self, start: Any, forward: Any, backward: Any) -> Trace:
        """What was seen in a step from the stamp `start`, whose forward and backward ended at these
        stamps."""
        layers = self.layers
        number = {layer: k for k, layer in enumerate(layers)}
        ends = [layers[-1].end if layers else start, forward, backward]
        begun = self.clock.since(start, [layer.start for layer in layers])
        ended = self.clock.since(start, ends)
        seen = self.clock.since(start, [stamp for stamp, _ in self.events])
        what = [each if isinstance(each, str) else number[each] for _, each in self.events]
        names = tuple(layer.module for layer in layers)
        return Trace(
            names, tuple(begun), ended[0], ended[1], ended[2], tuple(zip(seen, what, strict=True))
        )

    def kept(self) -> list[float]:
        """Bytes that each layer keeps, and that are kept in none: of a storage that several keep,
        the first of them."""
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

    def _see(self, what: Call | str, *_: Any) -> None:
        self.events.append((self.clock.stamp(), what))

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
