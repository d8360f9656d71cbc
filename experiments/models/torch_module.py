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
from typing import TYPE_CHECKING, Any, NamedTuple

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
    place, title = find_device(training.device), name or type(module).__name__
    run = TrainedModule(module, inputs, loss or mean_square, place)
    outputs = run.started(title)
    sizes = nbytes_of(run.inputs), nbytes_of(outputs)
    about = _About(title, training.optimizer, place, _batch(run.inputs, batch), sizes)
    run.optimize(training.optimizer)
    measured = _Measured(run.kept(), [], [])
    count = training.steps + training.warmup
    for step in range(count):
        total, trace = run.step(), run.traced()
        if step >= training.warmup:
            measured.totals.append(total)
            measured.traces.append(trace)
        if progress:
            progress(step + 1, count)
    measured.check(title)
    return _model(module, about, measured)


class _About(NamedTuple):
    name: str
    optimizer: str
    device: torch.device
    batch: int
    sizes: tuple[float, float]
    """Bytes of inputs and outputs."""


class _Measured(NamedTuple):
    kept: list[float]
    """Bytes of activations that each layer keeps."""
    totals: list[list[float]]
    """Seconds of forward, backward and optimizer in each step without hooks."""
    traces: list[Trace]
    """The steps with hooks."""

    def check(self, title: str) -> None:
        """Raise InputError unless all steps have the same layers."""
        if len({trace.names for trace in self.traces}) > 1 or len(self.traces[0].names) + 1 != len(
            self.kept
        ):
            raise InputError(
                f"{title} does not run the same layers in every step: none can be the model of all"
            )

    def shares(self, seconds: Callable[[Trace], list[float]], part: int) -> list[float]:
        """Median seconds of each layer, scaled so that they add up to the median total."""
        medians = [median(times) for times in zip(*map(seconds, self.traces), strict=True)]
        scale = median(total[part] for total in self.totals) / sum(medians)
        return [scale * median for median in medians]

    def overhead(self) -> float:
        """The cost of the hooks, as a share of a forward and a backward without them."""
        return (
            median(t.backward for t in self.traces) / median(t[0] + t[1] for t in self.totals) - 1
        )


def _model(module: nn.Module, about: _About, measured: _Measured) -> Model:
    parameters, owned = trained(module), owners(measured.traces[0])
    _note_unused(about.name, parameters, owned)
    layers = _layers(module, measured, {name: owned[name] for name in owned if name in parameters})
    inputs, outputs = about.sizes
    return Model(
        name=about.name,
        batch=about.batch,
        layers=layers,
        dtype=_dtype(parameters.values(), about.name),
        gradient_dtype=_dtype(
            (p.grad for p in parameters.values() if p.grad is not None), about.name
        ),
        optimizer=median(total[2] for total in measured.totals),
        state=STATE[about.optimizer],
        inputs=inputs,
        outputs=outputs,
        memory_bandwidth=memory_bandwidth(about.device),
        multiprocessors=_multiprocessors(about.device),
        device=_hardware(about.device),
        source=_source(about, measured),
        registration=_registration(module, layers, measured.traces[0].names),
    )


def _layers(module: nn.Module, measured: _Measured, owned: Mapping[str, int]) -> tuple[Layer, ...]:
    """The layers. `owned` maps each parameter, in the order in which the gradients arrive, to the
    layer in which its gradient arrives."""
    run = measured.traces[0].names
    parameters, buffers = dict(module.named_parameters()), _buffers(module, run)
    registered = [
        [name for name in parameters if owned.get(name) == k] for k in range(len(run) + 1)
    ]
    arriving = [[name for name in owned if owned[name] == k] for k in range(len(run) + 1)]
    times = zip(
        measured.shares(forward_seconds, 0), measured.shares(backward_seconds, 1), strict=True
    )
    return tuple(
        Layer(
            name,
            forward,
            backward,
            activation=measured.kept[k],
            tensors=tuple(
                Tensor(parameter, nbytes_of([parameters[parameter]])) for parameter in registered[k]
            ),
            buffers=buffers[k],
            channels=_channels(module.get_submodule(run[k])) if k < len(run) else 0,
            arrival=_arrival(registered[k], arriving[k]),
        )
        for k, (name, (forward, backward)) in enumerate(
            zip(_names(module, run), times, strict=True)
        )
    )


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
    owners = [
        layer.tensors[0].name.rpartition(".")[0] if layer.tensors else None for layer in layers
    ]
    called = [*(order[name] for name in run), len(order)]
    return tuple(
        sorted(
            range(len(layers)), key=lambda k: called[k] if owners[k] is None else order[owners[k]]
        )
    )


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


def _batch(inputs: Any, batch: int | None) -> int:
    first = next(tensors(inputs), None)
    return (
        batch
        if batch is not None
        else int(first.shape[0])
        if first is not None and first.dim()
        else 1
    )


def _hardware(device: torch.device) -> str:
    import torch

    return (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else platform.processor() or platform.machine()
    )


def _multiprocessors(device: torch.device) -> int:
    """Of a GPU; 0 for a CPU."""
    import torch

    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _source(about: _About, measured: _Measured) -> str:
    import torch

    where = (
        str(about.device)
        if about.device.type == "cuda"
        else f"cpu ({torch.get_num_threads()} threads)"
    )
    version = torch.__version__.partition("+")[0]
    return (
        f"measured: torch {version} on {where}, median of {len(measured.traces)} steps, "
        f"{date.today()}; "
        f"hooks cost {measured.overhead():+.1%}, which is not in it"
    )
