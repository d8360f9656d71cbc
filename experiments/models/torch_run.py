"""A torch module in training: its steps, with hooks and without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.models.hooks import Clock, Hooks, Trace, tensors
from topologies.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import nn

COPIED = 2**28
"""So many bytes are copied to measure the bandwidth of the memory."""
COPIES = 5


def require_torch() -> None:
    """Raise InputError if torch is not installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise InputError(
            "profiling a module needs torch, which is not installed: pip install '.[torch]'"
        ) from None


def find_device(name: str) -> torch.device:
    """The device cpu, cuda or cuda:1. Raises InputError if the machine does not have it."""
    import torch

    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise InputError(f"device {name!r}: it is cpu, cuda, or one of several like cuda:1")
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if int(number or 0) >= count:
        raise InputError(f"device {name!r} is not there: torch sees {count} of the kind")
    return torch.device(name)


def mean_square(outputs: Any) -> torch.Tensor:
    """The sum of the mean squares of all outputs that require grad: a loss whose gradient is
    dense."""
    import torch

    means = [tensor.float().square().mean() for tensor in tensors(outputs) if tensor.requires_grad]
    return torch.stack(means).sum()


@dataclass
class TrainedModule:
    """A module in training on a device."""

    module: nn.Module
    inputs: Any
    loss: Callable[[Any], torch.Tensor]
    device: torch.device
    optimizer: Any = None

    def __post_init__(self) -> None:
        self.clock = Clock(self.device)

    def started(self, title: str) -> Any:
        """Move the module to the device, run a first step, and return its outputs.

        Raises InputError if the module cannot be trained.
        """
        try:
            self.module = self.module.to(self.device).train()
            self.inputs = to_device(self.inputs, self.device)
            outputs = self.forward()
        except Exception as error:
            raise InputError(
                f"{title} cannot run on {shapes(self.inputs)}: {first_line(error)}"
            ) from None
        if not any(tensor.requires_grad for tensor in tensors(outputs)):
            raise InputError(f"{title} returns no tensor that requires grad: it cannot be trained")
        try:
            self.loss(outputs).backward()
        except Exception as error:
            raise InputError(
                f"{title} has no backward on {shapes(self.inputs)}: {first_line(error)}"
            ) from None
        return outputs

    def optimize(self, name: str) -> None:
        """Choose an optimizer; its learning rate is 0, so that it changes no parameter."""
        import torch

        parameters, optim = trained(self.module).values(), torch.optim
        self.optimizer = (
            optim.AdamW(parameters, lr=0.0)
            if name == "adamw"
            else optim.SGD(parameters, lr=0.0, momentum=0.9)
        )

    def forward(self) -> Any:
        """Run the module and return its outputs."""
        if isinstance(self.inputs, Mapping):
            return self.module(**self.inputs)
        return self.module(*self.inputs)

    def step(self) -> list[float]:
        """Run a step; return the seconds of its forward with the loss, backward and optimizer."""
        self.optimizer.zero_grad()
        start = self.clock.stamp()
        value = self.loss(self.forward())
        middle = self.clock.stamp()
        value.backward()
        end = self.clock.stamp()
        self.optimizer.step()
        at = self.clock.since(start, [middle, end, self.clock.stamp()])
        return [at[0], at[1] - at[0], at[2] - at[1]]

    def traced(self) -> Trace:
        """Run a forward and a backward with hooks."""
        self.optimizer.zero_grad()
        hooks = Hooks(self.clock)
        with hooks.on(self.module):
            start = self.clock.stamp()
            value = self.loss(self.forward())
            hooks.forwards, middle = False, self.clock.stamp()
            value.backward()
            end = self.clock.stamp()
        return hooks.trace(start, middle, end)

    def kept(self) -> list[float]:
        """Bytes that each layer keeps, and bytes kept outside of layers.

        Parameters, buffers and inputs do not count.
        """
        hooks, module = Hooks(self.clock), self.module
        held = [*module.parameters(), *module.buffers(), *tensors(self.inputs)]
        with hooks.on(module), hooks.on_saved(held):
            self.loss(self.forward())
        return hooks.kept()


def trained(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that get gradients, in the order of registration."""
    return {
        name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad
    }


def first_line(error: BaseException) -> str:
    """The first line of the message of an exception."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def to_device(inputs: Any, device: torch.device) -> Any:
    """The inputs as a tuple or a mapping of tensors on the device."""
    if isinstance(inputs, Mapping):
        return dict(zip(inputs, to_device(tuple(inputs.values()), device), strict=True))
    several = (inputs,) if hasattr(inputs, "to") else inputs
    return tuple(value.to(device) if hasattr(value, "to") else value for value in several)


def nbytes_of(value: Any) -> float:
    """Bytes of all tensors in a value."""
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors(value)))


def shapes(inputs: Any) -> str:
    """Shapes and types of all tensors, as text."""
    return ", ".join(
        f"{'x'.join(map(str, t.shape)) or 'a scalar'} of {str(t.dtype)[6:]}"
        for t in tensors(inputs)
    )


@cache
def memory_bandwidth(device: torch.device) -> float:
    """Bytes per second that a copy reads and writes."""
    import torch

    clock, source = Clock(device), torch.ones(COPIED, dtype=torch.uint8, device=device)
    target, seconds = source.clone(), list[float]()
    for _ in range(COPIES):
        start = clock.stamp()
        target.copy_(source)
        seconds += clock.since(start, [clock.stamp()])
    return 2 * COPIED / median(seconds)
