"""A torch module as a model: times and bytes of its layers, measured by training it for a few
steps.

:mod:`experiments.models.hooks` defines what a layer is. Everything outside of the layers is the
last layer, "other". A module that is called again makes another layer, `name#2`.
"""

from __future__ import annotations

import logging
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.models.hooks import Trace, backward_seconds, forward_seconds, owners, tensors
from experiments.models.torch_run import (
    TrainedModule,
    find_device,
    mean_square,
    memory_bandwidth,
    nbytes_of,
    require_torch,
    trained,
)
from simulator.training.model import Layer, Model, Tensor
from topologies.errors import InputError
from topologies.units import format_bytes

if TYPE_CHECKING:
    import torch
    from torch import nn

logger = logging.getLogger("simctl")

OTHER = "other"
STATE = {"sgd": 1.0, "adamw": 2.0}
"""The optimizers (SGD with momentum), and the bytes that each keeps for a byte of parameters."""
DTYPES = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class Training:
    """How a module is trained while it is measured."""

    steps: int = 5
    """Steps that are measured."""
    warmup: int = 2
    """Steps before them."""
    device: str = "cpu"
    """The device, like "cpu" or "cuda:1"."""
    optimizer: str = "sgd"
    """The optimizer, "sgd" or "adamw"."""

    def __post_init__(self) -> None:
        if self.steps < 1 or self.warmup < 0:
            raise InputError(
                f"steps = {self.steps}, warmup = {self.warmup}: 1 or more steps after 0 or more"
            )
        if self.optimizer not in STATE:
            raise InputError(f"optimizer {self.optimizer!r}: it is one of {', '.join(STATE)}")


def profile(
    module: nn.Module,
    inputs: torch.Tensor | Sequence[Any] | Mapping[str, Any],
    training: Training | None = None,
    *,
    loss: Callable[[Any], torch.Tensor] | None = None,
    name: str = "",
    batch: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Model:
    """Train `module` for a few steps, and return the times and bytes of its layers.

    The `inputs` are one tensor, several, or tensors by keyword. The `loss` makes a scalar of the
    outputs; by default it is their mean square. The default `batch` is the first size of the first
    input.

    Times are medians over the measured steps. Totals are measured without hooks. Steps with hooks
    give each layer's share of the totals. The learning rate is 0, but the statistics of batch norms
    change. Raises InputError if the module cannot be trained in this way.
    """
    require_torch()
    training = training or Training()
    device, title = find_device(training.device), name or type(module).__name__
    run = TrainedModule(module, inputs, loss or mean_square, device)
    outputs = run.started(title)
    run.optimize(training.optimizer)
    kept, totals, traces = run.kept(), list[list[float]](), list[Trace]()
    count = training.steps + training.warmup
    for step in range(count):
        total, trace = run.step(), run.traced()
        if step >= training.warmup:
            totals.append(total)
            traces.append(trace)
        if progress:
            progress(step + 1, count)
    if len({trace.names for trace in traces}) > 1 or len(traces[0].names) + 1 != len(kept):
        raise InputError(
            f"{title} does not run the same layers in every step: none can be the model of all"
        )
    forward, backward, optimizer = (median(seconds) for seconds in zip(*totals, strict=True))
    forwards = _scaled(map(forward_seconds, traces), forward)
    backwards = _scaled(map(backward_seconds, traces), backward)
    layers = _layers(module, traces[0], title, kept, zip(forwards, backwards, strict=True))
    parameters = trained(module).values()
    gradients = (each.grad for each in parameters if each.grad is not None)
    hooked = median(trace.backward for trace in traces) / median(f + b for f, b, _ in totals) - 1
    hardware, multiprocessors, place = _hardware(device)
    return Model(
        name=title,
        batch=_batch(run.inputs) if batch is None else batch,
        layers=layers,
        dtype=_dtype(parameters, title),
        gradient_dtype=_dtype(gradients, title),
        optimizer=optimizer,
        state=STATE[training.optimizer],
        inputs=nbytes_of(run.inputs),
        outputs=nbytes_of(outputs),
        memory_bandwidth=memory_bandwidth(device),
        multiprocessors=multiprocessors,
        device=hardware,
        source=f"measured: {place}, median of {len(traces)} steps, {date.today()}; hooks cost "
        f"{hooked:+.1%}, which is not in it",
        registration=_registration(module, layers, traces[0].names),
    )


def _scaled(times: Iterable[list[float]], total: float) -> list[float]:
    """The median seconds of each layer over steps, scaled so that they add up to `total`."""
    medians = [median(seconds) for seconds in zip(*times, strict=True)]
    return [total / sum(medians) * seconds for seconds in medians]


def _layers(
    module: nn.Module,
    trace: Trace,
    title: str,
    kept: Sequence[float],
    times: Iterable[tuple[float, float]],
) -> tuple[Layer, ...]:
    """The layers of a step, with the bytes that each keeps, and seconds of forward and backward."""
    run, parameters, owned = trace.names, trained(module), owners(trace)
    _note_unused(title, parameters, owned)
    nbytes = {name: nbytes_of([parameter]) for name, parameter in parameters.items()}
    buffers = _buffers(module, run)
    layers = []
    for k, (name, (forward, backward)) in enumerate(zip(_names(module, run), times, strict=True)):
        registered = [name for name in parameters if owned.get(name) == k]
        arriving = [name for name in owned if owned[name] == k and name in parameters]
        layer = Layer(
            name,
            forward,
            backward,
            activation=kept[k],
            tensors=tuple(Tensor(each, nbytes[each]) for each in registered),
            buffers=buffers[k],
            channels=_channels(module.get_submodule(run[k])) if k < len(run) else 0,
            arrival=_arrival(registered, arriving),
        )
        layers.append(layer)
    return tuple(layers)


def _arrival(registered: list[str], arriving: list[str]) -> tuple[int, ...]:
    """The order of arrival, or () if the last registered parameter arrives first."""
    return () if arriving == registered[::-1] else tuple(map(registered.index, arriving))


def _names(module: nn.Module, run: Sequence[str]) -> list[str]:
    """A name for each layer: `fc`, and `fc#2` when it is called again."""
    calls: Counter[str] = Counter()
    names = []
    for name in [*(name or type(module).__name__ for name in run), OTHER]:
        calls[name] += 1
        names.append(name if calls[name] == 1 else f"{name}#{calls[name]}")
    return names


def _buffers(module: nn.Module, run: Sequence[str]) -> list[float]:
    """Bytes of the buffers of each layer, and of those outside of all layers.

    If a module is called several times, its buffers belong to its first layer.
    """
    nbytes = [0.0] * (len(run) + 1)
    for name, buffer in module.named_buffers():
        owner = name.rpartition(".")[0]
        nbytes[run.index(owner) if owner in run else -1] += nbytes_of([buffer])
    return nbytes


def _channels(module: nn.Module) -> int:
    from torch.nn.modules.batchnorm import _BatchNorm

    return int(module.num_features) if isinstance(module, _BatchNorm) else 0


def _registration(
    module: nn.Module, layers: Sequence[Layer], run: Sequence[str]
) -> tuple[int, ...]:
    """The layers in the order in which the module registers them.

    A layer counts as registered with the module of its first parameter or, without parameters, with
    the module that it is a call of.
    """
    order = {name: k for k, (name, _) in enumerate(module.named_modules())}
    places = [*(order[name] for name in run), len(order)]
    for k, layer in enumerate(layers):
        for tensor in layer.tensors[:1]:
            places[k] = order[tensor.name.rpartition(".")[0]]
    return tuple(sorted(range(len(layers)), key=places.__getitem__))


def _note_unused(
    title: str, parameters: Mapping[str, nn.Parameter], used: Mapping[str, int]
) -> None:
    unused = [name for name in parameters if name not in used]
    if unused:
        size = format_bytes(nbytes_of([parameters[name] for name in unused]))
        logger.warning(
            "%d parameters of %s (%s) are registered but get no gradient, and are left out: %s",
            len(unused),
            title,
            size,
            ", ".join([*unused[:5], *["..."] * (len(unused) > 5)]),
        )


def _dtype(parameters: Iterable[torch.Tensor], title: str) -> str:
    """The dtype of most bytes. Raises InputError for a dtype that a model cannot have."""
    nbytes: Counter[str] = Counter()
    for parameter in parameters:
        nbytes[str(parameter.dtype).removeprefix("torch.")] += int(nbytes_of([parameter]))
    name = max(nbytes, key=nbytes.__getitem__)
    if name not in DTYPES:
        raise InputError(
            f"{title} has parameters or gradients of {name}: it is one of {', '.join(DTYPES)}"
        )
    return DTYPES[name]


def _batch(inputs: Any) -> int:
    first = next(tensors(inputs), None)
    return int(first.shape[0]) if first is not None and first.dim() else 1


def _hardware(device: torch.device) -> tuple[str, int, str]:
    """The name of a device, the multiprocessors of a GPU, and torch on the device."""
    import torch

    version = f"torch {torch.__version__.partition('+')[0]} on"
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return properties.name, int(properties.multi_processor_count), f"{version} {device}"
    name = platform.processor() or platform.machine()
    return name, 0, f"{version} cpu ({torch.get_num_threads()} threads)"
