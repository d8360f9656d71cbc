"""A model as a training step needs it: layers with times, bytes and gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np

from topologies.errors import InputError
from topologies.topology import Floats

WIDTHS = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
"""Bytes of an element. tf32 is fp32 in memory."""
CPU_MEMORY = 204.8e9
"""The default memory bandwidth of a CPU in bytes/s: eight channels of DDR4-3200 (JEDEC
JESD79-4)."""


@dataclass(frozen=True)
class Tensor:
    """A parameter of `nbytes` bytes."""

    name: str
    nbytes: float


@dataclass(frozen=True)
class Layer:
    """A layer, with its times for one batch on one device."""

    name: str
    forward: float
    """Seconds; the mean if ranks differ."""
    backward: float
    """Seconds; the mean if ranks differ."""
    activation: float = 0.0
    """Bytes that are kept from the forward to the backward."""
    tensors: tuple[Tensor, ...] = ()
    """The parameters, in the order in which the layer registers them."""
    buffers: float = 0.0
    """Bytes of state that is no parameter, such as running statistics."""
    channels: int = 0
    """Channels of a batch norm."""
    arrival: tuple[int, ...] = ()
    """The numbers of the parameters in the order in which their gradients arrive, all when the
    backward ends. Empty: the last first, as in a linear layer."""
    forwards: tuple[float, ...] = ()
    """Seconds at rank 0, 1, ...; empty if all ranks are alike."""
    backwards: tuple[float, ...] = ()
    """Seconds at rank 0, 1, ...; empty if all ranks are alike."""

    def forward_of(self, ranks: int) -> Floats:
        """Seconds of the forward at each of `ranks` ranks."""
        return _each(self.forward, self.forwards, ranks)

    def backward_of(self, ranks: int) -> Floats:
        """Seconds of the backward at each of `ranks` ranks."""
        return _each(self.backward, self.backwards, ranks)

    @property
    def arriving(self) -> tuple[Tensor, ...]:
        """The parameters in the order in which their gradients arrive."""
        return tuple(self.tensors[k] for k in self.arrival) or self.tensors[::-1]

    @property
    def nbytes(self) -> float:
        """Bytes of the layer's parameters."""
        return sum(tensor.nbytes for tensor in self.tensors)


@dataclass(frozen=True)
class Model:
    """A model, with its times on one device. If ranks differ, all times have as many ranks."""

    name: str
    batch: int
    """Samples of a device in a step."""
    layers: tuple[Layer, ...]
    """The layers in the order in which they run."""
    dtype: str = "fp32"
    """Of the parameters."""
    gradient_dtype: str = "fp32"
    """Of the gradients as they travel."""
    optimizer: float = 0.0
    """Seconds of an update; the mean if ranks differ."""
    state: float = 1.0
    """Bytes of optimizer state for each byte of parameters."""
    inputs: float = 0.0
    """Bytes of a batch."""
    outputs: float = 0.0
    """Bytes that the last layer returns for a batch."""
    memory_bandwidth: float = inf
    """Of the device, bytes/s."""
    multiprocessors: int = 0
    """Of the device; 0: unknown, or none."""
    device: str = "unknown"
    source: str = "unknown"
    """Where the numbers are from."""
    registration: tuple[int, ...] = field(default=())
    """The numbers of the layers in the order in which the module registers them; empty: the order
    in which they run."""
    optimizers: tuple[float, ...] = ()
    """Seconds at rank 0, 1, ...; empty if all ranks are alike."""

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError(f"model {self.name} has no layers: give it one or more")
        if self.batch < 1:
            raise InputError(f"model {self.name} has a batch of {self.batch}: 1 or more")
        for quantity, dtype in (("dtype", self.dtype), ("gradient_dtype", self.gradient_dtype)):
            if dtype not in WIDTHS:
                raise InputError(
                    f"model {self.name} has the {quantity} {dtype!r}: it is one of "
                    f"{', '.join(WIDTHS)}"
                )
        for quantity in ("optimizer", "state", "inputs", "outputs", "multiprocessors"):
            _check(f"model {self.name}", quantity, getattr(self, quantity))
        if not self.memory_bandwidth > 0:
            raise InputError(
                f"model {self.name} has a memory bandwidth of {self.memory_bandwidth}: above 0"
            )
        for layer in self.layers:
            for quantity in ("forward", "backward", "activation", "buffers", "channels"):
                _check(f"layer {layer.name} of {self.name}", quantity, getattr(layer, quantity))
            self._check_ranks(
                f"layer {layer.name} of {self.name}",
                forwards=layer.forwards,
                backwards=layer.backwards,
            )
            for tensor in layer.tensors:
                _check(f"layer {layer.name} of {self.name}", tensor.name, tensor.nbytes)
            if layer.arrival and sorted(layer.arrival) != list(range(len(layer.tensors))):
                raise InputError(
                    f"layer {layer.name} of {self.name} has arrival {layer.arrival}: each "
                    f"parameter once"
                )
        self._check_ranks(f"model {self.name}", optimizers=self.optimizers)
        if not self.parameters > 0:
            raise InputError(f"model {self.name} has no gradients: no layer has a parameter")
        if self.registration and sorted(self.registration) != list(range(len(self.layers))):
            raise InputError(
                f"model {self.name} registers layers {self.registration}: each of them once"
            )

    def _check_ranks(self, owner: str, **times: tuple[float, ...]) -> None:
        for quantity, values in times.items():
            if len(values) != self.ranks:
                raise InputError(
                    f"{owner} has {quantity} of {len(values)} ranks, and the first layer of "
                    f"{self.ranks}"
                )
            for rank, seconds in enumerate(values):
                _check(f"{owner}, rank {rank},", quantity, seconds)

    @property
    def ranks(self) -> int:
        """The number of ranks that have times of their own; 0 if all are alike."""
        return len(self.layers[0].forwards)

    def forward_of(self, ranks: int) -> Floats:
        """Seconds of a whole forward at each of `ranks` ranks."""
        return np.asarray(sum(layer.forward_of(ranks) for layer in self.layers))

    def backward_of(self, ranks: int) -> Floats:
        """Seconds of a whole backward at each of `ranks` ranks."""
        return np.asarray(sum(layer.backward_of(ranks) for layer in self.layers))

    def optimizer_of(self, ranks: int) -> Floats:
        """Seconds of the optimizer at each of `ranks` ranks."""
        return _each(self.optimizer, self.optimizers, ranks)

    @property
    def forward(self) -> float:
        """Seconds of a whole forward."""
        return sum(layer.forward for layer in self.layers)

    @property
    def backward(self) -> float:
        """Seconds of a whole backward."""
        return sum(layer.backward for layer in self.layers)

    @property
    def compute(self) -> float:
        """Seconds of a step without waiting: forward, backward, optimizer."""
        return self.forward + self.backward + self.optimizer

    @cached_property
    def parameters(self) -> float:
        """Bytes of all parameters."""
        return sum(layer.nbytes for layer in self.layers)

    @property
    def gradient_width(self) -> float:
        """Bytes of gradient a byte of parameters."""
        return WIDTHS[self.gradient_dtype] / WIDTHS[self.dtype]

    @property
    def gradients(self) -> float:
        """Bytes of all gradients."""
        return self.parameters * self.gradient_width

    @property
    def buffers(self) -> float:
        """Bytes of state that is no parameter."""
        return sum(layer.buffers for layer in self.layers)

    @property
    def activations(self) -> float:
        """Bytes kept from forward to backward, all layers together."""
        return sum(layer.activation for layer in self.layers)

    @property
    def registered(self) -> tuple[int, ...]:
        """The layers in the order in which they are registered."""
        return self.registration or tuple(range(len(self.layers)))


def _each(mean: float, values: tuple[float, ...], ranks: int) -> Floats:
    if not values:
        return np.full(ranks, mean)
    if len(values) < ranks:
        raise InputError(
            f"the model has the times of {len(values)} ranks, {ranks} is too many: take "
            f"{len(values)} or fewer"
        )
    return np.array(values[:ranks], dtype=np.float64)


def _check(owner: str, quantity: str, value: float) -> None:
    if not 0 <= value < inf:
        raise InputError(f"{owner} has {quantity} = {value}: it is 0 or more")
