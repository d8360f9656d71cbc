"""A torch module in training, and hooks on it: when its layers run, what they keep, and when their
gradients arrive.

A layer is one call of a module that has no children, or of a module that has parameters and calls
no such module. A layer lasts until the next layer begins: work between two layers belongs to the
earlier layer. Its backward ends when the last gradient of its parameters has arrived. Work before
the first layer and after the last, the loss included, belongs to no layer. A parameter belongs to
the layer in whose backward its gradient arrives. If several calls share it, this is the first call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from math import inf
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import nn, optim

from experiments.measure.device_clock import DeviceClock
from topologies.errors import InputError, refused

COPIED = 2**28
"""So many bytes are copied to measure the bandwidth of the memory."""


class HookedStep(NamedTuple):
    """A step of n layers as the hooks saw it."""

    names: tuple[str, ...]
    """The module of each layer, in the order in which they run; "" is the root."""
    forwards: list[float]
    """Seconds of the forward of each layer, and outside of layers: n + 1 times that add up."""
    backwards: list[float]
    """Seconds of the backward of each layer, and outside of layers."""
    owners: dict[str, int]
    """The layer in whose backward the gradient of each parameter arrives, in the order of arrival;
    n if it arrives outside of layers."""


def attributed(
    events: Iterable[tuple[float, int | str]], layers: int, since: float, end: float
) -> tuple[list[float], dict[str, int]]:
    """The seconds from `since` to `end` that belong to each layer, and to none; and the layer in
    which the gradient of each parameter arrives, `layers` for none.

    An event is the number of a layer that begins, or a parameter whose gradient arrives.
    """
    seconds, owners = [0.0] * (layers + 1), dict[str, int]()
    layer, arrived = layers, -inf
    for moment, event in events:
        if isinstance(event, str):
            owners[event], arrived = layer, moment
            continue
        until = arrived if arrived > since else moment
        seconds[layer] += until - since
        layer, since = event, until
    seconds[layer] += end - since
    return seconds, owners


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors in tuples, lists and mappings."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors(item)


class Hooks:
    """The hooks of one step, and what they see. Calls of modules are numbered as they begin."""

    def __init__(self, clock: DeviceClock) -> None:
        self.clock = clock
        self.in_forward = True
        """Whether the step is in its forward. Modules that run again in the backward are no
        layers."""
        self.calls = list[tuple[str, Any]]()
        """The module of each call, and the stamp at its start."""
        self._running = list[int]()
        self._callers = set[int]()
        self._last: Any = None
        self._events = list[tuple[Any, int | str]]()
        self._nodes = set[Any]()

    @contextmanager
    def on(self, module: nn.Module) -> Iterator[None]:
        """Put hooks on the layers and parameters of `module`, and take them off at the end."""
        with ExitStack() as hooks:
            for name, part in module.named_modules():
                if not list(part.children()) or list(part.parameters(recurse=False)):
                    hooks.enter_context(part.register_forward_pre_hook(partial(self._enter, name)))
                    hooks.enter_context(part.register_forward_hook(self._leave))
            for name, parameter in trained(module).items():
                see = partial(self._see, name)
                hooks.enter_context(parameter.register_post_accumulate_grad_hook(see))
            yield

    @property
    def layers(self) -> list[int]:
        """The calls that are layers: they have called none."""
        return [call for call in range(len(self.calls)) if call not in self._callers]

    def trace(self, start: Any, middle: Any, end: Any) -> HookedStep:
        """The step that began at the stamp `start`, with the stamps at the ends of its forward and
        its backward."""
        layers, n = self.layers, len(self.layers)
        number = {call: k for k, call in enumerate(layers)}
        begun = [*(self.calls[call][1] for call in layers), *[self._last] * bool(layers)]
        events = [event if isinstance(event, str) else number[event] for _, event in self._events]
        stamps = [*begun, *(stamp for stamp, _ in self._events)]
        middle, end, *times = self.clock.since(start, [middle, end, *stamps])
        rest = zip(times[len(begun) :], events, strict=True)
        forwards, _ = attributed(zip(times, range(len(begun)), strict=False), n, 0.0, middle)
        backwards, owners = attributed(rest, n, middle, end)
        names = tuple(self.calls[call][0] for call in layers)
        return HookedStep(names, forwards, backwards, owners)

    def _enter(self, name: str, *_: Any) -> None:
        if self.in_forward:
            self._callers.update(self._running[-1:])
            self._running.append(len(self.calls))
            self.calls.append((name, self.clock.stamp()))

    def _leave(self, _module: Any, _inputs: Any, outputs: Any) -> None:
        if not self.in_forward:
            return
        call, stamp = self._running.pop(), self.clock.stamp()
        nodes = {tensor.grad_fn for tensor in tensors(outputs)} - {None} - self._nodes
        self._nodes |= nodes
        if call not in self._callers:
            self._last = stamp
            for node in nodes:
                node.register_prehook(partial(self._see, call))

    def _see(self, event: int | str, *_: Any) -> None:
        self._events.append((self.clock.stamp(), event))


class TrainedModule:
    """A module in training on a device, after a first step."""

    def __init__(
        self,
        module: nn.Module,
        inputs: Any,
        loss: Callable[[Any], torch.Tensor],
        optimizer: Callable[[Any], optim.Optimizer],
        device: torch.device,
        title: str,
    ) -> None:
        """Raises InputError if the module, which users call `title`, cannot be trained."""
        self.loss, self.clock = loss, DeviceClock(device)
        with refused(f"{title} cannot run on {_shapes(inputs)}"):
            self.module = module.to(device).train()
            self.inputs = _to_device(inputs, device)
            self.outputs = self._forward()
        if not any(tensor.requires_grad for tensor in tensors(self.outputs)):
            raise InputError(f"{title} returns no tensor that requires grad: it cannot be trained")
        with refused(f"{title} has no backward on {_shapes(inputs)}"):
            loss(self.outputs).backward()
        self.optimizer = optimizer(trained(module).values())

    def step(self) -> list[float]:
        """Run a step; return the seconds of its forward with the loss, backward and optimizer."""
        start, middle, end = self._passes(Hooks(self.clock))
        self.optimizer.step()
        forward, both, whole = self.clock.since(start, [middle, end, self.clock.stamp()])
        return [forward, both - forward, whole - both]

    def traced(self) -> HookedStep:
        """Run a forward and a backward with hooks."""
        hooks = Hooks(self.clock)
        with hooks.on(self.module):
            return hooks.trace(*self._passes(hooks))

    def kept(self) -> list[float]:
        """Bytes that each layer keeps, and bytes kept outside of layers.

        Parameters, buffers and inputs do not count. A storage that several layers keep counts for
        the first of them.
        """
        hooks, module, kept = Hooks(self.clock), self.module, Counter[int]()
        arrays = [*module.parameters(), *module.buffers(), *tensors(self.inputs)]
        storages = {tensor.untyped_storage().data_ptr() for tensor in arrays}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.layout is torch.strided:
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in storages:
                    storages.add(storage.data_ptr())
                    kept[len(hooks.calls) - 1] += storage.nbytes()
            return tensor

        with hooks.on(module), torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
            self.loss(self._forward())
        inside = [float(kept[call]) for call in hooks.layers]
        return [*inside, float(kept.total()) - sum(inside)]

    def _forward(self) -> Any:
        if isinstance(self.inputs, Mapping):
            return self.module(**self.inputs)
        return self.module(*self.inputs)

    def _passes(self, hooks: Hooks) -> tuple[Any, Any, Any]:
        """Stamps before a forward with its loss, between it and its backward, and after both."""
        self.optimizer.zero_grad()
        start = self.clock.stamp()
        value = self.loss(self._forward())
        hooks.in_forward, middle = False, self.clock.stamp()
        value.backward()
        return start, middle, self.clock.stamp()


def find_device(name: str) -> torch.device:
    """The device cpu, cuda or cuda:1. Raises InputError if the machine does not have it."""
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise InputError(f"device {name!r}: it is cpu, cuda, or one of several like cuda:1")
    with refused(f"device {name!r} is not there"):
        return torch.empty(0, device=name).device


def mean_square(outputs: Any) -> torch.Tensor:
    """The sum of the mean squares of all outputs that require grad: a loss whose gradient is
    dense."""
    means = [tensor.float().square().mean() for tensor in tensors(outputs) if tensor.requires_grad]
    return torch.stack(means).sum()


def trained(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that get gradients, in the order of registration."""
    return {name: each for name, each in module.named_parameters() if each.requires_grad}


def _to_device(inputs: Any, device: torch.device) -> Any:
    if isinstance(inputs, Mapping):
        return dict(zip(inputs, _to_device(tuple(inputs.values()), device), strict=True))
    several = (inputs,) if hasattr(inputs, "to") else inputs
    return tuple(value.to(device) if hasattr(value, "to") else value for value in several)


def nbytes_of(value: Any) -> float:
    """Bytes of all tensors in a value."""
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors(value)))


def _shapes(inputs: Any) -> str:
    return ", ".join(
        f"{'x'.join(map(str, t.shape)) or 'a scalar'} of {str(t.dtype)[6:]}"
        for t in tensors(inputs)
    )


@cache
def memory_bandwidth(device: torch.device) -> float:
    """Bytes per second that a copy reads and writes."""
    clock, source = DeviceClock(device), torch.ones(COPIED, dtype=torch.uint8, device=device)
    target, seconds = source.clone(), list[float]()
    for _ in range(5):
        start = clock.stamp()
        target.copy_(source)
        seconds += clock.since(start, [clock.stamp()])
    return 2 * COPIED / median(seconds)
