"""A torch module as a model: times and bytes of its layers, measured by training it for a few
steps.

:mod:`experiments.models.torch_run` defines what a layer is. Everything outside of the layers is the
last layer, "other". A module that is called again makes another layer, `name#2`.
"""

from __future__ import annotations

import logging
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import nn, optim
from torch.nn.modules.batchnorm import _BatchNorm

from experiments.models import torch_run
from experiments.models.torch_run import HookedStep, nbytes_of, tensors, trained
from simulator.training.model import Layer, Model, Tensor
from topologies.errors import InputError
from topologies.units import format_bytes

logger = logging.getLogger("simctl")

OPTIMIZERS: dict[str, tuple[float, Callable[[Any], optim.Optimizer]]] = {
    "sgd": (1.0, partial(optim.SGD, lr=0.0, momentum=0.9)),
    "adamw": (2.0, partial(optim.AdamW, lr=0.0)),
}
"""The optimizers: the bytes that each keeps for a byte of parameters, and what makes it of the
parameters, which a learning rate of 0 leaves as they are."""
DTYPES = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class ModuleTraining:
    """How a module is trained while it is measured."""

    steps: int = 5
    """Steps that are measured."""
    warmup: int = 2
    """Steps before them."""
    device: str = "cpu"
    optimizer: str = "sgd"

    def __post_init__(self) -> None:
        if self.steps < 1 or self.warmup < 0:
            raise InputError(
                f"steps = {self.steps}, warmup = {self.warmup}: 1 or more steps after 0 or more"
            )
        if self.optimizer not in OPTIMIZERS:
            raise InputError(f"optimizer {self.optimizer!r}: it is one of {', '.join(OPTIMIZERS)}")


def profile(
    module: nn.Module,
    inputs: torch.Tensor | Sequence[Any] | Mapping[str, Any],
    training: ModuleTraining | None = None,
    *,
    loss: Callable[[Any], torch.Tensor] = torch_run.mean_square,
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
    training = training or ModuleTraining()
    device, title = torch_run.find_device(training.device), name or type(module).__name__
    state, make = OPTIMIZERS[training.optimizer]
    run = torch_run.TrainedModule(module, inputs, loss, make, device, title)
    kept, totals, traces = run.kept(), list[list[float]](), list[HookedStep]()
    count = training.steps + training.warmup
    for step in range(count):
        totals.append(run.step())
        traces.append(run.traced())
        if progress:
            progress(step + 1, count)
    del totals[: training.warmup], traces[: training.warmup]
    if len({trace.names for trace in traces}) > 1 or len(traces[0].names) + 1 != len(kept):
        raise InputError(
            f"{title} does not run the same layers in every step: none can be the model of all"
        )
    forward, backward, optimizer = (median(seconds) for seconds in zip(*totals, strict=True))
    forwards = _scaled([trace.forwards for trace in traces], forward)
    backwards = _scaled([trace.backwards for trace in traces], backward)
    layers = tuple(_layers(module, traces[0], zip(forwards, backwards, kept, strict=True)))
    parameters = trained(module)
    if unused := [each for each in parameters if each not in traces[0].owners]:
        logger.warning(
            "%d parameters of %s (%s) are registered but get no gradient, and are left out: %s",
            len(unused),
            title,
            format_bytes(nbytes_of([parameters[each] for each in unused])),
            ", ".join([*unused[:5], *["..."] * (len(unused) > 5)]),
        )
    gradients = (each.grad for each in parameters.values() if each.grad is not None)
    seconds = [sum(trace.forwards) + sum(trace.backwards) for trace in traces]
    hooked = median(seconds) / median(f + b for f, b, _ in totals) - 1
    hardware, multiprocessors, place = _hardware(device)
    first = next(tensors(run.inputs), None)
    samples = int(first.shape[0]) if first is not None and first.dim() else 1
    return Model(
        name=title,
        batch=samples if batch is None else batch,
        layers=layers,
        dtype=_dtype(parameters.values(), title),
        gradient_dtype=_dtype(gradients, title),
        optimizer=optimizer,
        state=state,
        inputs=nbytes_of(run.inputs),
        outputs=nbytes_of(run.outputs),
        memory_bandwidth=torch_run.memory_bandwidth(device),
        multiprocessors=multiprocessors,
        device=hardware,
        source=f"measured: {place}, median of {len(traces)} steps, {date.today()}; hooks cost "
        f"{hooked:+.1%}, which is not in it",
        registration=_registration(module, layers, traces[0].names),
    )


def _scaled(times: list[list[float]], total: float) -> list[float]:
    """The median seconds of each layer over steps, scaled so that they add up to `total`."""
    medians = [median(seconds) for seconds in zip(*times, strict=True)]
    return [total / sum(medians) * seconds for seconds in medians]


def _layers(
    module: nn.Module, trace: HookedStep, costs: Iterable[tuple[float, float, float]]
) -> Iterator[Layer]:
    """The layers of a step, with seconds of forward and backward and the bytes that each keeps.

    If a module is called several times, its buffers belong to its first layer.
    """
    run, parameters, owners, calls = trace.names, trained(module), trace.owners, Counter[str]()
    buffers = Counter[int]()
    for name, buffer in module.named_buffers():
        owner = name.rpartition(".")[0]
        buffers[run.index(owner) if owner in run else len(run)] += int(nbytes_of([buffer]))
    for k, (forward, backward, kept) in enumerate(costs):
        part = module.get_submodule(run[k]) if k < len(run) else None
        name = "other" if part is None else run[k] or type(module).__name__
        calls[name] += 1
        registered = [each for each in parameters if owners.get(each) == k]
        arriving = [each for each in owners if owners[each] == k]
        yield Layer(
            name if calls[name] == 1 else f"{name}#{calls[name]}",
            forward,
            backward,
            activation=kept,
            tensors=tuple(Tensor(each, nbytes_of([parameters[each]])) for each in registered),
            buffers=float(buffers[k]),
            channels=int(part.num_features) if isinstance(part, _BatchNorm) else 0,
            # Empty: the last registered parameter arrives first.
            arrival=tuple(map(registered.index, arriving)) if arriving != registered[::-1] else (),
        )


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


def _dtype(parameters: Iterable[torch.Tensor], title: str) -> str:
    nbytes: Counter[str] = Counter()
    for parameter in parameters:
        nbytes[str(parameter.dtype).removeprefix("torch.")] += int(nbytes_of([parameter]))
    name = max(nbytes, key=nbytes.__getitem__)
    if name not in DTYPES:
        raise InputError(
            f"{title} has parameters or gradients of {name}: it is one of {', '.join(DTYPES)}"
        )
    return DTYPES[name]


def _hardware(device: torch.device) -> tuple[str, int, str]:
    """The name of a device, the multiprocessors of a GPU, and torch on the device."""
    version = f"torch {torch.__version__.partition('+')[0]} on"
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return properties.name, int(properties.multi_processor_count), f"{version} {device}"
    name = platform.processor() or platform.machine()
    return name, 0, f"{version} cpu ({torch.get_num_threads()} threads)"
